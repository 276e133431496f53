"""What is wrong with a question about access, and what of it cannot be read.

Source of rules and texts: `pkg/apis/authorization/validation` and `pkg/registry/authorization/util` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainshed.kube.meta import causes, golang, names
from trainshed.kube.meta.errors import ApiError, Cause
from trainshed.kube.meta.fieldselectors import FieldSelector
from trainshed.kube.meta.objects import Object, metadata_of, spec_of
from trainshed.kube.meta.selectors import LabelSelector
from trainshed.kube.schema.metadata import key_causes, requirement_causes

_SELECTORS = ("fieldSelector", "labelSelector")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
"""Others may come with newer servers: they are not refused, and not looked at."""


def review_causes(review: Object, *, about: str, namespace: str | None) -> Iterator[Cause]:
    """Yield what is wrong with an access review.

    Args:
        about: whom it asks about: `self`, or somebody that it names.
        namespace: where it was sent, None for one that is in no namespace.
    """
    spec, path = spec_of(review), "spec.resourceAttributes"
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and other is not None:
        yield _disallowed(other, "cannot be specified in combination with resourceAttributes")
    if resource is None and other is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield causes.invalid(path, "null", text)
    if about != "self" and not spec.get("user") and not spec.get("groups"):
        yield causes.invalid("spec.user", "", "at least one of user or group must be specified")
    for name in _SELECTORS:
        if resource is not None and resource.get(name) is not None:
            yield from _selector_causes(resource[name], f"{path}.{name}", labels=name == "labelSelector")
    metadata = {key: value for key, value in metadata_of(review).items() if value and key != "managedFields"}
    if metadata.keys() - {"namespace"}:
        excepted = "" if namespace is None else " except for namespace"
        yield causes.invalid("metadata", metadata, f"must be empty{excepted}")
    if namespace is not None and resource is not None and (resource.get("namespace") or "") != namespace:
        yield causes.invalid(
            f"{path}.namespace", resource.get("namespace") or "", "must match metadata.namespace"
        )
    if namespace is not None and other is not None:
        yield _disallowed(other, "disallowed on this kind of request")


def evaluation_error(spec: Object) -> str:
    """Return what of a review's selectors is not looked at because it cannot be read; empty where all can be."""
    resource = spec.get("resourceAttributes") or {}
    told = []
    for name in _SELECTORS:
        selector = resource.get(name)
        if selector is None:
            continue
        read = list(_read(selector, labels=name == "labelSelector"))
        if not all(read):
            partly = "partially " if any(read) else ""
            told.append(f"spec.resourceAttributes.{name} {partly}ignored due to parse error")
    return "; ".join(told)


def _disallowed(path: Object, why: str) -> Cause:
    texts = ", ".join(f"{name}:{golang.text(path.get(name.lower()))}" for name in ("Path", "Verb"))
    return causes.invalid_shown(
        "spec.nonResourceAttributes", f"authorization.NonResourceAttributes{{{texts}}}", why
    )


def _selector_causes(selector: Object, path: str, *, labels: bool) -> Iterator[Cause]:
    raw, requirements = selector.get("rawSelector"), selector.get("requirements") or ()
    if raw and requirements:
        text = "may not specified at the same time as requirements"
        yield causes.invalid(f"{path}.rawSelector", raw, text)
    if not raw and not requirements:
        text = f"when {path} is specified, requirements or rawSelector is required"
        yield causes.required(f"{path}.requirements", text)
    for index, requirement in enumerate(requirements):
        at = f"{path}.requirements[{index}]"
        yield from (_of_labels if labels else _of_fields)(requirement, at)


def _of_labels(requirement: Mapping[str, Any], path: str) -> Iterator[Cause]:
    known = requirement.get("operator") in _OPERATORS
    yield from requirement_causes(requirement, path) if known else key_causes(requirement, path)
    for number, value in enumerate(requirement.get("values") or ()):
        for why in names.label_value(value):
            yield causes.invalid(f"{path}.values[{number}]", value, why)


def _of_fields(requirement: Mapping[str, Any], path: str) -> Iterator[Cause]:
    if not requirement.get("key"):
        yield causes.required(f"{path}.key", "must be specified")
    if requirement.get("operator") in _OPERATORS:
        yield from requirement_causes({**requirement, "key": "any"}, path)


def _read(selector: Object, *, labels: bool) -> Iterator[bool]:
    """Yield of each part of a selector whether it can be read."""
    if raw := selector.get("rawSelector"):
        try:
            (LabelSelector if labels else FieldSelector).parse(raw)
        except ApiError:
            yield False
        else:
            yield True
    for requirement in selector.get("requirements") or ():
        operator, values = requirement.get("operator"), requirement.get("values") or ()
        if labels:
            yield operator in _OPERATORS
        else:  # a field has one value, and is always there
            yield operator in ("In", "NotIn") and len(values) == 1
