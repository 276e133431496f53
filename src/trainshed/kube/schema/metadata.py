"""Rules of `metadata`, the same for every kind but for what its name may be.

Source of rules and texts: apimachinery `api/validation/objectmeta.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trainshed.kube.meta import causes, golang, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, metadata_of, section
from trainshed.kube.meta.resources import Resource
from trainshed.kube.schema.definitions import definition_name

NameCheck = Callable[[str], list[str]]

ANNOTATIONS_MAX = 262144
"""Bytes of all annotation keys and values of an object."""

_KNOWN_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_ANY_FINALIZER = frozenset(
    {
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "coordination.k8s.io",
        "node.k8s.io",
        "policy",
    }
)
"""Groups whose kinds take finalizers of one word, as custom resources do: upstream only warns there."""
_IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def validate_metadata(
    resource: Resource, obj: Object, old: Object | None, name_rule: NameCheck = names.dns_subdomain
) -> list[Cause]:
    """Return what is wrong with the metadata of an object, built in or custom.

    On create the caller has filled in a generated name; `generateName` alone passes too, so a dry look at a
    manifest works. On update the caller has carried over what the server owns (uid, creationTimestamp, ...).
    """
    meta = metadata_of(obj)
    builtin = definition_name((resource.group, resource.version, resource.kind)) is not None
    strict = builtin and resource.group not in _ANY_FINALIZER
    out = list(_names(meta, name_rule, resource.namespaced))
    out += labels_causes(meta.get("labels"), "metadata.labels")
    out += annotations_causes(meta.get("annotations"), "metadata.annotations")
    out += _owners(meta.get("ownerReferences") or ())
    out += _finalizers(meta.get("finalizers") or (), strict)
    if old is not None:
        out += _changes(meta, metadata_of(old))
    return out


def _names(meta: Mapping[str, Any], check: NameCheck, namespaced: bool) -> Iterator[Cause]:
    name, prefix, namespace = meta.get("name"), meta.get("generateName"), meta.get("namespace")
    if prefix:
        for why in check(names.as_prefix(prefix)):
            yield causes.invalid("metadata.generateName", prefix, why)
    if name:
        for why in check(name):
            yield causes.invalid("metadata.name", name, why)
    elif not prefix:
        yield causes.required("metadata.name", "name or generateName is required")
    if namespaced:
        if not namespace:
            yield causes.required("metadata.namespace")
        else:
            for why in names.dns_label(namespace):
                yield causes.invalid("metadata.namespace", namespace, why)
    elif namespace:
        yield causes.forbidden("metadata.namespace", "not allowed on this type")
    if meta.get("generation", 0) < 0:
        text = "must be greater than or equal to 0"
        yield causes.invalid("metadata.generation", meta["generation"], text)


def labels_causes(labels: Mapping[str, str] | None, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a map of labels; keys are part of the text, not of the path, as upstream."""
    for key, value in (labels or {}).items():
        for why in names.qualified_name(key):
            yield causes.invalid(path, key, why)
        for why in names.label_value(value):
            yield causes.invalid(path, value, why)


def annotations_causes(annotations: Mapping[str, str] | None, path: str) -> Iterator[Cause]:
    """Yield what is wrong with annotations: keys as for labels but in any case, a limit on the total size."""
    size = 0
    for key, value in (annotations or {}).items():
        for why in names.qualified_name(key.lower()):
            yield causes.invalid(path, key, why)
        # Counting characters is enough to clear small values; only near the limit do bytes matter.
        size += len(key) + (len(value) if len(value) < 1024 else len(value.encode()))
    if size > ANNOTATIONS_MAX:
        yield causes.too_long(path, ANNOTATIONS_MAX)


def _owners(owners: Any) -> Iterator[Cause]:
    path = "metadata.ownerReferences"
    controllers = [owner.get("name") for owner in owners if owner.get("controller")]
    for owner in owners:  # none is named by its index
        if not owner.get("apiVersion"):
            yield causes.invalid(f"{path}.apiVersion", "", "version must not be empty")
        for key in ("kind", "name", "uid"):
            if not owner.get(key):
                yield causes.invalid(f"{path}.{key}", "", f"{key} must not be empty")
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            fields = {"APIVersion": "apiVersion", "Kind": "kind", "Name": "name", "UID": "uid"}
            shown = ", ".join(f"{name}:{golang.text(owner.get(field))}" for name, field in fields.items())
            shown += ", Controller:(*bool)(nil), BlockOwnerDeletion:(*bool)(nil)"
            text = "/v1, Kind=Event is disallowed from being an owner"
            yield causes.invalid_shown(path, f"v1.OwnerReference{{{shown}}}", text)
    if len(controllers) > 1:
        yield causes.invalid(
            path,
            list(owners),
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {controllers[0]} and {controllers[1]}',
        )


def _finalizers(finalizers: Any, strict: bool) -> Iterator[Cause]:
    path = "metadata.finalizers"
    for finalizer in finalizers:
        for why in names.qualified_name(finalizer):
            yield causes.invalid(path, finalizer, why)
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        yield causes.invalid_shown(path, golang.text_list(finalizers), text)
    for index, finalizer in enumerate(finalizers):
        if strict and "/" not in finalizer and finalizer not in _KNOWN_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            yield causes.invalid(f"{path}[{index}]", finalizer, text)


def _changes(meta: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[Cause]:
    for key in _IMMUTABLE:
        if meta.get(key) != old.get(key):
            shown = meta.get(key, "" if isinstance(old.get(key), str) else None)
            if key == "deletionTimestamp":
                yield causes.invalid_shown(f"metadata.{key}", golang.time(shown), "field is immutable")
            else:
                yield causes.invalid(f"metadata.{key}", shown, "field is immutable")
    if meta.get("generation", 0) < old.get("generation", 0):
        yield causes.invalid("metadata.generation", meta.get("generation", 0), "must not be decremented")
    if old.get("deletionTimestamp"):
        before = set(old.get("finalizers") or ())
        added = sorted(set(meta.get("finalizers") or ()) - before)
        if added:
            listed = ", ".join(f'"{finalizer}"' for finalizer in added)
            yield causes.forbidden(
                "metadata.finalizers",
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}",
            )


def requirement_causes(requirement: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Yield what is wrong with one of the `matchExpressions` of a selector."""
    operator, values = requirement.get("operator"), requirement.get("values")
    if operator in ("In", "NotIn"):
        if not values:
            yield causes.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield causes.forbidden(f"{path}.values", text)
    else:
        yield causes.invalid(f"{path}.operator", operator or "", "not a valid selector operator")
    yield from key_causes(requirement, path)


def key_causes(requirement: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Yield what is wrong with the key of one of the `matchExpressions` of a selector."""
    key = requirement.get("key") or ""
    for why in names.qualified_name(key):
        yield causes.invalid(f"{path}.key", key, why)


def selector_causes(selector: Mapping[str, Any] | None, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a LabelSelector object."""
    for key, value in section(selector or {}, "matchLabels").items():
        for why in names.qualified_name(key):
            yield causes.invalid(f"{path}.matchLabels", key, why)
        for why in names.label_value(value):
            yield causes.invalid(f"{path}.matchLabels", value, why)
    for index, term in enumerate((selector or {}).get("matchExpressions") or ()):
        at = f"{path}.matchExpressions[{index}]"
        yield from requirement_causes(term, at)
        for number, value in enumerate(term.get("values") or ()):
            for why in names.label_value(value):
                yield causes.invalid(f"{at}.values[{number}]", value, why)
