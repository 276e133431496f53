"""Objects as a schema wants them: unknown fields found, JSON types checked, values in canonical form.

Built-in kinds are decoded as upstream's typed decoder does: a wrong JSON type is 400, null means absent,
quantities and times get their canonical text. Custom resources are pruned; their types are a matter of
validation (`kube.schema.structural`), except inside `metadata`, which is typed for every kind.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from trainshed.kube.meta import errors
from trainshed.kube.meta.base64text import illegal_byte
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.quantity import canonical
from trainshed.kube.meta.times import canonical_time, time_fault
from trainshed.kube.schema.keywords import Misfit, read_schema
from trainshed.kube.schema.namedtypes import named_type, of_item
from trainshed.kube.schema.nodes import JSON_SCHEMA_PROPS, SchemaNode
from trainshed.kube.schema.structural import apply_defaults, validate
from trainshed.kube.wire.body import decode_body, json_kind

__all__ = ["Mode", "apply_defaults", "cannot_handle", "conform", "decode_body", "validate"]

Mode: TypeAlias = Literal["ignore", "warn", "strict"]

_INT_RANGE = {"int32": 1 << 31, "int64": 1 << 63}
_KEYS = re.compile(r"\[[^]]*\]")
_ZERO: dict[str, Any] = {"string": "", "boolean": False, "integer": 0, "number": 0}
_EXACT = 1 << 63
"""What Kubernetes reads as an integer again."""
_GO_TYPES = {"boolean": "bool", "number": "float64", "string": "string"}


def cannot_handle(kind: str, version: str) -> str:
    """Return the start of the decoding errors of a kind: `Pod in version "v1" cannot be handled as a Pod`."""
    return f'{kind} in version "{version}" cannot be handled as a {kind}'


def conform(
    obj: Object,
    schema: SchemaNode,
    *,
    mode: Mode,
    what: str,
    builtin: bool,
    duplicates: Sequence[str] = (),
    whole: Object | None = None,
    shown: bool = False,
) -> tuple[Object, list[str]]:
    """Return `obj` without fields that `schema` does not know, in canonical form, and the warnings.

    The input is not changed; the result may share parts with it that needed no change.

    Args:
        mode: `ignore` drops unknown fields silently, `warn` drops and names them, `strict` refuses.
        what: start of error messages, from `cannot_handle`.
        builtin: whether the kind is built in; see the module's text for the difference.
        shown: whether a built-in object gets what it always carries, such as empty structs, and loses what it leaves
            out when empty (`zerovalues`).
        duplicates: paths of repeated fields, from `decode_body`; reported like unknown fields.
        whole: an object that this schema has been over. Of a built-in kind, what `obj` shares with it at its first two
            levels is not looked at again: a patch leaves most of an object as it was.

    Returns:
        The object and, in mode `warn`, texts such as `unknown field "spec.foo"`.

    Raises:
        ApiError: 400, a wrong JSON type, or in mode `strict` an unknown or repeated field.
    """
    walk = _Walk(what, shown, _parts(whole) if builtin and whole is not None else frozenset())
    out = walk.typed_object(obj, schema, "") if builtin else walk.structural(obj, schema, "")
    if mode == "ignore":
        return out, []
    complaints = [f'duplicate field "{path}"' for path in duplicates]
    complaints += [f'unknown field "{path}"' for path in walk.unknown]
    if complaints and mode == "strict":
        raise errors.bad_request(f"{what}: strict decoding error: {', '.join(complaints)}")
    return out, complaints


def _parts(obj: Object) -> frozenset[int]:
    """Return the identities of the lists and objects at the first two levels of an object, which has to live on."""
    first = [value for value in obj.values() if type(value) in (dict, list)]
    second = [
        item
        for value in first
        if type(value) is dict
        for item in value.values()
        if type(item) in (dict, list)
    ]
    return frozenset(map(id, first + second))


class _Walk:
    """One pass over an object, but for the values in `known`. Paths look like `spec.containers[0].image`."""

    __slots__ = ("known", "shown", "struct", "unknown", "what")

    def __init__(self, what: str, shown: bool, known: frozenset[int] = frozenset()) -> None:
        self.what = what
        self.shown = shown
        self.known = known
        self.struct = ""
        self.unknown: list[str] = []

    # ------------------------------------------------------------------------------- built-in kinds

    def typed_object(self, value: dict[str, Any], node: SchemaNode, path: str) -> dict[str, Any]:
        properties, additional = node.properties, node.additional
        out: dict[str, Any] = {}
        prefix = f"{path}." if path else ""
        for key, item in value.items():
            child = properties.get(key)
            if child is None:
                if additional is None:
                    if node.preserve_unknown:
                        out[key] = item
                    else:
                        self.unknown.append(prefix + key)
                    continue
                child = additional
                if item is None:  # Go's zero value: a map keeps the key
                    item = self.zero(child)
            elif item is None:
                continue
            if type(item) is not child.verbatim:
                below = prefix + key if child is not additional else f"{path}[{key}]"
                self.struct = node.name or self.struct
                item = self.typed(item, child, below)
            if self.shown and not item and _left_out(key, child, node):
                continue
            out[key] = item
        if self.shown:
            for key in node.zeros.shown:
                if key not in out:
                    child = properties[key]
                    out[key] = None if child.time else self.typed_object({}, child, "")
        return out

    def typed(self, value: Any, node: SchemaNode, path: str) -> Any:
        if type(value) is node.verbatim:
            return value
        kind = node.type
        if id(value) in self.known:
            return value
        if node.quantity:
            return self.quantity(value)
        if node.int_or_string:
            return value if type(value) is str else self.integer(value, "int32", path)
        if node.name == JSON_SCHEMA_PROPS:
            return self.json_schema(value, path)
        if not kind or node.preserve_unknown:
            return value
        if kind == "object":
            if type(value) is dict:
                return self.typed_object(value, node, path)
        elif kind == "array":
            if type(value) is list:
                items = node.items
                if items is None:
                    return value
                struct, out = self.struct, []
                for index, item in enumerate(value):
                    self.struct = struct
                    out.append(
                        self.typed(self.zero(items) if item is None else item, items, f"{path}[{index}]")
                    )
                return out
        elif kind == "integer":
            return self.integer(value, node.format, path)
        elif kind == "number":
            if type(value) in (int, float):
                return value
        elif kind == "string" and type(value) is str:
            if node.time:
                return self.time(value, node.time)
            if node.format == "byte":
                return self.bytes(value)
            return value
        raise self.mismatch(value, _go_type(node), path)

    def zero(self, node: SchemaNode) -> Any:
        if node.quantity:
            return "0"
        return {} if node.type == "object" else [] if node.type == "array" else _ZERO.get(node.type)

    def mismatch(self, value: Any, wanted: str, path: str) -> errors.ApiError:
        struct = self.struct.rpartition(".")[2] or self.what.partition(" ")[0]
        field = _KEYS.sub("", path)
        named = named_type(self.struct, field.rpartition(".")[2])
        if named is not None:
            inside = path.endswith("]")
            wanted = of_item(named) if inside else named
        kind = json_kind(value)
        if kind == "number" and wanted in _INT_RANGE:
            kind = f"number {value}"
        return errors.bad_request(
            f"{self.what}: json: cannot unmarshal {kind} into Go struct field "
            f"{struct}.{field} of type {wanted}"
        )

    def json_schema(self, value: Any, path: str) -> Any:
        try:
            return read_schema(value, path, self.unknown, _KEYS.sub("", path))
        except Misfit as misfit:
            if not misfit.wanted:
                raise errors.bad_request(f"{self.what}: {misfit}") from None
            self.struct = misfit.struct or self.struct
            raise self.mismatch(misfit.value, misfit.wanted, misfit.field) from None

    def integer(self, value: Any, size: str, path: str) -> int:
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is int:
            bound = _INT_RANGE.get(size, 1 << 63)
            if -bound <= value < bound:
                return value
        raise self.mismatch(value, size or "int64", path)

    def quantity(self, value: Any) -> str:
        try:
            if type(value) in (str, int, float):
                return canonical(value)
            raise ValueError
        except ValueError:
            raise errors.bad_request(
                f"{self.what}: quantities must match the regular expression "
                "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            ) from None

    def time(self, value: str, precision: str) -> str:
        try:
            return canonical_time(value, micro=precision == "MicroTime")
        except ValueError:
            fault = time_fault(value, micro=precision == "MicroTime")
            raise errors.bad_request(f"{self.what}: {fault}") from None

    def bytes(self, value: str) -> str:
        try:
            base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
        except (binascii.Error, ValueError):
            text = f"illegal base64 data at input byte {illegal_byte(value)}"
            raise errors.bad_request(f"{self.what}: {text}") from None
        return value

    # ----------------------------------------------------------------------------- custom resources

    def structural(self, value: Any, node: SchemaNode, path: str) -> Any:
        if node.builtin:
            return self.typed(value, node, path)
        if type(value) is dict:
            return self.structural_object(value, node, path)
        if type(value) is list:
            items = node.items
            if items is None or items.keeps_all:
                return value
            return [self.structural(item, items, f"{path}[{index}]") for index, item in enumerate(value)]
        if type(value) is float and (node.type in ("integer", "number") or node.int_or_string):
            return _as_written(value)
        return value

    def structural_object(self, value: dict[str, Any], node: SchemaNode, path: str) -> dict[str, Any]:
        if node.keeps_all:
            return value
        properties, additional = node.properties, node.additional
        out: dict[str, Any] = {}
        prefix = f"{path}." if path else ""
        for key, item in value.items():
            child = properties.get(key)
            if child is None:
                if additional is None:
                    if node.preserve_unknown:
                        out[key] = item
                    else:
                        self.unknown.append(prefix + key)
                    continue
                child = additional
            # A null where null is not allowed means absent, as upstream's pruning of nulls before defaults.
            if item is None and not child.nullable and (child.builtin or child.type):
                continue
            out[key] = item if type(item) is child.verbatim else self.structural(item, child, prefix + key)
        return out


def _left_out(key: str, child: SchemaNode, struct: SchemaNode) -> bool:
    """Return whether a field at its zero value is left out: scalars, lists and maps that are no pointers.

    Empty managedFields stay for who tracks them: they ask for a clean slate.
    """
    if key == "managedFields" or key not in struct.properties or key in struct.zeros.kept or not child.type:
        return False
    return child.type != "object" or child.additional is not None


def _go_type(node: SchemaNode) -> str:
    if node.type == "array":
        return "[]" + (_go_type(node.items) if node.items else "interface {}")
    if node.type == "object":
        if node.additional is not None:
            return "map[string]" + _go_type(node.additional)
        short = node.name.split(".")[-2:] if node.name else ["struct"]
        return ".".join(short)
    if node.quantity:
        return "resource.Quantity"
    if node.type == "integer":
        return node.format or "int64"
    if node.format == "byte":
        return "[]uint8"
    return _GO_TYPES.get(node.type, "interface {}")


def _as_written(value: float) -> float:
    """Return a number as Go writes it: one without a fraction has no decimal point."""
    return int(value) if value.is_integer() and abs(value) < _EXACT else value
