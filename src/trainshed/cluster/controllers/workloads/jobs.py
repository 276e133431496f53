"""batch/v1 Jobs: the loop around `job_status.decide`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from trainshed.client.client import Client
from trainshed.client.controllers.batches import all_of, slow_start
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.informers import SharedInformers, key_of
from trainshed.client.controllers.ownwrites import LOOK_AGAIN_SECONDS, OwnWrites
from trainshed.client.events import EventRecorder
from trainshed.cluster.controllers.workloads.deletion import delete_pods
from trainshed.cluster.controllers.workloads.job_pods import JOB_NAME, TRACKING, is_tracked, new_pod
from trainshed.cluster.controllers.workloads.job_status import JobPlan, decide
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.ownership import controller_of, without_finalizer
from trainshed.kube.meta.resources import JOBS, PODS

Key = tuple[str, str]

BUILT_IN = "kubernetes.io/job-controller"
"""`spec.managedBy` of the jobs that are ours, like none at all."""
NOT_HONOURED = ("podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes")


class JobController:
    """Runs Jobs to completion."""

    def __init__(
        self, client: Client, informers: SharedInformers, *, now: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._informers = informers
        self._now = now
        self._jobs = informers.of(JOBS)
        self._pods_by_job = informers.of(PODS).index(_job_keys)
        self._own_jobs: OwnWrites[Key] = OwnWrites(self._jobs)
        self._own_pods: OwnWrites[Key] = OwnWrites(informers.of(PODS))
        self._events = EventRecorder(client, "job-controller")
        self._controller: Controller[Key] = Controller("jobs", self._reconcile, workers=4)
        self._jobs.add_handler(lambda change, old, new: self._controller.enqueue(key_of(new)))
        informers.of(PODS).add_handler(self._pod_changed)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._informers.wait_synced()
        await self._controller.run()

    def _pod_changed(self, change: str, old: Object | None, new: Object) -> None:
        for pod in (old, new):
            for key in _job_keys(pod) if pod is not None else ():
                namespace, _, name = key.partition("/")
                self._controller.enqueue((namespace, name))

    async def _reconcile(self, key: Key) -> float | None:
        if self._own_jobs.pending(key) or self._own_pods.pending(key):
            return LOOK_AGAIN_SECONDS
        job = self._jobs.get(*key)
        if job is not None and job["spec"].get("managedBy", BUILT_IN) != BUILT_IN:
            return None
        uid = job["metadata"]["uid"] if job is not None else ""
        family = self._pods_by_job.get("/".join(key))
        pods = [pod for pod in family if (controller_of(pod) or {}).get("uid") == uid]
        if job is None or job["metadata"].get("deletionTimestamp"):
            await self._untrack(key, family)
            return None
        # Pods of a job that had the name before, or that was deleted without them: nobody counts them.
        await self._untrack(key, [pod for pod in family if pod not in pods])
        self._report_unhonoured(job)
        plan = decide(job, pods, self._now())
        try:
            await self._carry_out(key, job, plan)
        except ApiError as error:
            if error.code != 404:
                raise
        return plan.requeue_after

    def _report_unhonoured(self, job: Object) -> None:
        fields = [f"spec.{name}" for name in NOT_HONOURED if job["spec"].get(name) is not None]
        if fields and not (job.get("status") or {}).get("startTime"):
            text = f"{', '.join(fields)}: not supported here; a failed pod counts against spec.backoffLimit"
            self._events.event(job, "Warning", "FieldNotHonoured", text)

    async def _carry_out(self, key: Key, job: Object, plan: JobPlan) -> None:
        """Execute a plan. Whatever is left undone by a crash is planned again."""
        if plan.delete_job:
            await self._client.delete(
                JOBS, key[1], key[0], propagation_policy="Foreground", uid=job["metadata"]["uid"]
            )
            return
        if plan.status != job.get("status"):
            written = await self._client.update(JOBS, {**job, "status": plan.status}, subresource="status")
            self._own_jobs.record(key, written)
            for event in plan.events:
                self._events.event(job, *event)
        await self._untrack(key, plan.untrack)
        await delete_pods(self._client, self._own_pods, self._events, job, plan.delete)
        await self._create(key, job, plan.create)

    async def _untrack(self, key: Key, pods: Sequence[Object]) -> None:
        async def untrack(pod: Object) -> None:
            try:
                patched = await self._client.patch(
                    PODS, pod["metadata"]["name"], key[0], without_finalizer(pod, TRACKING)
                )
                self._own_pods.record(key, patched)
            except ApiError as error:
                if error.code != 404:
                    raise

        for failure in await all_of([pod for pod in pods if is_tracked(pod)], untrack):
            raise failure

    async def _create(self, key: Key, job: Object, indexes: Sequence[int | None]) -> None:
        async def create(index: int | None) -> None:
            created = await self._client.create(PODS, new_pod(job, index))
            self._own_pods.record(key, created)
            name = created["metadata"]["name"]
            self._events.event(job, "Normal", "SuccessfulCreate", f"Created pod: {name}")

        try:
            await slow_start(indexes, create)
        except ApiError as error:
            self._events.event(job, "Warning", "FailedCreate", f"Error creating: {error}")
            raise


def _job_keys(pod: Object) -> list[str]:
    """Return `namespace/job` of a job's pod; one that lost its job but is still tracked is found by its label."""
    metadata = pod["metadata"]
    owner = controller_of(pod)
    if owner is not None and owner["kind"] == "Job" and owner["apiVersion"].startswith("batch/"):
        return [f"{metadata['namespace']}/{owner['name']}"]
    name = (metadata.get("labels") or {}).get(JOB_NAME)
    return [f"{metadata['namespace']}/{name}"] if name and is_tracked(pod) else []
