"""Custom resources against the structural schema of their CRD: values, defaults, list-map keys.

Texts are those of kube-apiserver (apiextensions `validation.go` over kube-openapi's `validate`), because
users search for them. CEL rules are in `kube.schema.cel`.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
from msgspec import UNSET

from trainshed.kube.cel.re2 import compile_re2
from trainshed.kube.meta import golang
from trainshed.kube.meta.causes import invalid, required, shown, too_long, too_many, unsupported
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, copy_tree
from trainshed.kube.schema.nodes import SchemaNode
from trainshed.kube.wire.body import field_path, json_kind

MAX_CAUSES = 100
"""Collecting stops here: a list of ten thousand wrong items needs no ten thousand messages."""


# ---------------------------------------------------------------------------------------------- defaults


def apply_defaults(obj: Object, schema: SchemaNode) -> Object:
    """Return `obj` with the declared defaults of absent fields, of null ones where null is not allowed.

    Parts without defaults are shared with the input, which is not changed. A default inside an absent object
    does not create that object, as upstream.
    """
    out: Object = _defaulted(obj, schema)
    return out


def _defaulted(value: Any, node: SchemaNode) -> Any:
    if not node.with_defaults:
        return value
    if isinstance(value, dict):
        out = dict(value)
        for key, child in node.properties.items():
            if child.default is UNSET:
                continue
            if key not in out or (out[key] is None and not child.nullable):
                out[key] = copy_tree(child.default)
        for key, item in out.items():
            below = node.properties.get(key) or node.additional
            if below is not None and below.with_defaults:
                out[key] = _defaulted(item, below)
        return out
    if isinstance(value, list) and node.items is not None:
        items = node.items
        filled = copy_tree(items.default) if items.default is not UNSET and not items.nullable else None
        return [_defaulted(filled if item is None else item, items) for item in value]
    return value


# -------------------------------------------------------------------------------------------- validation


def validate(obj: Object, schema: SchemaNode, path: str = "", old: Any = UNSET) -> list[Cause]:
    """Return what is wrong with the values of a custom resource, in document order; empty when valid.

    What was in the same place of `old`, the object before an update, may stay as it is: ratcheting (KEP-4008).
    """
    causes: list[Cause] = []
    _check(obj, schema, path, causes, old)
    return causes[:MAX_CAUSES]


def _check(value: Any, node: SchemaNode, path: str, causes: list[Cause], old: Any = UNSET) -> None:
    before = len(causes)
    _check_value(value, node, path, causes, old)
    if len(causes) > before and old is not UNSET and _encoded(value) == _encoded(old):
        del causes[before:]


_encoded = msgspec.json.Encoder(order="deterministic").encode


def _check_value(value: Any, node: SchemaNode, path: str, causes: list[Cause], old: Any) -> None:
    if node.builtin or len(causes) >= MAX_CAUSES:
        return  # metadata has rules of its own
    if value is None and node.nullable:
        return
    if not _type_fits(value, node):
        wanted = "integer,string" if node.int_or_string else node.type
        whole = _SCHEMA_TYPES.get(type(value)) if not isinstance(value, int) or _is_int64(value) else ""
        kind = f'"{whole or json_kind(value)}"'
        causes.append(
            Cause(
                "FieldValueTypeInvalid",
                f"Invalid value: {kind}: {path} in body must be of type {wanted}: {kind}",
                path,
            )
        )
        return
    if node.enum is not None and value not in node.enum:
        causes.append(unsupported(path, value, node.enum))
    if isinstance(value, str):
        _check_string(value, node, path, causes)
    elif isinstance(value, dict):
        _check_object(value, node, path, causes, old if isinstance(old, dict) else {})
    elif isinstance(value, list):
        _check_list(value, node, path, causes, old if isinstance(old, list) else [])
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _check_number(value, node, path, causes)
    if node.any_of or node.all_of or node.one_of or node.negated is not None:
        _check_combinations(value, node, path, causes)


_SCHEMA_TYPES = {bool: "boolean", int: "integer"}
"""What a schema calls types that Go's JSON decoder has other names for."""


def _type_fits(value: Any, node: SchemaNode) -> bool:
    if node.int_or_string:
        return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
    kind = node.type
    if not kind:
        return True
    if kind == "string":
        return isinstance(value, str)
    if kind == "object":
        return isinstance(value, dict)
    if kind == "array":
        return isinstance(value, list)
    if kind == "boolean":
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return kind == "number" or ((isinstance(value, int) or value.is_integer()) and _is_int64(int(value)))


def _is_int64(value: int) -> bool:
    """Return whether Go reads a number as an integer, not as a floating-point one."""
    return -(1 << 63) <= value < 1 << 63


def _check_string(value: str, node: SchemaNode, path: str, causes: list[Cause]) -> None:
    size = len(value)
    if node.max_length is not None and size > node.max_length:
        causes.append(too_long(path, node.max_length))
    if node.min_length is not None and size < node.min_length:
        detail = f"{path} in body should be at least {node.min_length} chars long"
        causes.append(invalid(path, value, detail))
    if node.pattern and not _matches(node.pattern, value):
        causes.append(invalid(path, value, f"{path} in body should match '{node.pattern}'"))
    if node.format and not _format_fits(node.format, value):
        detail = (
            f"Invalid value: {shown(value)}: {path} in body must be of type {node.format}: {shown(value)}"
        )
        causes.append(Cause("FieldValueTypeInvalid", detail, path))


