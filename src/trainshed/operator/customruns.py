"""CustomRuns of the kind `DistributedStep`: the loop around `customrun.decide`.

Where Tekton's kinds are not served there is nothing to do, and it is looked again every half minute.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from trainshed.api.kind import Kind
from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.execution import Executor
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Key, controlled_by, key_of
from trainshed.client.transport import TransportError
from trainshed.jobs.engine.constants import LABEL_JOB_NAME, LABEL_OPERATOR_NAME
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import namespace_of, section, uid_of
from trainshed.kube.meta.resources import PODS
from trainshed.tekton.resources import CUSTOMRUNS

NAME = "customrun-controller"
_LOOK_AGAIN_SECONDS = 30.0


class CustomRunController(Controller[Key]):
    """Makes the jobs of distributed steps. `informers` are its own, `shared` those of the job kinds."""

    def __init__(
        self,
        client: Client,
        kinds: Iterable[Kind],
        informers: SharedInformers,
        shared: SharedInformers,
        recorder: EventRecorder,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(NAME, informers)
        self._client = client
        self._now = now
        self._kinds = {(kind.api_version, kind.name): kind.resource for kind in kinds}
        self._own_informers = informers
        self._stopping = asyncio.Event()
        self._runs = self.watch(informers.of(CUSTOMRUNS), lambda run: [key_of(run)])
        jobs = [
            self.watch(shared.of(resource), controlled_by(CUSTOMRUNS)) for resource in self._kinds.values()
        ]
        self._jobs = [shared.by_controller(resource) for resource in self._kinds.values()]
        self._pods = shared.of(PODS, label_selector=LABEL_OPERATOR_NAME).index(
            lambda pod: [f"{namespace_of(pod)}/{(section(pod, 'metadata', 'labels')).get(LABEL_JOB_NAME)}"]
        )
        self._executor = Executor(client, recorder, self.own, self._runs, jobs)

    async def run(self) -> None:
        """Work once the kind is served."""
        while not await self._served():
            try:
                async with asyncio.timeout(_LOOK_AGAIN_SECONDS):
                    await self._stopping.wait()
                return
            except TimeoutError:
                continue
        async with asyncio.TaskGroup() as group:
            mirrors = group.create_task(self._own_informers.run())
            await super().run()
            mirrors.cancel()

    def stop(self) -> None:
        """Let what is in hand end; `run` then returns."""
        self._stopping.set()
        super().stop()

    async def _served(self) -> bool:
        try:
            await self._client.list(CUSTOMRUNS, limit=1)
        except (ApiError, TransportError):
            return False
        return True

    async def reconcile(self, key: Key) -> float | None:
        """Bring one run a step on."""
        run = self._runs.get(*key)
        if run is None:
            return None
        # It comes with the first: most clusters have none.
        from trainshed.tekton.customrun import Observed, decide, job_name

        observed = Observed(
            run,
            jobs=[job for index in self._jobs for job in index.get(uid_of(run))],
            pods=self._pods.get(f"{namespace_of(run)}/{job_name(run)}"),
            kinds=self._kinds,
            now=self._now(),
        )
        plan = decide(observed)
        await self._executor.execute(key, run, plan)
        return plan.requeue_after
