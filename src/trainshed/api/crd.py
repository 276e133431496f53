"""The CustomResourceDefinition of a kind, generated from its declared types."""

from __future__ import annotations

import msgspec
from msgspec import inspect

from trainshed.api.fields import CORE_TYPE
from trainshed.api.kind import Kind
from trainshed.api.podschema import core_schema
from trainshed.kube.meta.objects import Object


def crd(kind: Kind) -> Object:
    """Return the CustomResourceDefinition of a kind: deterministic, and a structural schema throughout."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name},
        "spec": {
            "group": kind.group,
            "names": {
                "kind": kind.name,
                "listKind": kind.list_kind,
                "plural": kind.plural,
                "singular": kind.singular,
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": kind.version,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [
                        {"name": column.name, "type": column.type, "jsonPath": column.path}
                        for column in kind.printer_columns
                    ],
                    "schema": {"openAPIV3Schema": schema_of(kind.root)},
                    "subresources": _subresources(kind),
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


def _subresources(kind: Kind) -> Object:
    out: Object = {"status": {}}
    if kind.scale is not None:
        out["scale"] = {
            "specReplicasPath": kind.scale.spec_replicas,
            "statusReplicasPath": kind.scale.status_replicas,
            "labelSelectorPath": kind.scale.selector,
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
