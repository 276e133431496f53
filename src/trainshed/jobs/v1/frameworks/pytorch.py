"""PyTorch: ranks and rendezvous through the environment that `torch.distributed` and torchrun read.

With a master, the job has a fixed world: the master is rank 0 and worker i is rank i+1 (of nodes, for torchrun).
With workers alone, torchrun finds its ranks by rendezvous. Variables that begin with PET_ are torchrun's options.
Source: the environment table of the Kubeflow training operator v1; torch.distributed.run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from trainshed.api.v1.pytorch import MASTER, PYTORCHJOB, WORKER, ElasticPolicy
from trainshed.jobs.engine import constants as c
from trainshed.jobs.engine.job import Replica
from trainshed.jobs.engine.model import Flag, OperatorOptions
from trainshed.jobs.engine.owned import Owned, Owns
from trainshed.jobs.v1.containertemplate import render
from trainshed.jobs.v1.frameworks.base import (
    ContainerPatch,
    Framework,
    PodPatch,
    Seen,
    port_of,
    variable,
)
from trainshed.jobs.v1.job import Job
from trainshed.kube.meta.objects import Object, metadata_of, name_of, section
from trainshed.kube.meta.plan import Event
from trainshed.kube.meta.resources import HORIZONTALPODAUTOSCALERS, Resource

DEFAULT_TEMPLATE = """\
- name: init-pytorch
  image: {{.InitContainerImage}}
  imagePullPolicy: IfNotPresent
  resources:
    limits:
      cpu: 100m
      memory: 20Mi
    requests:
      cpu: 50m
      memory: 10Mi
  command:
  - sh
  - -c
  - trap 'exit 143' TERM;err=1;for i in $(seq {{.MaxTries}}); do if nslookup {{.MasterAddr}}; then err=0 && break;\
 fi;echo waiting for master; sleep 2 & wait $!; done; exit $err
"""
"""The container in which a worker waits until the name of its master resolves: it would otherwise fail its rendezvous
and restart. Source: flags and template file of the Kubeflow training operator v1, but for the trap: process 1 of a
container has no default for SIGTERM, so that a worker that waits would take its whole grace period to go."""

_IMAGE = "pytorch-init-container-image"
_TEMPLATE = "pytorch-init-container-template-file"
_MAX_TRIES = "pytorch-init-container-max-tries"


class PyTorchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator's flags say about PyTorchJobs.

    image: of the container in which a worker waits for its master.
    max_tries: look-ups of the master's name before the worker gives up; 2 seconds apart.
    template: YAML list of containers with `{{.MasterAddr}}`, `{{.InitContainerImage}}` and `{{.MaxTries}}` to fill in.

    Raises ValueError when the template renders to no list of containers, so that a wrong one stops
    the operator at its start instead of every job later.
    """

    image: str = "alpine:3.10"
    max_tries: int = 100
    template: str = DEFAULT_TEMPLATE

    def __post_init__(self) -> None:
        if self.template != DEFAULT_TEMPLATE:
            self.init_containers("job-master-0")

    def init_containers(self, master_addr: str) -> list[Object]:
        """Return the containers that wait until `master_addr` has a DNS name."""
        return render(
            self.template,
            MasterAddr=master_addr,
            InitContainerImage=self.image,
            MaxTries=str(self.max_tries),
        )


_DEFAULT = PyTorchOptions()
_DIGITS = 19
"""Of the largest number of 64 bits."""


