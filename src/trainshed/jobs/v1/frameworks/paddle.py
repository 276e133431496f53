"""PaddlePaddle: the options of `paddle.distributed.launch` through the environment.

The launchers meet at the first pod: the master if there is one, else worker 0. It listens on its own address, which
only the node knows and fills in for `$(POD_IP_DUMMY)`; all others find it by name.
Source: the environment table of the Kubeflow training operator v1.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.api.v1.paddle import MASTER, PADDLEJOB, WORKER
from trainshed.jobs.engine.job import Replica
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.jobs.v1.frameworks.base import ContainerPatch, Framework, PodPatch, port_of, variable
from trainshed.jobs.v1.job import Job
from trainshed.kube.meta.objects import Object

_OWN_ADDRESS = "POD_IP_DUMMY"
_ROLES = {MASTER: "PADDLE_SERVER_NUM", WORKER: "PADDLE_TRAINER_NUM"}
"""What makes a pod a server or a trainer where there is a master, and how many of them it runs: one."""


class Paddle(Framework):
    """The framework of PaddleJob."""

    kind = PADDLEJOB

    def is_master(self, job: Job, replica: Replica, index: int) -> bool:
        """Every master if there is one, else the first worker."""
        if job.replica(MASTER) is not None:
            return replica.type == MASTER
        return replica.type == WORKER and index == 0

    def patch(self, job: Job, replica: Replica, index: int, options: OperatorOptions) -> PodPatch:
        """Return the environment of one pod."""
        return PodPatch(containers=(ContainerPatch(env=tuple(environment(job, replica, index))),))

    def running_message(self, job: Job) -> str:
        """With a master, the name is enough."""
        return f"{job.kind.name} {_called(job)} is running."

    def succeeded_message(self, job: Job) -> str:
        """With a master, the name is enough."""
        verb = "is successfully" if job.replica(MASTER) is not None else "successfully"
        return f"{job.kind.name} {_called(job)} {verb} completed."


def environment(job: Job, replica: Replica, index: int) -> Iterator[Object]:
    """Yield the variables of one pod in the order in which they are appended."""
    yield variable("PYTHONUNBUFFERED", "1")
    yield variable("PADDLE_JOB_ID", job.name)
    yield variable("PADDLE_NNODES", str(job.total_replicas))
    first = job.replica(MASTER) or job.replica(WORKER) or replica
    port = port_of(job, first)
    if replica.type == first.type and index == 0:
        yield {"name": _OWN_ADDRESS, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        yield variable("PADDLE_MASTER", f"$({_OWN_ADDRESS}):{port}")
    else:
        yield variable("PADDLE_MASTER", f"{job.child_name(first.type, 0)}:{port}")
    if first.type == MASTER:
        yield variable(_ROLES[replica.type], "1")


def _called(job: Job) -> str:
    return job.name if job.replica(MASTER) is not None else f"{job.namespace}/{job.name}"
