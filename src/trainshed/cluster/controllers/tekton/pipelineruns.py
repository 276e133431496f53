"""PipelineRuns: the loop around `pipelinerun.decide`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.execution import Executor
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Key, controlled_by, key_of
from trainshed.kube.meta.objects import Object, name_of, namespace_of, section, spec_of, uid_of
from trainshed.kube.meta.resources import PERSISTENTVOLUMECLAIMS
from trainshed.tekton.resources import CUSTOMRUNS, PIPELINERUNS, PIPELINES, TASKRUNS, TASKS

if TYPE_CHECKING:
    from trainshed.tekton.pipelinerun import Observed


class PipelineRunController(Controller[Key]):
    """Starts the tasks of PipelineRuns in their order. `informers` are of Tekton's kinds."""

    def __init__(
        self,
        client: Client,
        informers: SharedInformers,
        shared: SharedInformers,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("pipelineruns", informers, workers=2)
        self._now = now
        self._runs = self.watch(informers.of(PIPELINERUNS), lambda run: [key_of(run)])
        kinds = (TASKRUNS, CUSTOMRUNS, PIPELINERUNS)
        children = [self.watch(informers.of(kind), controlled_by(PIPELINERUNS)) for kind in kinds]
        self._children = [informers.by_controller(kind) for kind in kinds]
        self._pipelines, self._tasks = informers.of(PIPELINES), informers.of(TASKS)
        self._claims = shared.of(PERSISTENTVOLUMECLAIMS)
        self._by_namespace = self._claims.index(lambda claim: [namespace_of(claim)])
        recorder = EventRecorder(client, "PipelineRun")
        self._executor = Executor(client, recorder, self.own, self._runs, [*children, self._claims])

    async def reconcile(self, key: Key) -> float | None:
        """Bring one run a step on."""
        run = self._runs.get(*key)
        if run is None:
            return None
        # It comes with the first: most clusters have none.
        from trainshed.tekton.pipelinerun import decide

        plan = decide(self._observe(run))
        await self._executor.execute(key, run, plan)
        return plan.requeue_after

    def _observe(self, run: Object) -> Observed:
        from trainshed.tekton.pipelinerun import Observed, task_references

        namespace = namespace_of(run)
        name = section(spec_of(run), "pipelineRef").get("name")
        pipeline = self._pipelines.get(namespace, str(name)) if name else None
        tasks = {n: self._tasks.get(namespace, n) for n in task_references(run, pipeline)}
        return Observed(
            run,
            children=[child for index in self._children for child in index.get(uid_of(run))],
            pipeline=pipeline,
            tasks={n: found for n, found in tasks.items() if found is not None},
            claims=frozenset(name_of(claim) for claim in self._by_namespace.get(namespace)),
            now=self._now(),
        )
