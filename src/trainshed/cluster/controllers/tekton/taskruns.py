"""TaskRuns: the loop around `taskrun.decide`."""

from __future__ import annotations

import stat
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.execution import Executor
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Key, controlled_by, key_of
from trainshed.cluster.images.directories import ImageProblem
from trainshed.cluster.images.lookup import Lookup
from trainshed.kube.meta.objects import Object, name_of, namespace_of, objects, section, spec_of, uid_of
from trainshed.kube.meta.resources import PERSISTENTVOLUMECLAIMS, PODS
from trainshed.tekton import stepactions
from trainshed.tekton.resources import STEPACTIONS, TASKRUNS, TASKS
from trainshed.tekton.taskpod import Entrypoint
from trainshed.tekton.taskrun import Observed, decide

_PROGRAM = Path(__file__).with_name("entrypoint.py")
_SYSTEM_PYTHON = "/usr/bin/python3"


def entrypoint() -> Entrypoint:
    """Return how steps are started: by what a step of any user may read, where there is such a thing."""
    python = sys.executable
    if not _is_open(Path(python)) and Path(_SYSTEM_PYTHON).exists():
        python = _SYSTEM_PYTHON
    program = (str(_PROGRAM),) if _is_open(_PROGRAM) else ("-c", _PROGRAM.read_text())
    return Entrypoint(python, program)


def _is_open(path: Path) -> bool:
    """Return whether every user may read the file: it, and all directories on the way to it."""
    real = path.resolve()
    return bool(real.stat().st_mode & stat.S_IROTH) and all(
        folder.stat().st_mode & stat.S_IXOTH for folder in (*path.absolute().parents, *real.parents)
    )


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
        self._entrypoint = entrypoint()
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
        plan = decide(self._observe(run))
        await self._executor.execute(key, run, plan)
        return plan.requeue_after

    def _observe(self, run: Object) -> Observed:
        namespace, spec = namespace_of(run), spec_of(run)
        name = section(spec, "taskRef").get("name")
        task = self._tasks.get(namespace, str(name)) if name else None
        inline = section(spec, "taskSpec") or spec_of(task or {})
        wanted = {n: self._actions.get(namespace, n) for n in stepactions.names(inline)}
        actions = {n: found for n, found in wanted.items() if found is not None}
        return Observed(
            run,
            pods=self._pods.get(uid_of(run)),
            task=task,
            actions=actions,
            claims=frozenset(name_of(claim) for claim in self._by_namespace.get(namespace)),
            images=self._commands([inline, *(spec_of(a) for a in actions.values())]),
            entrypoint=self._entrypoint,
            now=self._now(),
        )

    def _commands(self, specs: Sequence[Object]) -> dict[str, tuple[str, ...]]:
        """Return the command of each image in the specs that has one."""
        out = {}
        for spec in specs:
            for part in (*objects(spec, "steps"), section(spec, "stepTemplate"), spec):
                name = part.get("image")
                try:
                    image = self._images.resolve(name) if isinstance(name, str) else None
                except ImageProblem:
                    continue  # the pod says so
                if image is not None and (image.entrypoint or image.cmd):
                    out[str(name)] = (*image.entrypoint, *image.cmd)
        return out
