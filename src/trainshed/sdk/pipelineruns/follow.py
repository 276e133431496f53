"""Follow a run until it is over or gone: its children, and the logs of all their pods."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from trainshed.client.client import Client
from trainshed.client.informer import Informer
from trainshed.client.transport import TransportError
from trainshed.jobs.engine.constants import LABEL_JOB_NAME
from trainshed.kube.meta.objects import (
    Object,
    labels_of,
    name_of,
    namespace_of,
    objects,
    section,
    status_of,
    uid_of,
)
from trainshed.kube.meta.resources import PODS
from trainshed.kube.meta.times import parse_time
from trainshed.pipelines.emit.program import parameter_text
from trainshed.pipelines.ir import Pipeline
from trainshed.pipelines.notebook.stepnames import resource_name
from trainshed.sdk import state as jobstate
from trainshed.sdk.logs import Lines, follow_container
from trainshed.sdk.pipelineruns.data import data_directory, given_parameters
from trainshed.sdk.pipelineruns.ended import Failure, PipelineOutcome, failure_in, is_error, reports
from trainshed.sdk.pipelineruns.steps import StepState, states
from trainshed.tekton import conditions
from trainshed.tekton.resources import (
    CUSTOMRUNS,
    LABEL_PIPELINE_RUN,
    LABEL_PIPELINE_TASK,
    PIPELINERUNS,
    TASKRUNS,
)

_KEPT_LINES = 200


_DRAIN_SECONDS = 5.0


class View(Protocol):
    """Where a follow shows what it sees."""

    async def lines(self, step: str, lines: Sequence[str]) -> None:
        """Some log lines of a step."""

    def update(self, steps: Sequence[StepState]) -> None:
        """The state of a step changed, or time went by."""

    def event(self, text: str) -> None:
        """Something worth a line of its own."""


class Quiet:
    """A view that shows nothing but hands log lines on."""

    def __init__(self, on_line: Callable[[str, str], None] | None) -> None:
        self._on_line = on_line

    async def lines(self, step: str, lines: Sequence[str]) -> None:
        """Hand the lines on."""
        for line in lines if self._on_line is not None else ():
            assert self._on_line is not None
            self._on_line(step, line)

    def update(self, steps: Sequence[StepState]) -> None:
        """Nobody looks."""

    def event(self, text: str) -> None:
        """Nobody reads."""


class Follower:
    """Follows one run until it is over or gone."""

    def __init__(self, client: Client, pipeline: Pipeline, run: Object, view: View) -> None:
        self._client, self._pipeline, self._view = client, pipeline, view
        self._name, self._namespace, self._uid = name_of(run), namespace_of(run), uid_of(run)
        mine = f"{LABEL_PIPELINE_RUN}={self._name}"
        self._runs = Informer(
            client, PIPELINERUNS, namespace=self._namespace, field_selector=f"metadata.name={self._name}"
        )
        # A distributed step is a CustomRun, and the pods of its job have no label of the run's.
        distributed = any(step.distribution is not None for step in pipeline.steps)
        self._children = [
            Informer(client, kind, namespace=self._namespace, label_selector=mine)
            for kind in ((TASKRUNS, CUSTOMRUNS) if distributed else (TASKRUNS,))
        ]
        self._selected = "" if distributed else mine
        self._pods = Informer(client, PODS, namespace=self._namespace, label_selector=self._selected)
        self._run: Object | None = run
        self._tasks = {resource_name(step.name): step.name for step in pipeline.steps}
        self._jobs: dict[str, str] = {}
        self._streams: dict[tuple[str, str, int], asyncio.Task[None]] = {}
        self._tails: dict[str, deque[str]] = defaultdict(lambda: deque(maxlen=_KEPT_LINES))
        self._said: dict[str, list[str]] = {}
        """From the last error on: of a long message, its begin counts."""
        self._lines = 0
        self._told: set[str] = set()
        self._finished = asyncio.Event()
        self._began = time.time()

    async def run(self) -> PipelineOutcome:
        """Return how the run ended. Cancelling it detaches: the run goes on."""
        self._runs.add_handler(self._run_changed)
        for informer in self._children:
            informer.add_handler(self._child_changed)
        self._pods.add_handler(self._pod_changed)
        parts = (self._runs, *self._children, self._pods)
        tasks = [asyncio.create_task(part.run()) for part in parts]
        tasks.append(asyncio.create_task(self._refresh()))
        try:
            await self._finished.wait()
            await self._catch_up()
            await self._drain()
        finally:
            for task in (*tasks, *self._streams.values()):
                task.cancel()
            await asyncio.gather(*tasks, *self._streams.values(), return_exceptions=True)
        self._view.update(self._states())
        return await self._ended()

    def _states(self) -> tuple[StepState, ...]:
        return states(self._pipeline, self._run, [c for i in self._children for c in i.items()])

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(0.15)
            self._view.update(self._states())

    def _run_changed(self, change: str, old: Object | None, new: Object) -> None:
        if uid_of(new) != self._uid:
            return
        if change == "DELETED":
            self._run = None
            self._finished.set()
            return
        self._run = new
        if conditions.is_done(new):
            self._finished.set()

    def _child_changed(self, change: str, old: Object | None, new: Object) -> None:
        task = labels_of(new).get(LABEL_PIPELINE_TASK, "")
        job = section(status_of(new), "extraFields").get("job")
        if job and job not in self._jobs:
            self._jobs[str(job)] = task
            for pod in self._pods.items():
                self._pod_changed("ADDED", None, pod)
        step = self._tasks.get(task, task)
        state, reason = conditions.state(new), conditions.reason(new)
        if reason in ("ToBeRetried",) or state == "False":
            text = next((str(c.get("message")) for c in objects(status_of(new), "conditions")), "")
            self._tell(
                f"{step}: {reason}: {text}", name_of(new) + str(len(objects(status_of(new), "retriesStatus")))
            )

    def _pod_changed(self, change: str, old: Object | None, new: Object) -> None:
        labels = labels_of(new)
        if change == "DELETED":
            return
        if labels.get(LABEL_JOB_NAME) in self._jobs:
            task = self._jobs[labels[LABEL_JOB_NAME]]
            suffix = f"/{jobstate.replica_name(new)}"
        elif labels.get(LABEL_PIPELINE_RUN) == self._name and LABEL_JOB_NAME not in labels:
            task, suffix = labels.get(LABEL_PIPELINE_TASK, ""), ""
        else:
            return
        step = self._tasks.get(task, task) + suffix
        for container, attempt in jobstate.started_instances(new):
            key = (uid_of(new), container, attempt)
            if key not in self._streams:
                self._streams[key] = asyncio.create_task(
                    follow_container(
                        self._client,
                        name_of(new),
                        self._namespace,
                        container,
                        partial(self._received, step),
                    )
                )

    async def _received(self, step: str, lines: Lines) -> None:
        self._lines += len(lines.texts)
        self._tails[step].extend(lines.texts)
        for line in lines.texts:
            if is_error(line):
                self._said[step] = []
            if step in self._said and len(self._said[step]) < _KEPT_LINES:
                self._said[step].append(line)
        await self._view.lines(step, lines.texts)

    def _tell(self, text: str, key: str) -> None:
        if text + key not in self._told:
            self._told.add(text + key)
            self._view.event(text)

    async def _catch_up(self) -> None:
        """See every child and pod as it is now: the run's end may be known before theirs."""
        mine = f"{LABEL_PIPELINE_RUN}={self._name}"
        try:
            *children, pods = await asyncio.gather(
                *(
                    self._client.list(one.resource, self._namespace, label_selector=mine)
                    for one in self._children
                ),
                self._client.list(PODS, self._namespace, label_selector=self._selected),
            )
        except TransportError:
            return
        for child in (child for listed in children for child in listed.items):
            self._child_changed("MODIFIED", None, child)
        for pod in pods.items:
            self._pod_changed("MODIFIED", None, pod)

    async def _drain(self) -> None:
        """Return when all logs have come to their end, or none has moved for a while."""
        while pending := [task for task in self._streams.values() if not task.done()]:
            before = self._lines
            await asyncio.wait(pending, timeout=_DRAIN_SECONDS)
            if self._lines == before and not any(task.done() for task in pending):
                break

    async def _ended(self) -> PipelineOutcome:
        run = self._run
        if run is None:
            return PipelineOutcome(self._name, self._namespace, False, "Deleted", "the run was deleted")
        found = next(iter(objects(status_of(run), "conditions")), {})
        results = {str(r["name"]): str(r.get("value")) for r in objects(status_of(run), "results")}
        steps = self._states()
        data = await data_directory(self._client, run)
        status = status_of(run)
        return PipelineOutcome(
            self._name,
            self._namespace,
            conditions.state(run) == "True",
            conditions.reason(run),
            str(found.get("message", "")),
            steps,
            {p.name: parameter_text(p) for p in self._pipeline.parameters} | given_parameters(run),
            results,
            parse_time(status["completionTime"]) - parse_time(status["startTime"])
            if status.get("completionTime") and status.get("startTime")
            else 0.0,
            data,
            reports(data, steps),
            tuple([await self._failure(step) for step in steps if step.state == "failed"]),
        )

    async def _failure(self, step: StepState) -> Failure:
        own = {key: lines for key, lines in self._tails.items() if key.partition("/")[0] == step.name}
        best = None
        for said in (lines for key, lines in self._said.items() if key in own):
            found = failure_in(step.name, said)
            # Workers whose peer failed stop too: the one that says why has a traceback.
            if found is not None and (best is None or len(found.traceback) > len(best.traceback)):
                best = found
        if best is not None:
            return best
        tail = next(iter(own.values()), deque[str]())
        return Failure(step.name, step.detail or "failed", traceback=tuple(list(tail)[-20:]))
