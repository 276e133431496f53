"""The CustomResourceDefinition of a kind, generated from its declared types."""

from __future__ import annotations

import msgspec
from msgspec import inspect

from trainshed.api.fields import CORE_TYPE
from trainshed.api.kinds import GROUP, KINDS, VERSION, Kind
from trainshed.api.podschema import core_schema
from trainshed.api.v1.pytorch import PyTorchJob
from trainshed.kube.meta.objects import Object

ROOTS: dict[str, type[msgspec.Struct]] = {"PyTorchJob": PyTorchJob}
"""The declared type of each kind."""

PRINTER_COLUMNS = [
    {"name": "State", "type": "string", "jsonPath": ".status.conditions[-1:].type"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


def crd(kind: str) -> Object:
    """Return the CustomResourceDefinition of `kind`: deterministic, and a structural schema throughout.

    Raises KeyError for a kind that is not ours.
    """
    row = KINDS[kind]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": row.crd_name},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": row.name,
                "listKind": row.list_kind,
                "plural": row.plural,
                "singular": row.singular,
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [dict(column) for column in PRINTER_COLUMNS],
                    "schema": {"openAPIV3Schema": schema_of(ROOTS[kind])},
                    "subresources": _subresources(row),
                }
            ],
        },
    }


def schema_of(root: type[msgspec.Struct]) -> Object:
    """Return the structural schema of a declared type."""
    out = _schema(inspect.type_info(root))
    if "metadata" in out["properties"]:
        out["properties"]["metadata"] = {
            "type": "object"
        }  # implied: API servers refuse a schema that says more
    return out


def _subresources(row: Kind) -> Object:
    out: Object = {"status": {}}
    if row.scalable:
        out["scale"] = {
            "specReplicasPath": f".spec.{row.replica_specs_field}.Worker.replicas",
            "statusReplicasPath": ".status.replicaStatuses.Worker.active",
            "labelSelectorPath": ".status.replicaStatuses.Worker.selector",
        }
    return out


def _schema(type_: inspect.Type) -> Object:
    extra: Object = {}
    while isinstance(type_, inspect.Metadata):
        extra = {**(type_.extra_json_schema or {}), **extra}
        type_ = type_.type
    if isinstance(type_, inspect.UnionType):  # an optional field: absent, never null
        (inner,) = (t for t in type_.types if not isinstance(t, inspect.NoneType))
        return _merge(_schema(inner), extra)
    return _merge(_plain(type_), extra)


def _merge(schema: Object, extra: Object) -> Object:
    """Return `schema` with the keywords of a field's annotation; core types are written out."""
    definition = extra.get(CORE_TYPE)
    if definition:
        schema = core_schema(definition)
    out = {**schema, **{k: v for k, v in extra.items() if k != CORE_TYPE}}
    if CORE_TYPE in out.get("items", {}):
        out["items"] = core_schema(out["items"][CORE_TYPE])
    return out


def _plain(type_: inspect.Type) -> Object:
    if isinstance(type_, inspect.StructType):
        return _struct(type_)
    if isinstance(type_, inspect.IntType):
        return {"type": "integer"}
    if isinstance(type_, inspect.StrType):
        return {"type": "string"}
    if isinstance(type_, inspect.BoolType):
        return {"type": "boolean"}
    if isinstance(type_, inspect.ListType):
        return {"type": "array", "items": _schema(type_.item_type)}
    if isinstance(type_, inspect.DictType):
        values = _schema(type_.value_type)
        return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
    if isinstance(type_, inspect.AnyType):
        return {}  # its annotation says all, e.g. a quantity
    raise TypeError(f"no CRD schema for {type_}")


def _struct(type_: inspect.StructType) -> Object:
    out: Object = {"type": "object"}
    if type_.cls.__doc__:
        out["description"] = type_.cls.__doc__
    required = sorted(field.encode_name for field in type_.fields if field.required)
    if required:
        out["required"] = required
    out["properties"] = {field.encode_name: _schema(field.type) for field in type_.fields}
    return out
