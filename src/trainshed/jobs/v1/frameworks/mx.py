"""MXNet: the parameter server's roles through the environment, for `ps-lite` (DMLC_…) and for TVM's tuners (MX_CONFIG).

Servers and workers register with scheduler 0, whose end is that of the job.
Source: the environment table of the Kubeflow training operator v1 (1.8.1).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from trainshed.api.v1.mx import MXJOB, SCHEDULER, SERVER, WORKER
from trainshed.jobs.engine.job import Replica
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.jobs.v1.frameworks.base import (
    ContainerPatch,
    Failing,
    Framework,
    Judgement,
    PodPatch,
    Seen,
    port_of,
    variable,
)
from trainshed.jobs.v1.job import Job
from trainshed.kube.meta.objects import Object, metadata_of, texts
from trainshed.kube.meta.plan import Event

_TUNER_KEY = "tuner-server-key"
"""The annotation of a template that tells a tuner which servers are its own."""

_json = json.JSONEncoder(separators=(",", ":")).encode


class MX(Framework):
    """The framework of MXJob."""

    kind = MXJOB

    def is_master(self, job: Job, replica: Replica, index: int) -> bool:
        """Every server, as upstream has it."""
        return replica.type == SERVER

    def patch(self, job: Job, replica: Replica, index: int, options: OperatorOptions) -> PodPatch:
        """Return the environment of one pod."""
        return PodPatch(containers=(ContainerPatch(env=environment(job, replica, index)),))

    def judge(self, job: Job, seen: Seen) -> Judgement:
        """The scheduler decides; of a job that is one worker, any type."""
        deciding = (
            job.replicas if _is_single_worker(job) else [r for r in job.replicas if r.type == SCHEDULER]
        )
        active = any(seen.tallies[replica.type].active > 0 for replica in deciding)
        running = self.running_message(job) if active else None
        if any(r.count > 0 and seen.tallies[r.type].succeeded >= r.count for r in deciding):
            return Judgement(running=running, succeeded=self.succeeded_message(job))
        return Judgement(running=running, failing=tuple(self.failing(job, seen)))

    def failing(self, job: Job, seen: Seen) -> Iterator[Failing]:
        """Any failed pod fails the job, unless its exit code says that it may be replaced."""
        for replica in job.replicas:
            failed = seen.tallies[replica.type].failed
            if failed > 0:
                restarts = replica.restart_policy == "ExitCode"
                message = self.failing_message(job, replica, failed, restarts)
                yield Failing(replica.type, failed, restarts, message)

    def failing_message(self, job: Job, replica: Replica, failed: int, restarts: bool) -> str:
        """Return the message of the condition Restarting or Failed."""
        verb = "restarting" if restarts else "failed"
        return f"{job.kind.singular} {job.name} is {verb} because {failed} {replica.type} replica(s) failed."

    def invalid(self, why: str) -> Event:
        """Return the event of a stored job that cannot run, with the reason that upstream gives it."""
        return Event("Warning", "MPIJobFailedValidation", f"MXJob failed validation because {why}")


def environment(job: Job, replica: Replica, index: int) -> tuple[Object, ...]:
    """Return the variables of one pod in the order in which they are appended. Its type shares most of them."""
    config, shared = job.once(("environment", replica.type), lambda: _environment(job, replica))
    own = (variable("DMLC_WORKER_ID", str(index)),) if replica.type == WORKER else ()
    return (variable("MX_CONFIG", f"{config}{index}}}}}"), *shared, *own)


def _environment(job: Job, replica: Replica) -> tuple[str, tuple[Object, ...]]:
    """Return what is the same for all pods of a type: the configuration up to the index, and the variables after it."""
    scheduler = job.replica(SCHEDULER)
    shared = (
        variable("DMLC_PS_ROOT_PORT", "0" if scheduler is None else str(port_of(job, scheduler))),
        variable("DMLC_PS_ROOT_URI", "" if scheduler is None else job.child_name(SCHEDULER, 0)),
        variable("DMLC_NUM_SERVER", str(_count(job, SERVER))),
        variable("DMLC_NUM_WORKER", str(_count(job, WORKER))),
        variable("DMLC_ROLE", replica.slug),
        variable("DMLC_USE_KUBERNETES", "1"),
    )
    # All replicas with their addresses, and which of them this one is, as JSON with sorted types.
    cluster = job.once("cluster", lambda: _cluster(job))
    return f'{cluster},"task":{{"type":"{replica.slug}","index":', shared


def _cluster(job: Job) -> str:
    """Return the part of the JSON that all pods have in common, which stands first."""
    replicas = sorted(job.replicas, key=lambda replica: replica.slug)
    cluster: Object = {}
    for one in replicas:
        port = port_of(job, one)
        cluster[one.slug] = [{"url": job.child_name(one.type, i), "port": port} for i in range(one.count)]
    labels = {
        one.slug: texts(metadata_of(one.template), "annotations").get(_TUNER_KEY, "") for one in replicas
    }
    return f'{{"cluster":{_json(cluster)},"labels":{_json(labels)}'


def _count(job: Job, type_: str) -> int:
    replica = job.replica(type_)
    return 0 if replica is None else replica.count


def _is_single_worker(job: Job) -> bool:
    return [_count(job, type_) for type_ in (SCHEDULER, SERVER, WORKER)] == [0, 0, 1]