def _matches(pattern: str, value: str) -> bool:
    try:
        return compile_re2(pattern).matches(value)
    except ValueError:
        return False  # validate_crd refuses such patterns; a CRD stored before that must not crash us


def _format_fits(name: str, value: str) -> bool:
    from trainshed.kube.schema.formats import fits  # which few schemas name

    return fits(name, value)


def _check_number(value: float, node: SchemaNode, path: str, causes: list[Cause]) -> None:
    where = f"{path} in body should be"
    low, high = node.minimum, node.maximum
    if low is not None and (value < low or (node.exclusive_minimum and value == low)):
        causes.append(invalid(path, value, f"{where} greater than{_or_equal(node.exclusive_minimum)} {low}"))
    if high is not None and (value > high or (node.exclusive_maximum and value == high)):
        causes.append(invalid(path, value, f"{where} less than{_or_equal(node.exclusive_maximum)} {high}"))
    if node.multiple_of:
        quotient = value / node.multiple_of
        if not math.isclose(quotient, round(quotient), rel_tol=1e-12, abs_tol=1e-9):
            causes.append(invalid(path, value, f"{where} a multiple of {node.multiple_of}"))
    bits = {"int32": 31, "int64": 63}.get(node.format)
    if bits and not -(1 << bits) <= value < (1 << bits):
        causes.append(invalid(path, value, f"{where} of type integer with format {node.format}"))


def _or_equal(exclusive: bool) -> str:
    return "" if exclusive else " or equal to"


def _check_object(
    value: dict[str, Any], node: SchemaNode, path: str, causes: list[Cause], old: dict[str, Any]
) -> None:
    for key in node.required:
        if key not in value:
            causes.append(required(field_path(path, key)))
    if node.min_properties is not None and len(value) < node.min_properties:
        detail = f"{path} in body should have at least {node.min_properties} properties"
        causes.append(invalid(path, value, detail))
    if node.max_properties is not None and len(value) > node.max_properties:
        causes.append(too_many(path, len(value), node.max_properties))
    if node.embedded_resource and path:
        causes += [required(field_path(path, key)) for key in ("apiVersion", "kind") if not value.get(key)]
    for key, item in value.items():
        child = node.properties.get(key) or node.additional
        if child is not None:
            _check(item, child, field_path(path, key), causes, old.get(key, UNSET))


def _check_list(value: list[Any], node: SchemaNode, path: str, causes: list[Cause], old: list[Any]) -> None:
    if node.min_items is not None and len(value) < node.min_items:
        detail = f"{path} in body should have at least {node.min_items} items"
        causes.append(invalid(path, len(value), detail))
    if node.max_items is not None and len(value) > node.max_items:
        causes.append(too_many(path, len(value), node.max_items))
    if node.items is not None:
        before = _by_key(old, node)
        for index, item in enumerate(value):
            held = before.get(shown(list_identity(item, node)), UNSET) if before else UNSET
            _check(item, node.items, f"{path}[{index}]", causes, held)
    if node.list_type in ("set", "map"):
        seen: set[str] = set()
        for index, item in enumerate(value):
            identity = list_identity(item, node)
            if identity is None:
                continue
            key = shown(identity)
            if key in seen:
                text = f"Duplicate value: {golang.anything(identity)}"
                causes.append(Cause("FieldValueDuplicate", text, f"{path}[{index}]"))
            seen.add(key)


def _by_key(items: list[Any], node: SchemaNode) -> dict[str, Any]:
    # Only items of map lists have an identity over time.
    return {shown(list_identity(item, node)): item for item in items} if node.list_type == "map" else {}


def list_identity(item: Any, node: SchemaNode) -> Any:
    """Return what must be unique in a set or map list; None when the item is malformed anyway."""
    if node.list_type == "set":
        return item
    if not isinstance(item, dict) or node.items is None:
        return None
    properties = node.items.properties
    keys: dict[str, Any] = {}
    for name in sorted(node.list_map_keys):
        child = properties.get(name)
        default = child.default if child is not None and child.default is not UNSET else None
        held = item.get(name, default)
        if held is not None:
            keys[name] = held
    return keys


def _check_combinations(value: Any, node: SchemaNode, path: str, causes: list[Cause]) -> None:
    quoted = f'"{path}"'
    for part in node.all_of:
        _check(value, part, path, causes)
    if node.any_of and not any(not validate(value, part, path) for part in node.any_of):
        causes.append(invalid(path, value, f"{quoted} must validate at least one schema (anyOf)"))
    if node.one_of:
        valid = sum(not validate(value, part, path) for part in node.one_of)
        if valid != 1:
            found = "Found none valid" if not valid else f"Found {valid} valid alternatives"
            text = f"{quoted} must validate one and only one schema (oneOf). {found}"
            causes.append(invalid(path, value, text))
    if node.negated is not None and not validate(value, node.negated, path):
        causes.append(invalid(path, value, f"{quoted} must not validate the schema (not)"))
