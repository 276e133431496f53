"""Whose the replicas are: managedFields as `/scale` shows them, and as a write through it leaves them.

An entry that owns the replicas of the object owns `spec.replicas` of its Scale. Upstream keeps no times for what is
written through a Scale, and tells updates of the object and of the Scale apart by their API version.

Source: KEP-555, "Scale subresource".
"""

from __future__ import annotations

from collections.abc import Sequence

from trainshed.kube.meta.objects import Object
from trainshed.kube.patch import fieldset
from trainshed.kube.patch.fieldset import FieldSet
from trainshed.kube.patch.managedfields import in_order

_SCALE = "autoscaling/v1"
_REPLICAS: FieldSet = {"f:spec": {"f:replicas": {}}}
Identity = tuple[str, str, str, str]


def seen_by_scale(entries: Sequence[Object], path: Sequence[str]) -> list[Object]:
    """Return the entries of an object's Scale. `path` leads to the object's replicas, as names of fields."""
    return [{**e, "apiVersion": _SCALE, "fieldsV1": _REPLICAS} for e in entries if _owns(e, path)]


def written_by_scale(
    before: Sequence[Object], of_scale: Sequence[Object], path: Sequence[str], api_version: str
) -> list[Object]:
    """Return the object's entries after a write that left its Scale with `of_scale`."""
    scaled = {_identity(e): e for e in of_scale if _owns(e, ("spec", "replicas"))}
    replicas = _tree(path)
    out: list[Object] = []
    for entry in before:
        if not _owns(entry, path) or scaled.pop(_identity(entry), None) is not None:
            out.append(entry)
            continue
        left = fieldset.subtract(entry["fieldsV1"], replicas)
        if left:
            out.append({**entry, "fieldsV1": left})
    for entry in scaled.values():
        timeless = {key: value for key, value in entry.items() if key != "time"}
        out.append({**timeless, "apiVersion": api_version, "fieldsV1": replicas})
    return in_order(out)


def _owns(entry: Object, path: Sequence[str]) -> bool:
    fields = entry["fieldsV1"]
    for name in path:
        if "f:" + name not in fields:
            return False
        fields = fields["f:" + name]
    return not fields


def _tree(path: Sequence[str]) -> FieldSet:
    fields: FieldSet = {}
    for name in reversed(path):
        fields = {"f:" + name: fields}
    return fields


def _identity(entry: Object) -> Identity:
    operation = entry["operation"]
    version = entry.get("apiVersion", "") if operation == "Update" else ""
    return entry.get("manager", ""), operation, version, entry.get("subresource") or ""
