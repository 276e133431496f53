"""XGBoost: ranks and addresses through the environment; the program starts the tracker in the master by itself.

The master is rank 0 and worker i is rank i+1; a job of one pod has no addresses of workers.
Source: the environment and success tables of the Kubeflow training operator v1.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trainshed.api.v1.xgboost import MASTER, WORKER, XGBOOSTJOB
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


class XGBoost(Framework):
    """The framework of XGBoostJob."""

    kind = XGBOOSTJOB

    def patch(self, job: Job, replica: Replica, index: int, options: OperatorOptions) -> PodPatch:
        """Return the environment of one pod, for all its containers."""
        env = tuple(variable(name, value) for name, value in environment(job, replica, index))
        return PodPatch(containers=(ContainerPatch(env=env),))

    def judge(self, job: Job, seen: Seen) -> Judgement:
        """A job that has ended, or fails, is said to have run, whether or not that was seen."""
        judgement = super().judge(job, seen)
        if judgement.succeeded is None and not judgement.failing:
            return judgement
        running = self.running_message(job)
        return msgspec.structs.replace(judgement, running=running, ran_first=judgement.succeeded is not None)

    def failing(self, job: Job, seen: Seen) -> Iterator[Failing]:
        """Yield every type of which a pod failed; only `ExitCode` restarts, all else fails the job before that."""
        for replica in job.replicas:
            failed = seen.tallies[replica.type].failed
            if failed > 0:
                restarts = replica.restart_policy == "ExitCode"
                message = self.failing_message(job, replica, failed, restarts)
                yield Failing(replica.type, failed, restarts, message)


def environment(job: Job, replica: Replica, index: int) -> Iterator[tuple[str, str]]:
    """Yield the variables of one pod in the order in which they are appended."""
    master = job.replica(MASTER)
    masters = master.count if master is not None else 0
    total = job.total_replicas
    yield "MASTER_PORT", str(port_of(job, master))
    yield "MASTER_ADDR", job.child_name(MASTER, 0)
    yield "WORLD_SIZE", str(total)
    yield "RANK", str(index if replica.type == MASTER else index + masters)
    yield "PYTHONUNBUFFERED", "1"
    if total > 1:
        yield "WORKER_PORT", str(port_of(job, job.replica(WORKER)))
        yield "WORKER_ADDRS", job.once("addresses", lambda: _worker_addresses(job))


def _worker_addresses(job: Job) -> str:
    return ",".join(job.child_name(WORKER, i) for i in range(job.total_replicas - 1))
