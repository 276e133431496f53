"""Tekton's objects as v1 and as v1beta1: stored as the one, shown as either.

Source: Tekton's reference of both versions and the migration guide from v1beta1 to v1. A field that only one of them
has stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainshed.kube.meta.objects import Object, copy_tree, objects, section
from trainshed.tekton.resources import PIPELINERUNS, PIPELINES, TASKRUNS, TASKS, V1, V1BETA1

_RESOURCES = {"resources": "computeResources"}
_OVERRIDES = {"stepOverrides": "stepSpecs", "sidecarOverrides": "sidecarSpecs"}
_PER_TASK = {"taskServiceAccountName": "serviceAccountName", "taskPodTemplate": "podTemplate", **_OVERRIDES}
_OF_RUN = ("serviceAccountName", "podTemplate")
_RESULTS = {"PipelineRun": {"pipelineResults": "results"}, "TaskRun": {"taskResults": "results"}}


class AsV1Beta1:
    """How objects of v1beta1 translate into the stored form, v1, and back. Neither way changes its argument."""

    def to_storage(self, obj: Object) -> Object:
        """Return the object as v1."""
        made: Object = {**copy_tree(obj), "apiVersion": V1}
        _rename_all(made, up=True)
        spec = section(made, "spec")
        if made.get("kind") == "PipelineRun" and spec:
            template = section(spec, "taskRunTemplate")
            template |= {key: spec.pop(key) for key in _OF_RUN if key in spec}
            if template:
                spec["taskRunTemplate"] = template
            if "timeout" in spec:
                spec["timeouts"] = {"pipeline": spec.pop("timeout"), **section(spec, "timeouts")}
        for reference in _references(made):
            if "bundle" in reference:
                _resolve_bundle(reference)
        return made

    def from_storage(self, obj: Object) -> Object:
        """Return the object as v1beta1."""
        made: Object = {**copy_tree(obj), "apiVersion": V1BETA1}
        _rename_all(made, up=False)
        spec = section(made, "spec")
        if made.get("kind") == "PipelineRun" and isinstance(spec.get("taskRunTemplate"), dict):
            spec |= spec.pop("taskRunTemplate")
        return made


CONVERSIONS = {
    (resource.group, "v1beta1", resource.plural): AsV1Beta1()
    for resource in (PIPELINES, PIPELINERUNS, TASKS, TASKRUNS)
}
"""By group, version and plural: how the objects of a version other than the stored one translate."""


def _rename_all(obj: Object, *, up: bool) -> None:
    """Give every field that has another name in the other version that name, in place."""
    for part, names in _renamed(obj):
        for old, new in names.items():
            source, target = (old, new) if up else (new, old)
            if source in part:
                part.setdefault(target, part.pop(source))


def _renamed(obj: Object) -> Iterator[tuple[Object, Mapping[str, str]]]:
    kind, spec, status = str(obj.get("kind")), section(obj, "spec"), section(obj, "status")
    if kind == "Task":
        yield from _of_task(spec)
    elif kind == "Pipeline":
        yield from _of_pipeline(spec)
    elif kind == "TaskRun":
        yield spec, _OVERRIDES
        for one in (*_list(spec, _OVERRIDES, "stepOverrides"), *_list(spec, _OVERRIDES, "sidecarOverrides")):
            yield one, _RESOURCES
        yield from _of_task(section(spec, "taskSpec"))
        for attempt in (status, *objects(status, "retriesStatus")):
            yield attempt, _RESULTS[kind]
            yield from _of_task(section(attempt, "taskSpec"))
    elif kind == "PipelineRun":
        for one in objects(spec, "taskRunSpecs"):
            yield one, _PER_TASK
            for each in (*_list(one, _PER_TASK, "stepOverrides"), *_list(one, _PER_TASK, "sidecarOverrides")):
                yield each, _RESOURCES
        yield from _of_pipeline(section(spec, "pipelineSpec"))
        yield status, _RESULTS[kind]
        yield from _of_pipeline(section(status, "pipelineSpec"))


def _list(part: Object, names: Mapping[str, str], old: str) -> list[Object]:
    """Return a list by whichever of its two names it has now."""
    return objects(part, old) or objects(part, names[old])


def _of_task(spec: Object) -> Iterator[tuple[Object, Mapping[str, str]]]:
    for field in ("steps", "sidecars"):
        for container in objects(spec, field):
            yield container, _RESOURCES
    if section(spec, "stepTemplate"):
        yield section(spec, "stepTemplate"), _RESOURCES


def _of_pipeline(spec: Object) -> Iterator[tuple[Object, Mapping[str, str]]]:
    for field in ("tasks", "finally"):
        for task in objects(spec, field):
            inline = section(task, "taskSpec")
            if inline and not is_custom(inline):
                yield from _of_task(inline)


def _references(obj: Object) -> Iterator[Object]:
    spec = section(obj, "spec")
    for field in ("taskRef", "pipelineRef"):
        if section(spec, field):
            yield section(spec, field)
    for pipeline in (spec, section(spec, "pipelineSpec")):
        for field in ("tasks", "finally"):
            for task in objects(pipeline, field):
                if section(task, "taskRef"):
                    yield section(task, "taskRef")


def _resolve_bundle(reference: Object) -> None:
    """Write a bundle, which v1 has no field for, as what its resolver is given."""
    given: dict[str, Any] = {
        "bundle": reference.pop("bundle"),
        "name": reference.pop("name", ""),
        "kind": str(reference.pop("kind", "") or "Task"),
    }
    reference["resolver"] = "bundles"
    reference["params"] = [{"name": name, "value": value} for name, value in given.items()]


def is_custom(reference: Object) -> bool:
    """Return whether a taskRef or taskSpec is that of a custom task: of a group that is not Tekton's own."""
    api = str(reference.get("apiVersion") or "")
    return bool(api) and not api.startswith("tekton.dev/")
