"""CronJobs: a Job each time one is due. The loop around `cronjob.decide`."""

from __future__ import annotations

import time
from collections.abc import Callable

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.execution import Executor
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Key, controlled_by, key_of
from trainshed.kube.meta.objects import is_terminating
from trainshed.kube.meta.resources import CRONJOBS, JOBS


class CronJobController(Controller[Key]):
    """Makes the Jobs of each CronJob, and forgets old ones."""

    def __init__(
        self, client: Client, informers: SharedInformers, *, now: Callable[[], float] = time.time
    ) -> None:
        super().__init__("cronjobs", informers, workers=2)
        self._now = now
        self._cron_jobs = self.watch(informers.of(CRONJOBS), lambda cron_job: [key_of(cron_job)])
        jobs = self.watch(informers.of(JOBS), controlled_by(CRONJOBS))
        self._jobs = informers.by_controller(JOBS)
        recorder = EventRecorder(client, "cronjob-controller")
        self._executor = Executor(client, recorder, self.own, self._cron_jobs, [jobs])

    async def reconcile(self, key: Key) -> float | None:
        """Bring one CronJob a step on."""
        cron_job = self._cron_jobs.get(*key)
        if cron_job is None or is_terminating(cron_job):
            return None
        # It comes with the first: most clusters have none.
        from trainshed.cluster.controllers.workloads.cronjob import Observed, decide

        jobs = [job for job in self._jobs.get(cron_job["metadata"]["uid"]) if not is_terminating(job)]
        plan = decide(Observed(cron_job, jobs, self._now()))
        await self._executor.execute(key, cron_job, plan)
        return plan.requeue_after
