"""Structural schemas of core Kubernetes types, as a CustomResourceDefinition embeds them.

A CRD cannot refer to another schema, so a pod template is written out in full. Its source is the OpenAPI
document of Kubernetes 1.33 as shipped by the `kubernetes-validate` package; only its data is read.

What differs from the source, and why
    descriptions are left out (they are two thirds of the text, and `kubectl explain pod` has them);
    `null` is no type in a structural schema: an optional field is absent instead;
    quantities and int-or-strings get the keywords that an API server knows them by;
    embedded metadata keeps only what a template may carry: an API server prunes the rest;
    keys of list-maps have a default where they are optional, since every key must have a value.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from trainshed.api.fields import QUANTITY
from trainshed.kube.schema.definitions import builtin_definition

_SHORT_GROUPS = {
    "core.": "io.k8s.api.core.",
    "autoscaling.": "io.k8s.api.autoscaling.",
    "meta.": "io.k8s.apimachinery.pkg.apis.meta.",
}
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_KEPT = (
    "format",
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)
_STRING_MAP = {"type": "object", "additionalProperties": {"type": "string"}}

_WRITTEN_BY_HAND: dict[str, dict[str, Any]] = {
    _OBJECT_META: {
        "type": "object",
        "properties": {
            "annotations": _STRING_MAP,
            "finalizers": {"type": "array", "items": {"type": "string"}},
            "labels": _STRING_MAP,
            "name": {"type": "string"},
            "namespace": {"type": "string"},
        },
    },
    "io.k8s.apimachinery.pkg.api.resource.Quantity": QUANTITY,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
    },
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": {"type": "string", "format": "date-time"},
}

_ATOMIC = frozenset(
    f"io.k8s.api.core.v1.{name}"
    for name in (
        "ConfigMapEnvSource",
        "ConfigMapProjection",
        "ConfigMapVolumeSource",
        "SecretEnvSource",
        "SecretProjection",
    )
)
"""Types that embed LocalObjectReference: a CRD generated from the Go types inherits its map type, theirs does not."""

_DEFAULTS: dict[str, dict[str, Any]] = {
    **{
        name: {"name": ""}
        for name in (
            "ConfigMapEnvSource",
            "ConfigMapKeySelector",
            "ConfigMapProjection",
            "ConfigMapVolumeSource",
            "LocalObjectReference",
            "SecretEnvSource",
            "SecretKeySelector",
            "SecretProjection",
        )
    },
    "AzureDiskVolumeSource": {"fsType": "ext4", "readOnly": False},
    "GRPCAction": {"service": ""},
    "ISCSIVolumeSource": {"iscsiInterface": "default"},
    "RBDVolumeSource": {"keyring": "/etc/ceph/keyring", "pool": "rbd", "user": "admin"},
    "ScaleIOVolumeSource": {"fsType": "xfs", "storageMode": "ThinProvisioned"},
}
"""Defaults by type of `core.v1` and field, which CRDs generated from the Go types have and definitions leave out."""

_KEY_DEFAULTS = {"protocol": "TCP"}
"""Default of a list-map key that its type leaves optional; any other key is an empty string."""


def core_schema(definition: str) -> dict[str, Any]:
    """Return a fresh structural schema of a core type such as `core.v1.PodTemplateSpec`.

    Raises KeyError for a type that Kubernetes 1.33 does not have.
    """
    for short, full in _SHORT_GROUPS.items():
        if definition.startswith(short):
            schema: dict[str, Any] = msgspec.json.decode(_written_out(full + definition.removeprefix(short)))
            return schema
    raise KeyError(definition)


@cache
def _written_out(name: str) -> bytes:
    return msgspec.json.encode(_expand(name))


def _expand(name: str) -> dict[str, Any]:
    # The types that templates are made of do not contain themselves, so this ends.
    written = _WRITTEN_BY_HAND.get(name)
    if written is not None:
        return written
    out = _structural(builtin_definition(name))
    for field, default in _DEFAULTS.get(name.removeprefix(_SHORT_GROUPS["core."] + "v1."), {}).items():
        out["properties"][field] = {**out["properties"][field], "default": default}
    return {**out, "x-kubernetes-map-type": "atomic"} if name in _ATOMIC else out


def _structural(source: dict[str, Any]) -> dict[str, Any]:
    """Return `source` with references written out and only the keywords of a structural schema."""
    if "$ref" in source:
        return _expand(source["$ref"].removeprefix("#/$defs/"))
    kind = source["type"]
    out: dict[str, Any] = {"type": kind if isinstance(kind, str) else next(t for t in kind if t != "null")}
    out |= {keyword: source[keyword] for keyword in _KEPT if keyword in source}
    if "properties" in source:
        out["properties"] = {name: _structural(part) for name, part in sorted(source["properties"].items())}
    if "additionalProperties" in source:
        out["additionalProperties"] = _structural(source["additionalProperties"])
    if "items" in source:
        out["items"] = _with_key_defaults(
            _structural(source["items"]), out.get("x-kubernetes-list-map-keys", [])
        )
    return out


def _with_key_defaults(item: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    """Return the schema of a list-map's item in which every key is required or has a default."""
    optional = [key for key in keys if key not in item.get("required", ())]
    if not optional:
        return item
    properties = dict(item["properties"])
    for key in optional:
        properties[key] = {**properties[key], "default": _KEY_DEFAULTS.get(key, "")}
    return {**item, "properties": properties}
