"""batch/v1 Jobs: the loop around `job.decide`."""

from __future__ import annotations

import time
from collections.abc import Callable

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.execution import Executor
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Key, key_of
from trainshed.cluster.controllers.workloads.job_pods import JOB_NAME, is_tracked
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.ownership import controller_of
from trainshed.kube.meta.resources import JOBS, PODS


class JobController(Controller[Key]):
    """Runs Jobs to completion."""

    def __init__(
        self, client: Client, informers: SharedInformers, *, now: Callable[[], float] = time.time
    ) -> None:
        super().__init__("jobs", informers, workers=4)
        self._now = now
        self._jobs = self.watch(informers.of(JOBS), lambda job: [key_of(job)])
        pods = self.watch(informers.of(PODS), _job_of)
        self._pods = pods.index(lambda pod: ["/".join(key) for key in _job_of(pod)])
        recorder = EventRecorder(client, "job-controller")
        self._executor = Executor(client, recorder, self.own, self._jobs, [pods])

    async def reconcile(self, key: Key) -> float | None:
        """Bring one job a step on."""
        # It comes with the first: most clusters have none.
        from trainshed.cluster.controllers.workloads.job import Observed, decide

        job = self._jobs.get(*key)
        plan = decide(Observed(job, self._pods.get("/".join(key)), self._now()))
        if job is None:
            await self._executor.act(key, {}, plan.actions)
        else:
            await self._executor.execute(key, job, plan)
        return plan.requeue_after


def _job_of(pod: Object) -> list[Key]:
    """Return the job of a pod; one that lost its job but is still tracked is found by its label."""
    metadata = pod["metadata"]
    owner = controller_of(pod)
    if owner is not None and owner["kind"] == "Job" and owner["apiVersion"].startswith("batch/"):
        return [(metadata["namespace"], owner["name"])]
    name = section(metadata, "labels").get(JOB_NAME)
    return [(metadata["namespace"], name)] if name and is_tracked(pod) else []
