"""PyTorch: ranks and rendezvous through the environment that `torch.distributed` and torchrun read.

With a master, the job has a fixed world: the master is rank 0 and worker i is rank i+1 (of nodes, for torchrun).
With workers alone, torchrun finds its ranks by rendezvous. Variables that begin with PET_ are torchrun's options.
Source: the environment table of the Kubeflow training operator v1; torch.distributed.run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from trainshed.api.kinds import PYTORCHJOB
from trainshed.api.v1.defaults import default_pytorchjob
from trainshed.api.v1.pytorch import ElasticPolicy, PyTorchJobSpec
from trainshed.api.v1.validation import FieldError, validate_pytorchjob
from trainshed.jobs.engine.job import Job, Replica
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.jobs.v1.frameworks.framework import Contribution, Failing, Judgement, Tally
from trainshed.kube.meta.objects import Object, container_named, port_named, section

MASTER = "Master"
WORKER = "Worker"


class PyTorch:
    """The framework of PyTorchJob."""

    def read(self, document: Object) -> tuple[Job, tuple[FieldError, ...]]:
        """Return the defaulted job and what is wrong with it."""
        defaulted = default_pytorchjob(document)
        spec = msgspec.convert(defaulted.get("spec"), PyTorchJobSpec)
        job = Job.of(PYTORCHJOB, defaulted, spec, spec.run_policy, spec.pytorch_replica_specs)
        return job, validate_pytorchjob(defaulted, None).errors

    def is_master(self, job: Job, replica: Replica, index: int) -> bool:
        """The master if there is one, else the first worker."""
        if job.replica(MASTER) is not None:
            return replica.type == MASTER
        return replica.type == WORKER and index == 0

    def contribute(self, job: Job, replica: Replica, index: int, options: OperatorOptions) -> Contribution:
        """Return the environment of one pod, and for a worker the wait for its master's name."""
        waits = replica.type == WORKER and job.replica(MASTER) is not None
        return Contribution(
            env=tuple(_variable(name, value) for name, value in environment(job, replica, index)),
            init_containers=tuple(options.init_containers(job.child_name(MASTER, 0))) if waits else (),
        )

    def judge(self, job: Job, tallies: Mapping[str, Tally]) -> Judgement:
        """The master decides if there is one; else all workers, or of an elastic job any worker."""
        master = job.replica(MASTER)
        leader = master or job.replica(WORKER)
        if leader is None:
            return Judgement()
        name = job.name if master else f"{job.namespace}/{job.name}"
        tally = tallies[leader.type]
        running = f"{job.kind.name} {name} is running." if tally.active > 0 else None
        # No replicas at all (scaled to zero) is waiting, not success.
        if leader.count > 0 and (
            tally.succeeded >= leader.count or (not master and _is_elastic(job) and tally.succeeded > 0)
        ):
            verb = "is successfully" if master else "successfully"
            return Judgement(running=running, succeeded=f"{job.kind.name} {name} {verb} completed.")
        return Judgement(running=running, failing=tuple(_failing(job, tallies)))

    def autoscaler(self, job: Job) -> Object | None:
        """Return an autoscaler of the workers when the elastic policy has metrics."""
        policy: ElasticPolicy | None = job.spec.elastic_policy
        if policy is None or policy.metrics is None:
            return None
        target = {"kind": job.kind.name, "name": job.name, "apiVersion": job.kind.api_version}
        return {
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


def environment(job: Job, replica: Replica, index: int) -> Iterator[tuple[str, str]]:
    """Yield the variables of one pod in the order in which they are appended."""
    yield "PYTHONUNBUFFERED", "1"
    master = job.replica(MASTER)
    if master is not None:
        port, address = str(_port(job, master)), job.child_name(MASTER, 0)
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
    port = policy.rdzv_port if policy.rdzv_port is not None else _port(job, job.replica(WORKER))
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


def _failing(job: Job, tallies: Mapping[str, Tally]) -> Iterator[Failing]:
    """Yield the types that lack pods because some failed; pods above the replica count may fail freely."""
    for replica in job.replicas:
        tally = tallies[replica.type]
        if tally.failed > 0 and replica.count > tally.succeeded + tally.active:
            restarts = replica.restart_policy != "Never"
            verb = "restarting" if restarts else "failed"
            message = f"{job.kind.name} {job.name} is {verb} because {tally.failed} {replica.type} replica(s) failed."
            yield Failing(replica.type, tally.failed, restarts, message)


def _is_elastic(job: Job) -> bool:
    return job.spec.elastic_policy is not None


def _processes_per_node(job: Job) -> int:
    """Return the number of processes per pod as far as the spec knows it: `auto`, `cpu` and `gpu` count as 1."""
    text = job.spec.nproc_per_node or ""
    return int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else 1


def _port(job: Job, replica: Replica | None) -> int:
    template = replica.template if replica is not None else {}
    container = container_named(section(template, "spec"), job.kind.container_name)
    port = port_named(container, job.kind.port_name) if container is not None else None
    return port if port is not None else job.kind.port


def _variable(name: str, value: str) -> Object:
    """Return an EnvVar; the wire form of an empty value is no value."""
    return {"name": name, "value": value} if value else {"name": name}
