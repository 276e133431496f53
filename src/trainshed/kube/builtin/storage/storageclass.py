"""StorageClasses: who provisions volumes and how, which may not change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts import nodelabels
from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.meta import causes, names
from trainshed.kube.meta.causes import one_of
from trainshed.kube.meta.equality import repeated
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, objects, section
from trainshed.kube.meta.resources import STORAGECLASSES
from trainshed.kube.schema.metadata import key_causes

_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _defaults(obj: Object) -> None:
    setdefault(obj, "reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a StorageClass."""
    provisioner = obj.get("provisioner")
    if not provisioner:
        yield causes.required("provisioner")
    else:
        for why in names.qualified_name(provisioner.lower()):
            yield causes.invalid("provisioner", provisioner.lower(), why)
    for key in section(obj, "parameters"):
        if not key:
            yield causes.invalid("parameters", key, "field can not be empty.")
    yield from one_of(obj, "", "reclaimPolicy", ("Delete", "Retain"))
    if obj["volumeBindingMode"] not in _BINDING_MODES:
        yield causes.unsupported("volumeBindingMode", obj["volumeBindingMode"], _BINDING_MODES)
    yield from _topologies(obj.get("allowedTopologies") or [])
    if old is not None:
        for field in ("parameters", "provisioner", "reclaimPolicy"):
            if (obj.get(field) or None) != (old.get(field) or None):
                yield causes.forbidden(field, f"updates to {field} are forbidden.")
        if obj.get("volumeBindingMode") != old.get("volumeBindingMode"):
            yield causes.invalid("volumeBindingMode", obj.get("volumeBindingMode"), "field is immutable")


def _topologies(terms: list[Object]) -> Iterator[Cause]:
    seen: set[frozenset[tuple[str, frozenset[str]]]] = set()
    for index, term in enumerate(terms):
        at = f"allowedTopologies[{index}].matchLabelExpressions"
        expressions = term.get("matchLabelExpressions") or ()
        keys: dict[str, frozenset[str]] = {}
        for number, expression in enumerate(expressions):
            where = f"{at}[{number}]"
            key, values = expression.get("key") or "", expression.get("values") or []
            if not values:
                yield causes.required(f"{where}.values")
            for place in sorted(repeated(values)):
                yield causes.duplicate(f"{where}.values[{place}]", values[place])
            yield from key_causes(expression, where)
            if key in keys:
                yield causes.duplicate(f"{where}.key", key)
            keys[key] = frozenset(values)
        topology = frozenset(keys.items())
        if topology in seen or not keys:
            yield causes.duplicate(at, "")
        seen.add(topology)


def _row(obj: Object, now: float) -> list[Any]:
    annotations = section(obj, "metadata", "annotations")
    default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return [
        f"{name_of(obj)} (default)" if default else name_of(obj),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


def _warns(obj: Object, old: Object | None) -> Iterator[str]:
    for number, term in enumerate(objects(obj, "allowedTopologies")):
        for index, wanted in enumerate(objects(term, "matchLabelExpressions")):
            if text := nodelabels.deprecation(wanted.get("key") or ""):
                yield f"allowedTopologies[{number}].matchLabelExpressions[{index}].key: {text}"


KIND = Builtin(
    info=row(STORAGECLASSES, "sc"),
    does="`standard` provisions directories of this machine",
    lacks="no CSI: directories of this machine",
    defaults=_defaults,
    check=_check,
    warns=_warns,
    columns=Columns(
        define("Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age"), _row
    ),
    returns_deleted=True,
)