class PyTorch(Framework):
    """The framework of PyTorchJob."""

    kind = PYTORCHJOB
    owns = (Owns(resource=HORIZONTALPODAUTOSCALERS, applied=True, while_suspended=False),)
    flags = (
        Flag(name=_IMAGE, default=_DEFAULT.image, help="image that waits for the master"),
        Flag(
            name=_TEMPLATE,
            type="file",
            fallback="/etc/config/initContainer.yaml",
            help="YAML template of the init containers",
        ),
        Flag(
            name=_MAX_TRIES,
            type="count",
            default=_DEFAULT.max_tries,
            help="how often it looks for the master",
        ),
    )

    def options(self, values: Mapping[str, Any]) -> PyTorchOptions:
        """Return what the flags say about the init container."""
        template = values[_TEMPLATE] or DEFAULT_TEMPLATE
        try:
            return PyTorchOptions(image=values[_IMAGE], max_tries=values[_MAX_TRIES], template=template)
        except ValueError as error:
            raise ValueError(f"--{_TEMPLATE}: {error}") from error

    def is_master(self, job: Job, replica: Replica, index: int) -> bool:
        """The master if there is one, else the first worker."""
        if job.replica(MASTER) is not None:
            return replica.type == MASTER
        return replica.type == WORKER and index == 0

    def patch(self, job: Job, replica: Replica, index: int, options: OperatorOptions) -> PodPatch:
        """Return the environment of one pod, and for a worker the wait for its master's name."""
        env = tuple(variable(name, value) for name, value in environment(job, replica, index))
        waits = replica.type == WORKER and job.replica(MASTER) is not None
        return PodPatch(
            containers=(ContainerPatch(env=env),),
            init_containers=job.once("init containers", lambda: _init_containers(job, options))
            if waits
            else (),
        )

    def lookups(self, document: Object) -> tuple[tuple[Resource, str], ...]:
        """Only a job that is elastic, or was before an edit, has an autoscaler, so it is asked for, not watched."""
        edited = int(metadata_of(document).get("generation") or 0) > 1
        if not edited and not section(document, "spec", "elasticPolicy"):
            return ()
        return ((HORIZONTALPODAUTOSCALERS, name_of(document)),)

    def owned(self, job: Job, seen: Seen, options: OperatorOptions) -> tuple[Owned, ...]:
        """Return an autoscaler of the workers when the elastic policy has metrics."""
        policy: ElasticPolicy | None = job.spec.elastic_policy
        if policy is None or policy.metrics is None:
            return ()
        target = {"kind": job.kind.name, "name": job.name, "apiVersion": job.kind.api_version}
        autoscaler = {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {
                "name": job.name,
                "namespace": job.namespace,
                "ownerReferences": [job.owner_reference()],
            },
            "spec": {
                "scaleTargetRef": target,
                "minReplicas": policy.min_replicas,
                "maxReplicas": policy.max_replicas,
                "metrics": policy.metrics,
            },
        }
        why = f'horizontalpodautoscaler "{job.name}" already exists and is not controlled by this job'
        taken = Event("Warning", c.ERR_RESOURCE_EXISTS, f"{why}: it is left as it is")
        return (Owned(resource=HORIZONTALPODAUTOSCALERS, object=autoscaler, taken=taken, required=False),)

    def has_succeeded(self, job: Job, leader: Replica, seen: Seen) -> bool:
        """The master decides if there is one; else all workers, or of an elastic job any worker."""
        succeeded = seen.tallies[leader.type].succeeded
        return succeeded >= leader.count or (leader.type == WORKER and _is_elastic(job) and succeeded > 0)

    def running_message(self, job: Job) -> str:
        """With a master, the name is enough."""
        return f"{job.kind.name} {_called(job)} is running."

    def succeeded_message(self, job: Job) -> str:
        """With a master, the name is enough."""
        verb = "is successfully" if job.replica(MASTER) is not None else "successfully"
        return f"{job.kind.name} {_called(job)} {verb} completed."


def environment(job: Job, replica: Replica, index: int) -> Iterator[tuple[str, str]]:
    """Yield the variables of one pod in the order in which they are appended."""
    yield "PYTHONUNBUFFERED", "1"
    master = job.replica(MASTER)
    if master is not None:
        port, address = str(port_of(job, master)), job.child_name(MASTER, 0)
        yield "MASTER_PORT", port
        yield "PET_MASTER_PORT", port
        yield "MASTER_ADDR", address
        yield "PET_MASTER_ADDR", address
        rank = str(index if replica.type == MASTER else index + 1)
        yield "WORLD_SIZE", str(job.total_replicas * _processes_per_node(job))
        yield "RANK", rank
        yield "PET_NODE_RANK", rank
    if job.spec.nproc_per_node is not None:
        yield "PET_NPROC_PER_NODE", job.spec.nproc_per_node
    if job.spec.elastic_policy is None:
        yield "PET_NNODES", str(job.total_replicas)
    else:
        yield from _elastic_environment(job, job.spec.elastic_policy)


def _elastic_environment(job: Job, policy: ElasticPolicy) -> Iterator[tuple[str, str]]:
    host = policy.rdzv_host or job.child_name(WORKER, 0)
    port = policy.rdzv_port if policy.rdzv_port is not None else port_of(job, job.replica(WORKER))
    yield "PET_RDZV_ENDPOINT", f"{host}:{port}"
    yield "PET_RDZV_BACKEND", policy.rdzv_backend or "c10d"
    yield "PET_NNODES", f"{policy.min_replicas}:{policy.max_replicas}"
    if policy.max_restarts is not None:
        yield "PET_MAX_RESTARTS", str(policy.max_restarts)
    if policy.n_proc_per_node is not None:
        yield "PET_NPROC_PER_NODE", str(policy.n_proc_per_node)
    if policy.rdzv_id is not None:
        yield "PET_RDZV_ID", policy.rdzv_id
    if policy.rdzv_conf:
        yield "PET_RDZV_CONF", ",".join(f"{conf.key or ''}={conf.value or ''}" for conf in policy.rdzv_conf)
    if policy.standalone:
        yield "PET_STANDALONE", ""


def _called(job: Job) -> str:
    return job.name if job.replica(MASTER) is not None else f"{job.namespace}/{job.name}"


def _init_containers(job: Job, options: OperatorOptions) -> tuple[Object, ...]:
    return tuple(_options(options).init_containers(job.child_name(MASTER, 0)))


def _options(options: OperatorOptions) -> PyTorchOptions:
    chosen = options.by_kind.get(PYTORCHJOB.name)
    return chosen if isinstance(chosen, PyTorchOptions) else _DEFAULT


def _is_elastic(job: Job) -> bool:
    return job.spec.elastic_policy is not None


def _processes_per_node(job: Job) -> int:
    """Return the number of processes per pod as far as the spec knows it: what is no number of 64 bits counts as 1."""
    number = re.fullmatch(r"([+-]?)([0-9]+)", job.spec.nproc_per_node or "")
    digits = "" if number is None else number[2].lstrip("0") or "0"
    if number is None or len(digits) > _DIGITS:
        return 1
    count = int(number[1] + digits)
    return count if -(2**63) <= count < 2**63 else 1
