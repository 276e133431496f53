"""A notebook's pipeline on a cluster: start a run, follow it, say how it ended.

start    compile → objects → create; a finished run of that name is replaced
follow   the run, its TaskRuns and CustomRuns, the logs of all their pods
ended    steps with their times, results, where reports lie, and the failure in the author's words
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Protocol

import msgspec

from trainshed.client.client import Client
from trainshed.client.informer import Informer
from trainshed.client.transport import TransportError
from trainshed.jobs.engine.constants import LABEL_JOB_NAME
from trainshed.kube.meta.errors import ApiError
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
from trainshed.kube.meta.ownership import controller_reference
from trainshed.kube.meta.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, PODS
from trainshed.kube.meta.times import parse_time
from trainshed.pipelines.emit import local, tekton
from trainshed.pipelines.emit.options import Options
from trainshed.pipelines.emit.tekton import DATA
from trainshed.pipelines.ir import Pipeline
from trainshed.pipelines.notebook.steps import resource_name
from trainshed.pipelines.python.decorators import PipelineFunction
from trainshed.sdk import state as jobstate
from trainshed.sdk.connection import Target, connected
from trainshed.sdk.errors import UserError
from trainshed.sdk.logs import Lines, follow_container
from trainshed.sdk.run import wait_gone
from trainshed.tekton import conditions
from trainshed.tekton.resources import (
    CUSTOMRUNS,
    LABEL_PIPELINE_RUN,
    LABEL_PIPELINE_TASK,
    PIPELINERUNS,
    TASKRUNS,
    claim_name,
)

State = Literal["waiting", "pending", "running", "succeeded", "failed", "cancelled", "skipped"]
_KEPT_LINES = 200
_DRAIN_SECONDS = 5.0
_ERROR = re.compile(r"error: step ([^\s:,]+)(?:, cell (\d+))?(?:, line (\d+))?(?::| stops) ?(.*)")


class StepState(msgspec.Struct, frozen=True):
    """How one step stands. `started` and `ended` are seconds since the epoch."""

    name: str
    state: State = "waiting"
    started: float | None = None
    ended: float | None = None
    detail: str = ""
    previous: tuple[str, ...] = ()
    level: int = 0

    def seconds(self, now: float) -> float | None:
        """Return how long it has taken, None before it starts."""
        return None if self.started is None else (self.ended or now) - self.started


class Failure(msgspec.Struct, frozen=True):
    """What failed: the step, where in the notebook, and the traceback as its author knows it."""

    step: str
    message: str
    cell: int | None = None
    line: int | None = None
    traceback: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return what to print: where and what first, then the traceback."""
        place = f", cell {self.cell}" if self.cell is not None else ""
        place += f", line {self.line}" if self.line is not None else ""
        return [f"step {self.step} failed{place}: {self.message}", *self.traceback]


class Ended(msgspec.Struct, frozen=True):
    """How a run ended."""

    name: str
    namespace: str
    succeeded: bool
    reason: str
    message: str
    steps: tuple[StepState, ...] = ()
    results: dict[str, str] = {}
    seconds: float = 0.0
    data: str | None = None
    """The claim's directory on this machine, where it has one."""
    reports: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()


class View(Protocol):
    """Where a follow shows what it sees."""

    async def lines(self, step: str, lines: Sequence[str]) -> None:
        """Some log lines of a step."""

    def update(self, steps: Sequence[StepState]) -> None:
        """The state of a step changed, or time went by."""

    def event(self, text: str) -> None:
        """Something worth a line of its own."""


def levels(pipeline: Pipeline) -> dict[str, int]:
    """Return how many steps must end before each, on the longest way."""
    found: dict[str, int] = {}
    for step in pipeline.steps:
        found[step.name] = max((found.get(p, -1) + 1 for p in step.previous), default=0)
    return found


def states(pipeline: Pipeline, run: Object | None, children: Sequence[Object]) -> tuple[StepState, ...]:
    """Return how each step of the pipeline stands, in the pipeline's order."""
    level = levels(pipeline)
    skipped = {
        str(s["name"]): str(s.get("reason", "")) for s in objects(status_of(run or {}), "skippedTasks")
    }
    by_task: dict[str, list[Object]] = defaultdict(list)
    for child in children:
        by_task[labels_of(child).get(LABEL_PIPELINE_TASK, "")].append(child)
    out = []
    for step in pipeline.steps:
        task = resource_name(step.name)
        runs = [*by_task[task], *(r for i in range(_workers(step)) for r in by_task[f"{task}{i + 1}"])]
        one = StepState(step.name, previous=step.previous, level=level[step.name])
        if task in skipped:
            one = msgspec.structs.replace(one, state="skipped", detail=skipped[task])
        elif runs:
            one = _state_of(one, runs)
        out.append(one)
    return tuple(out)


