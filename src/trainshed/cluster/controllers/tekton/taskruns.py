"""TaskRuns: the loop around `taskrun.decide`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.execution import Executor
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Key, controlled_by, key_of
from trainshed.cluster.images.directories import ImageProblem
from trainshed.cluster.images.lookup import Lookup
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, name_of, namespace_of, objects, section, spec_of, uid_of
from trainshed.kube.meta.resources import PERSISTENTVOLUMECLAIMS, PODS
from trainshed.tekton.resources import STEPACTIONS, TASKRUNS, TASKS

if TYPE_CHECKING:
    from trainshed.tekton.taskrun import Observed
    from trainshed.tekton.variables import Value

_REFUSALS = (400, 403, 422)
"""Codes with which the API refuses an object for what it is, not for what else is going on."""
_ABOUT_PODS = ("pods", "Pod", "")
"""A refusal names the resource, an invalid object its kind, a malformed one neither."""


class TaskRunController(Controller[Key]):
    """Runs the steps of TaskRuns in pods. `informers` are of Tekton's kinds, `shared` those of the control plane."""

    def __init__(
        self,
        client: Client,
        informers: SharedInformers,
        shared: SharedInformers,
        images: Lookup,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("taskruns", informers, workers=4)
        self._now = now
        self._images = images
        self._runs = self.watch(informers.of(TASKRUNS), lambda run: [key_of(run)])
        self._tasks = informers.of(TASKS)
        self._actions = informers.of(STEPACTIONS)
        pods = self.watch(shared.of(PODS), controlled_by(TASKRUNS))
        self._pods = shared.by_controller(PODS)
        self._claims = shared.of(PERSISTENTVOLUMECLAIMS)
        self._by_namespace = self._claims.index(lambda claim: [namespace_of(claim)])
        recorder = EventRecorder(client, "TaskRun")
        self._executor = Executor(client, recorder, self.own, self._runs, [pods, self._claims])

    async def reconcile(self, key: Key) -> float | None:
        """Bring one run a step on."""
        run = self._runs.get(*key)
        if run is None:
            return None
        # It comes with the first: most clusters have none.
        from trainshed.tekton.taskrun import decide

        observed = self._observe(run)
        plan = decide(observed)
        try:
            await self._executor.execute(key, run, plan)
        except ApiError as error:
            if error.code not in _REFUSALS or error.details.get("kind", "") not in _ABOUT_PODS:
                raise
            # After a write of the status this one is out of date, and the next reconcile comes here again.
            plan = decide(msgspec.structs.replace(observed, refusal=error.message))
            await self._executor.execute(key, run, plan)
        return plan.requeue_after

    def _observe(self, run: Object) -> Observed:
        from trainshed.cluster.controllers.tekton.interpreter import entrypoint
        from trainshed.tekton import stepactions
        from trainshed.tekton.taskrun import Observed

        namespace, spec = namespace_of(run), spec_of(run)
        name = section(spec, "taskRef").get("name")
        task = self._tasks.get(namespace, str(name)) if name else None
        inline = section(spec, "taskSpec") or spec_of(task or {})
        wanted = {n: self._actions.get(namespace, n) for n in stepactions.names(inline)}
        actions = {n: found for n, found in wanted.items() if found is not None}
        commands, roots = self._known([inline, *(spec_of(a) for a in actions.values())], _values(run, inline))
        return Observed(
            run,
            pods=self._pods.get(uid_of(run)),
            task=task,
            actions=actions,
            claims=frozenset(name_of(claim) for claim in self._by_namespace.get(namespace)),
            images=commands,
            entrypoint=msgspec.structs.replace(entrypoint(), roots=roots),
            now=self._now(),
        )

    def _known(
        self, specs: Sequence[Object], values: Mapping[str, Value]
    ) -> tuple[dict[str, tuple[str, ...]], frozenset[str]]:
        """Return the command of each image that has one, and the images that have a root of their own."""
        from trainshed.tekton.variables import replace

        commands: dict[str, tuple[str, ...]] = {}
        roots = set()
        parts = ("steps", "sidecars")
        named = [one for spec in specs for field in parts for one in objects(spec, field)]
        for one in (*named, *(section(spec, "stepTemplate") for spec in specs), *specs):
            name = one.get("image")
            if not isinstance(name, str):
                continue
            name = str(replace(name, values))
            try:
                image = self._images.resolve(name)
            except ImageProblem:
                continue  # the pod says so
            if image is not None and (image.entrypoint or image.cmd):
                commands[name] = (*image.entrypoint, *image.cmd)
            if image is not None and image.has_own_root:
                roots.add(name)
        return commands, frozenset(roots)


def _values(run: Object, task: Object) -> dict[str, Value]:
    """Return the parameters that an image's name may refer to."""
    defaults = {str(p.get("name")): p.get("default") for p in objects(task, "params")}
    given = {str(p.get("name")): p.get("value") for p in objects(spec_of(run), "params")}
    return {f"params.{name}": value for name, value in (defaults | given).items() if isinstance(value, str)}
