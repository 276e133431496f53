"""JAX: the arguments of `jax.distributed.initialize` through the environment.

Worker 0 is the coordinator, and worker i is process i: `initialize` has to be called with what the variables say.
Source: the environment table of the Kubeflow training operator v1 (1.9).
"""

from __future__ import annotations

from trainshed.api.v1.jax import JAXJOB, WORKER
from trainshed.jobs.engine.job import Replica
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.jobs.v1.frameworks.base import ContainerPatch, Framework, PodPatch, port_of, variable
from trainshed.jobs.v1.job import Job


class JAX(Framework):
    """The framework of JAXJob."""

    kind = JAXJOB

    def patch(self, job: Job, replica: Replica, index: int, options: OperatorOptions) -> PodPatch:
        """Return where the coordinator is, how many processes there are, and which of them this one is."""
        env = (
            variable("PYTHONUNBUFFERED", "1"),
            variable("COORDINATOR_PORT", str(port_of(job, job.replica(WORKER)))),
            variable("COORDINATOR_ADDRESS", job.child_name(WORKER, 0)),
            variable("NUM_PROCESSES", str(job.total_replicas)),
            variable("PROCESS_ID", str(index)),
        )
        return PodPatch(containers=(ContainerPatch(env=env),))

    def running_message(self, job: Job) -> str:
        """Return the message of the condition Running, with the namespace."""
        return f"{job.kind.name} {job.namespace}/{job.name} is running."

    def succeeded_message(self, job: Job) -> str:
        """Return the message of the condition Succeeded, with the namespace."""
        return f"{job.kind.name} {job.namespace}/{job.name} successfully completed."
