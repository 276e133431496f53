"""The `scale` subresource: an autoscaling/v1 Scale read from, and written to, the object it scales."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.meta import causes, golang, jsonpath
from trainshed.kube.meta.errors import Cause, bad_request, internal, invalid
from trainshed.kube.meta.objects import Object, metadata_of, spec_of
from trainshed.kube.meta.resourceinfo import ScalePaths
from trainshed.kube.meta.selectors import LabelSelector

KIND = ("autoscaling", "v1", "Scale")
"""Group, version and kind."""
_MOST_REPLICAS = 2**31 - 1


def to_scale(obj: Object, paths: ScalePaths) -> Object:
    """Return the Scale of `obj`.

    Raises:
        ApiError: 500 when the object has no replicas field, as upstream answers.
    """
    metadata = metadata_of(obj)
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas = jsonpath.first(obj, paths.spec_replicas)
    if replicas is None:
        raise internal(f'the spec replicas field "{paths.spec_replicas}" does not exist')
    status: Object = {"replicas": _whole(jsonpath.first(obj, paths.status_replicas) or 0)}
    selector = _selector(jsonpath.first(obj, paths.selector)) if paths.selector else ""
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in kept if metadata.get(key)},
        "spec": {"replicas": _whole(replicas)} if replicas else {},
        "status": status,
    }


def from_scale(obj: Object, scale: Object, paths: ScalePaths) -> Object:
    """Return `obj` with the replicas that `scale` asks for; a Scale without them asks for 0, as in Go.

    Checking `scale.metadata.resourceVersion` against the object is the caller's part.

    Raises:
        ApiError: 422 when replicas is negative, 400 when it is no integer.
    """
    spec = spec_of(scale)
    replicas = spec.get("replicas") if isinstance(spec, dict) else None
    replicas = 0 if replicas is None else replicas
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        raise bad_request(
            'Scale in version "v1" cannot be handled as a Scale: spec.replicas must be an integer'
        )
    if replicas < 0:
        name = metadata_of(obj).get("name", "")
        cause = Cause(
            "FieldValueInvalid",
            f"Invalid value: {replicas}: must be greater than or equal to 0",
            "spec.replicas",
        )
        raise invalid("Scale", "autoscaling", name, [cause])
    return _with(obj, jsonpath.field_names(paths.spec_replicas), replicas)


def value_causes(obj: Object, paths: ScalePaths) -> Iterator[Cause]:
    """Yield what is wrong with the values that a custom resource holds for its Scale."""
    for path in (paths.spec_replicas, paths.status_replicas):
        found = jsonpath.first(obj, path)
        if found is None:
            continue
        if isinstance(found, bool) or not isinstance(found, int):
            yield _unreadable(path, 0, found, "int64")
        elif found < 0:
            yield causes.invalid(path, found, "should be a non-negative integer")
        elif found > _MOST_REPLICAS:
            yield causes.invalid(path, found, f"should be less than or equal to {_MOST_REPLICAS}")
    selector = jsonpath.first(obj, paths.selector) if paths.selector else None
    if selector is not None and not isinstance(selector, str):
        yield _unreadable(paths.selector, "", selector, "string")


def _unreadable(path: str, zero: Any, found: Any, wanted: str) -> Cause:
    text = f"{path} accessor error: {golang.printed(found)} is of the type {golang.type_name(found)}, expected {wanted}"
    return causes.invalid(path, zero, text)


def _selector(found: Any) -> str:
    if isinstance(found, str):
        return found
    if not isinstance(found, dict) or not found:
        return ""
    if found.keys() & {"matchLabels", "matchExpressions"}:
        return str(LabelSelector.from_object(found))
    return str(LabelSelector.from_labels(found))


def _whole(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _with(obj: Object, names: tuple[str, ...], value: Any) -> Object:
    head, *rest = names
    if not rest:
        return {**obj, head: value}
    below = obj.get(head)
    return {**obj, head: _with(below if isinstance(below, dict) else {}, tuple(rest), value)}