def _workers(step: object) -> int:
    distribution = getattr(step, "distribution", None)
    return int(distribution.workers) if distribution is not None else 0


def _state_of(one: StepState, runs: Sequence[Object]) -> StepState:
    words = [conditions.state(run) for run in runs]
    why = [conditions.reason(run) for run in runs]
    begun = [t for run in runs if (t := status_of(run).get("startTime"))]
    over = [t for run in runs if (t := status_of(run).get("completionTime"))]
    state: State
    if "False" in words:
        state = "cancelled" if any(w.endswith("Cancelled") for w in why) else "failed"
    elif all(word == "True" for word in words):
        state = "succeeded"
    else:
        state = "running" if "Running" in why else "pending"
    message = next((c.get("message", "") for run in runs for c in objects(status_of(run), "conditions")), "")
    retried = max((len(objects(status_of(run), "retriesStatus")) for run in runs), default=0)
    detail = message if state in ("pending", "failed") and message != "Pending" else ""
    if retried and state in ("running", "pending"):
        detail = f"attempt {retried + 1}"
    return msgspec.structs.replace(
        one,
        state=state,
        started=parse_time(min(begun)) if begun else None,
        ended=parse_time(max(over)) if len(over) == len(runs) and over else None,
        detail=detail,
    )


async def start(client: Client, objects_: Sequence[Object]) -> Object:
    """Create the run and what it refers to; a finished run of that name goes first. Return the run.

    Raises:
        UserError: a run of that name is under way, or the cluster has no Tekton.
        ApiError: what the server refused.
    """
    *others, run = objects_
    namespace = namespace_of(run) or client.namespace
    name = section(run, "metadata").get("name")
    if name:
        await _make_room(client, str(name), namespace)
    for other in others:
        from trainshed.sdk.apply import apply_all

        await apply_all(client, [other], namespace)
    try:
        return await client.create(PIPELINERUNS, run, namespace=namespace)
    except ApiError as error:
        if error.code == 404:
            raise UserError(
                "this cluster serves no PipelineRuns of tekton.dev/v1",
                "install Tekton, or run without --context",
            ) from error
        raise


async def _make_room(client: Client, name: str, namespace: str) -> None:
    try:
        before = await client.get(PIPELINERUNS, name, namespace)
    except ApiError as error:
        if error.code == 404:
            return
        raise
    if not conditions.is_done(before) and not section(before, "metadata").get("deletionTimestamp"):
        raise UserError(
            f"the run {name} is under way",
            f"give another --run-name, or kubectl delete pipelinerun {name} -n {namespace}",
        )
    await client.delete(PIPELINERUNS, name, namespace, propagation_policy="Foreground", uid=uid_of(before))
    await wait_gone(client, PIPELINERUNS, name, namespace)


