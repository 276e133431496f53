"""How the tasks of a pipeline stand: started, over, skipped and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import msgspec

from trainshed.kube.meta.objects import Object, objects, status_of
from trainshed.tekton import conditions
from trainshed.tekton.matrix import combinations, is_fanned_out
from trainshed.tekton.params import as_value, type_of
from trainshed.tekton.pipelinetasks import Node
from trainshed.tekton.variables import Value
from trainshed.tekton.whens import WhenError, holds, resolved

WHEN = "When Expressions evaluated to false"
PARENT = "Parent Tasks were skipped"
MISSING_RESULTS = "Results were missing"
STOPPING = "PipelineRun was stopping"
GRACEFULLY_CANCELLED = "PipelineRun was gracefully cancelled"
GRACEFULLY_STOPPED = "PipelineRun was gracefully stopped"
PIPELINE_TIMEOUT = "PipelineRun timeout has been reached"
TASKS_TIMEOUT = "PipelineRun Tasks timeout has been reached"
FINALLY_TIMEOUT = "PipelineRun Finally timeout has been reached"
EMPTY_MATRIX = "Matrix Parameters have an empty array"
TIMEOUTS = (PIPELINE_TIMEOUT, TASKS_TIMEOUT, FINALLY_TIMEOUT)
_CANCELLED = (
    "TaskRunCancelled",
    "CustomRunCancelled",
    "RunCancelled",
    "Cancelled",
    "CancelledRunningFinally",
    "StoppedRunningFinally",
)

Standing = Literal["succeeded", "failed", "cancelled", "running", "none"]


class Circumstances(msgspec.Struct, frozen=True):
    """What holds for the whole run. `stop` is `spec.status` where that asks for an end."""

    stop: str = ""
    timed_out: bool = False
    tasks_timed_out: bool = False
    finally_timed_out: bool = False


class Facts:
    """The tasks of one run with their children. Answers are remembered: nothing that it reads changes."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        children: Mapping[str, Sequence[Object]],
        circumstances: Circumstances,
    ) -> None:
        self.nodes = nodes
        self.children = children
        self._circumstances = circumstances
        self._standings: dict[str, Standing] = {}
        self._skips: dict[str, str] = {}
        self._scopes: dict[str, dict[str, Value]] = {}

    def runs(self, name: str) -> Sequence[Object]:
        """Return the TaskRuns or CustomRuns of a task, in the order of its combinations."""
        return self.children.get(name, ())

    def standing(self, name: str) -> Standing:
        """Return how a task stands, skipping apart."""
        if name not in self._standings:
            self._standings[name] = self._standing(name)
        return self._standings[name]

    def _standing(self, name: str) -> Standing:
        runs = self.runs(name)
        if not runs:
            return "none"
        if not all(conditions.is_done(run) for run in runs):
            return "running"
        ended = [run for run in runs if conditions.state(run) == "False"]
        if not ended:
            return "succeeded"
        return "cancelled" if any(conditions.reason(run) in _CANCELLED for run in ended) else "failed"

    def is_over(self, name: str) -> bool:
        """Return whether nothing more becomes of a task: its runs are over, or it is skipped."""
        return self.standing(name) not in ("none", "running") or bool(self.skip(name))

    @cached_property
    def ordinary(self) -> list[Node]:
        """The tasks that are not `finally`."""
        return [node for node in self.nodes.values() if not node.final]

    @property
    def final(self) -> list[Node]:
        """The tasks of `finally`."""
        return [node for node in self.nodes.values() if node.final]

    @cached_property
    def is_stopping(self) -> bool:
        """Whether a task has failed or was cancelled, so that no other starts."""
        return any(
            self.standing(node.name) in ("failed", "cancelled") and not node.goes_on for node in self.ordinary
        )

    @cached_property
    def ordinary_over(self) -> bool:
        """Whether all tasks but those of `finally` are over."""
        return all(self.is_over(node.name) for node in self.ordinary)

    def skip(self, name: str) -> str:
        """Return why a task does not run; empty when it runs, did, or may yet."""
        if name not in self._skips:
            self._skips[name] = ""  # `finally` asks for the others, never for itself
            self._skips[name] = self._skip(self.nodes[name])
        return self._skips[name]

    def _skip(self, node: Node) -> str:
        if self.runs(node.name):
            return ""
        if node.final:
            return self._skip_final(node)
        held = self._circumstances
        if held.timed_out:
            return PIPELINE_TIMEOUT
        if held.tasks_timed_out:
            return TASKS_TIMEOUT
        if held.stop == "CancelledRunFinally":
            return GRACEFULLY_CANCELLED
        if held.stop == "StoppedRunFinally":
            return GRACEFULLY_STOPPED
        if self.is_stopping:
            return STOPPING
        for parent in sorted(node.after):
            reason = self.skip(parent)
            # Whoever only waits for a task that was not wanted goes on; whoever needs its results cannot.
            if reason and (reason != WHEN or any(used == parent for used, _ in node.uses)):
                return MISSING_RESULTS if reason == WHEN else PARENT
        if not all(self.is_over(parent) for parent in node.after):
            return ""
        return self._unwanted(node)

    def _skip_final(self, node: Node) -> str:
        held = self._circumstances
        if held.timed_out:
            return PIPELINE_TIMEOUT
        if held.stop == "Cancelled" or not self.ordinary_over:
            return ""
        if held.finally_timed_out:
            return FINALLY_TIMEOUT
        return self._unwanted(node)

    def _unwanted(self, node: Node) -> str:
        scope = self.scope(node)
        if any(f"tasks.{task}.results.{result}" not in scope for task, result in node.uses):
            return MISSING_RESULTS
        when = objects(node.task, "when")
        if when and not holds(resolved(when, scope)):
            return WHEN
        if is_fanned_out(node.task) and not combinations(node.task, scope):
            return EMPTY_MATRIX
        return ""

    def ready(self) -> list[Node]:
        """Return the tasks that may start now, and those of which only some runs were made."""
        held = self._circumstances
        if held.stop == "Cancelled" or held.timed_out:
            return []
        out = []
        for node in self.ordinary:
            waits = not all(self.is_over(parent) for parent in node.after)
            if waits or self.skip(node.name) or self.is_stopping or held.stop or held.tasks_timed_out:
                continue
            out.append(node)
        if self.ordinary_over and not held.finally_timed_out:
            out += [node for node in self.final if not self.skip(node.name)]
        return out

    def scope(self, node: Node) -> dict[str, Value]:
        """Return what `$(tasks.…)` stands for in a task: results of those before it, for `finally` their states too."""
        if node.name not in self._scopes:
            scope: dict[str, Value] = {}
            for other in self.ordinary:
                if node.final or other.name in node.after or any(other.name == used for used, _ in node.uses):
                    scope |= self._results(other)
            if node.final:
                scope |= self._states()
            self._scopes[node.name] = scope
        return self._scopes[node.name]

    def results(self) -> dict[str, Value]:
        """Return the results of all tasks, by `tasks.NAME.results.RESULT` or `finally.…`."""
        scope: dict[str, Value] = {}
        for node in self.nodes.values():
            scope |= self._results(node)
        return scope

    def _results(self, node: Node) -> dict[str, Value]:
        runs = self.runs(node.name)
        if not runs or not all(conditions.is_done(run) for run in runs):
            return {}
        prefix = f"{'finally' if node.final else 'tasks'}.{node.name}.results"
        if not is_fanned_out(node.task):
            return {f"{prefix}.{name}": value for name, value in results_of(runs[0]).items()}
        gathered: dict[str, list[str]] = {}
        for run in runs:
            for name, value in results_of(run).items():
                gathered.setdefault(name, []).append(value if isinstance(value, str) else str(value))
        out: dict[str, Value] = {}
        for name, values in gathered.items():
            out[f"{prefix}.{name}"] = values
            out[f"tasks.{node.name}.matrix.{name}.length"] = str(len(values))
        out[f"tasks.{node.name}.matrix.length"] = str(len(runs))
        return out

    def _states(self) -> dict[str, Value]:
        words = {"succeeded": "Succeeded", "failed": "Failed", "cancelled": "Failed"}
        out: dict[str, Value] = {}
        for node in self.ordinary:
            standing = self.standing(node.name)
            out[f"tasks.{node.name}.status"] = words.get(standing, "None")
            runs = self.runs(node.name)
            telling = next((run for run in runs if conditions.state(run) != "True"), runs[0] if runs else {})
            out[f"tasks.{node.name}.reason"] = conditions.reason(telling)
        states = [self.standing(node.name) for node in self.ordinary]
        failed = any(state in ("failed", "cancelled") for state in states)
        skipped = any(self.skip(node.name) for node in self.ordinary)
        out["tasks.status"] = "Failed" if failed else "Completed" if skipped else "Succeeded"
        return out

    def check(self) -> None:
        """Raise WhenError where a `when` of a task that would start cannot be evaluated."""
        for node in self.nodes.values():
            try:
                self.skip(node.name)
            except WhenError as error:
                raise WhenError(f'task "{node.name}": {error}') from error


def results_of(run: Object) -> dict[str, Value]:
    """Return the results of a TaskRun or CustomRun by name."""
    status = status_of(run)
    found = objects(status, "results") or objects(status, "taskResults")
    return {str(r.get("name")): as_value(r.get("value")) for r in found}


def described(name: str, value: Any) -> Object:
    """Return a result as a run's status lists it."""
    return {"name": name, "type": type_of(value), "value": value}
