"""The tasks of a pipeline as a graph: what each waits for, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

import msgspec

from trainshed.kube.meta.objects import Object, objects, section, texts
from trainshed.tekton.variables import references
from trainshed.tekton.versions import is_custom

_KINDS = ("taskRef", "taskSpec", "pipelineRef", "pipelineSpec")
"""What a task of a pipeline may be: one of these."""


class GraphError(Exception):
    """The tasks form no pipeline. `reason` is Tekton's word for it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Node(msgspec.Struct, frozen=True):
    """A task of a pipeline. `after` are tasks that it waits for, `uses` those whose results it reads."""

    task: Object
    name: str
    final: bool = False
    after: frozenset[str] = frozenset()
    uses: frozenset[tuple[str, str]] = frozenset()
    """(task, result)."""

    @property
    def is_pipeline(self) -> bool:
        """Whether a PipelineRun does it."""
        return bool(self.task.get("pipelineSpec") or self.task.get("pipelineRef"))

    @property
    def is_custom(self) -> bool:
        """Whether a CustomRun does it."""
        return is_custom(section(self.task, "taskRef")) or is_custom(section(self.task, "taskSpec"))

    @property
    def goes_on(self) -> bool:
        """Whether a failure of it is no failure of the pipeline."""
        return self.task.get("onError") == "continue"


def result_references(value: Any) -> Iterable[tuple[str, str]]:
    """Yield (task, result) for each `$(tasks.TASK.results.RESULT)` in a value."""
    for name in references(value):
        parts = name.split(".")
        if len(parts) >= 4 and parts[0] in ("tasks", "finally") and parts[2] == "results":
            yield parts[1], parts[3].partition("[")[0]


def graph(spec: Object) -> dict[str, Node]:
    """Return the tasks of a pipeline by name, in its order, `finally` last.

    Raises:
        GraphError: names twice, unknown tasks, a cycle, or a task of neither taskRef nor taskSpec.
    """
    lists = [(task, False) for task in objects(spec, "tasks")]
    lists += [(task, True) for task in objects(spec, "finally")]
    names = [str(task.get("name")) for task, _ in lists]
    for name in names:
        if names.count(name) > 1:
            raise GraphError("PipelineInvalidGraph", f'task "{name}" is there more than once')
    if not objects(spec, "tasks"):
        raise GraphError("PipelineValidationFailed", "the pipeline has no tasks")
    ordinary = {str(task.get("name")) for task, final in lists if not final}
    nodes = {}
    for task, final in lists:
        nodes[str(task.get("name"))] = _node(task, final, ordinary)
    try:
        TopologicalSorter({n.name: n.after for n in nodes.values()}).prepare()
    except CycleError as error:
        path = " -> ".join(error.args[1])
        raise GraphError(
            "PipelineInvalidGraph", f"cycle detected; the tasks wait for one another: {path}"
        ) from error
    return nodes


def _node(task: Object, final: bool, ordinary: set[str]) -> Node:
    name = str(task.get("name"))
    told = [field for field in _KINDS if task.get(field)]
    if not told:
        raise GraphError("PipelineValidationFailed", f'task "{name}" has neither taskRef nor taskSpec')
    if len(told) > 1:
        text = f'task "{name}": expected exactly one of {", ".join(_KINDS)}, got {" and ".join(told)}'
        raise GraphError("PipelineValidationFailed", text)
    # What a pipeline within this one refers to are its own tasks.
    own = {key: value for key, value in task.items() if key not in ("taskSpec", "pipelineSpec")}
    uses = set(result_references(own))
    spec = section(task, "taskSpec")
    # What a spec in the pipeline refers to is filled in when it starts; its own words for other things stay.
    uses |= {
        use
        for use in result_references({k: v for k, v in spec.items() if k != "metadata"})
        if use[0] in ordinary
    }
    after = {str(one) for one in task.get("runAfter") or ()}
    for other in sorted(after | {used for used, _ in uses}):
        if other not in ordinary:
            raise GraphError(
                "PipelineInvalidGraph", f'task "{name}" depends on "{other}", which is not among the tasks'
            )
    if final:
        if after:
            raise GraphError(
                "PipelineValidationFailed", f'task "{name}": no runAfter allowed under spec.finally'
            )
        return Node(task, name, True, frozenset(), frozenset(uses))
    return Node(task, name, False, frozenset(after | {used for used, _ in uses}), frozenset(uses))


def reference_of(task: Object) -> str:
    """Return the name of the Task that a task of a pipeline refers to; empty where it has its own spec."""
    return texts(task, "taskRef").get("name", "")


def uses_resolver(task: Object, field: str = "taskRef") -> str:
    """Return the resolver that a reference needs, empty when none."""
    found: Mapping[str, Any] = section(task, field)
    return str(found.get("resolver") or ("bundles" if found.get("bundle") else ""))