class Follower:
    """Follows one run until it is over or gone."""

    def __init__(self, client: Client, pipeline: Pipeline, run: Object, view: View) -> None:
        self._client, self._pipeline, self._view = client, pipeline, view
        self._name, self._namespace, self._uid = name_of(run), namespace_of(run), uid_of(run)
        mine = f"{LABEL_PIPELINE_RUN}={self._name}"
        self._runs = Informer(
            client, PIPELINERUNS, namespace=self._namespace, field_selector=f"metadata.name={self._name}"
        )
        self._children = [
            Informer(client, kind, namespace=self._namespace, label_selector=mine)
            for kind in (TASKRUNS, CUSTOMRUNS)
        ]
        self._pods = Informer(client, PODS, namespace=self._namespace)
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

    async def run(self) -> Ended:
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
        if labels.get(LABEL_PIPELINE_RUN) == self._name:
            task, suffix = labels.get(LABEL_PIPELINE_TASK, ""), ""
        elif labels.get(LABEL_JOB_NAME) in self._jobs:
            task = self._jobs[labels[LABEL_JOB_NAME]]
            suffix = f"/{jobstate.replica_name(new)}"
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
            if _ERROR.match(line):
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
        try:
            for informer in self._children:
                listed = await self._client.list(
                    informer.resource, self._namespace, label_selector=f"{LABEL_PIPELINE_RUN}={self._name}"
                )
                for child in listed.items:
                    self._child_changed("MODIFIED", None, child)
            for pod in (await self._client.list(PODS, self._namespace)).items:
                self._pod_changed("MODIFIED", None, pod)
        except TransportError:
            return

    async def _drain(self) -> None:
        """Return when all logs have come to their end, or none has moved for a while."""
        while pending := [task for task in self._streams.values() if not task.done()]:
            before = self._lines
            await asyncio.wait(pending, timeout=_DRAIN_SECONDS)
            if self._lines == before and not any(task.done() for task in pending):
                break

    async def _ended(self) -> Ended:
        run = self._run
        if run is None:
            return Ended(self._name, self._namespace, False, "Deleted", "the run was deleted")
        found = next(iter(objects(status_of(run), "conditions")), {})
        results = {str(r["name"]): str(r.get("value")) for r in objects(status_of(run), "results")}
        steps = self._states()
        data = await data_directory(self._client, run)
        status = status_of(run)
        return Ended(
            self._name,
            self._namespace,
            conditions.state(run) == "True",
            conditions.reason(run),
            str(found.get("message", "")),
            steps,
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


def failure_in(step: str, lines: Sequence[str]) -> Failure | None:
    """Return what the step runner said at last, None when it said nothing."""
    found = None
    all_lines = list(lines)
    for number, line in enumerate(all_lines):
        match = _ERROR.match(line)
        if match:
            found = (number, match)
    if found is None:
        return None
    number, match = found
    rest = all_lines[number + 1 :]
    while rest and not rest[0].strip():
        rest.pop(0)
    cell, line_ = (int(g) if g else None for g in (match[2], match[3]))
    return Failure(step, match[4], cell, line_, tuple(rest))


def data_claim(run: Object) -> str:
    """Return the name of the claim with a run's data: its own, or the one of the run that it goes on from."""
    for binding in objects(section(run, "spec"), "workspaces"):
        if binding.get("name") == DATA:
            given = section(binding, "persistentVolumeClaim").get("claimName")
            return str(given) if given else claim_name("", DATA, uid_of(run))
    return ""


async def data_directory(client: Client, run: Object) -> str | None:
    """Return the directory of a run's data on this machine; None where it lies elsewhere."""
    try:
        claim = await client.get(PERSISTENTVOLUMECLAIMS, data_claim(run), namespace_of(run))
        volume = section(claim, "spec").get("volumeName")
        found = await client.get(PERSISTENTVOLUMES, str(volume)) if volume else {}
    except (ApiError, TransportError):
        return None
    path = section(found, "spec", "hostPath").get("path")
    return str(path) if path else None


def reports(data: str | None, steps: Sequence[StepState]) -> tuple[str, ...]:
    """Return where the HTML reports of steps lie, of those that ran."""
    if data is None:
        return ()
    ran = [s for s in steps if s.state in ("succeeded", "failed")]
    return tuple(f"{data}/reports/{step.name}.html" for step in ran)


def summary(ended: Ended) -> list[str]:
    """Return what to print of a run that is over: what failed first, then results and where things lie."""
    out: list[str] = []
    for failure in ended.failures:
        out += [*failure.lines(), ""]
    if not ended.succeeded and not ended.failures:
        out.append(f"{ended.reason}: {ended.message}")
    done = sum(step.state == "succeeded" for step in ended.steps)
    word = "succeeded" if ended.succeeded else "failed"
    out.append(f"{ended.name} {word}: {done} of {len(ended.steps)} steps in {ended.seconds:.0f} s")
    out += [f"  {name} = {value}" for name, value in sorted(ended.results.items())]
    if ended.data is not None:
        out.append(f"  data     {ended.data}")
    out += [f"  report   {path}" for path in ended.reports]
    return out


def _task_in(value: str) -> str:
    parts = value.split(".")
    return parts[1] if len(parts) > 1 else ""


def with_data_of(
    objects_: Sequence[Object], before: Object, keep: Mapping[str, bool], claim: str
) -> list[Object]:
    """Return the objects of a run of the steps to `keep` only, on the data of an earlier run.

    Raises:
        UserError: the pipeline is not inline.
    """
    *others, run = objects_
    spec = section(run, "spec")
    pipeline = section(spec, "pipelineSpec")
    if not pipeline:
        raise UserError("--from takes a run with its pipeline in it")
    kept = [t for t in objects(pipeline, "tasks") if keep.get(str(t.get("name")))]
    names = {str(t["name"]) for t in kept}
    for task in kept:
        after = [name for name in task.get("runAfter") or () if name in names]
        task.pop("runAfter", None)
        if after:
            task["runAfter"] = after
        for param in objects(task, "params"):
            if param.get("name") == "trainshed-run":
                param["value"] = name_of(before)  # whose data it is, so that its pickles may be loaded
    pipeline["tasks"] = kept
    results = [r for r in objects(pipeline, "results") if _task_in(str(r.get("value"))) in names]
    pipeline.pop("results", None)
    if results:
        pipeline["results"] = results
    spec["workspaces"] = [
        {"name": w["name"], "persistentVolumeClaim": {"claimName": claim}} if w.get("name") == DATA else w
        for w in objects(spec, "workspaces")
    ]
    metadata = section(run, "metadata")
    metadata.pop("name", None)
    metadata["generateName"] = f"{name_of(before)}-again-"
    owner = controller_reference(before)  # it goes when the run goes whose data it works on
    metadata["ownerReferences"] = [{**owner, "controller": False, "blockOwnerDeletion": False}]
    return [*others, run]


async def last_run(client: Client, name: str) -> Object:
    """Return the run of that name. Raises UserError when there is none."""
    try:
        return await client.get(PIPELINERUNS, name, client.namespace)
    except ApiError as error:
        if error.code != 404:
            raise
        raise UserError(f"there is no run {name} to go on from", "run the whole notebook first") from error


async def again(
    client: Client, pipeline: Pipeline, objects_: Sequence[Object], first: str
) -> tuple[Pipeline, list[Object]]:
    """Return the pipeline of a step and all that wait for it, and its objects, on the data of the last run.

    Raises:
        UserError: there is no such step, no last run, or a step before it that has not succeeded.
    """
    from trainshed.sdk.notebook import step_of

    step_of(pipeline, first)
    wanted = {first}
    for step in pipeline.steps:
        if wanted & set(step.previous):
            wanted.add(step.name)
    before = await last_run(client, str(section(objects_[-1], "metadata").get("name")))
    found = await client.list(
        TASKRUNS, namespace_of(before), label_selector=f"{LABEL_PIPELINE_RUN}={name_of(before)}"
    )
    custom = await client.list(
        CUSTOMRUNS, namespace_of(before), label_selector=f"{LABEL_PIPELINE_RUN}={name_of(before)}"
    )
    stand = {s.name: s.state for s in states(pipeline, before, [*found.items, *custom.items])}
    needed = {i.step for step in pipeline.steps if step.name in wanted for i in step.inputs} - wanted
    missing = sorted(name for name in needed if stand.get(name) != "succeeded")
    if missing:
        raise UserError(
            f"step {missing[0]} has not succeeded in the run {name_of(before)}",
            f"--from {missing[0]} runs it again",
        )
    keep = {resource_name(name): True for name in wanted}
    claim = data_claim(before)
    try:
        await client.get(PERSISTENTVOLUMECLAIMS, claim, namespace_of(before))
    except ApiError as error:
        raise UserError(
            f"the run {name_of(before)} has no data any more", "run the whole notebook"
        ) from error
    smaller = msgspec.structs.replace(
        pipeline,
        steps=tuple(
            msgspec.structs.replace(step, previous=tuple(p for p in step.previous if p in wanted))
            for step in pipeline.steps
            if step.name in wanted
        ),
    )
    return smaller, with_data_of(objects_, before, keep, claim)


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


class PipelineFailed(UserError):
    """A run that was waited for has failed. `ended` says which steps, where and why."""

    def __init__(self, ended: Ended) -> None:
        super().__init__("\n".join(summary(ended)))
        self.ended = ended


def run_pipeline(
    pipeline: Pipeline | PipelineFunction[Any, Any],
    *,
    target: Target | None = None,
    run_name: str | None = None,
    on_line: Callable[[str, str], None] | None = None,
    **parameters: object,
) -> Ended:
    """Run a pipeline of functions or of a notebook on the local cluster, or on `target`; return how it ended.

    `on_line` is given each log line with its step, in another thread. The local cluster is started if it is not up. A
    finished run of the same name is replaced.

    Raises:
        PipelineFailed: with the step, the cell and the traceback.
        NotebookError: the functions form no pipeline.
        UserError: an unknown parameter, or a run of that name is under way.
    """
    from trainshed.sdk import local as machine
    from trainshed.sdk import notebook as notebooks
    from trainshed.sdk.portal import portal

    made = pipeline if isinstance(pipeline, Pipeline) else pipeline.pipeline()
    given = notebooks.parameters(made, [f"{name}={value}" for name, value in parameters.items()])
    where = target or Target()
    if where.is_local:
        machine.start(where.paths)
    objects_ = emitted(made, where, Options(run_name=run_name or made.name, parameters=given))

    async def follow() -> Ended:
        async with connected(where) as client:
            return await Follower(client, made, await start(client, objects_), Quiet(on_line)).run()

    ended = portal().call(follow())
    if not ended.succeeded:
        raise PipelineFailed(ended)
    return ended


def emitted(pipeline: Pipeline, target: Target, options: Options) -> list[Object]:
    """Return the objects that run a pipeline once on the target. Raises NotebookError for programs that do not fit."""
    from trainshed.sdk.notebook import refuse_too_large

    refuse_too_large(pipeline)
    options = msgspec.structs.replace(options, namespace=target.namespace)
    if target.is_local:
        return local.emit(pipeline, msgspec.structs.replace(options, python=sys.executable))
    return tekton.emit(pipeline, options)
