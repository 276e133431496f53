"""What makes the schema of a CRD structural: every place has a type, nothing is said twice.

Source of rules and texts: `apiextensions-apiserver/pkg/apiserver/schema/validation.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainshed.kube.cel.re2 import compile_re2
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.schema.decode import conform
from trainshed.kube.schema.nodes import SchemaNode, from_schema
from trainshed.kube.schema.rules import broken_rules
from trainshed.kube.schema.structural import validate

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_RULES = "x-kubernetes-validations"
_LOGICAL = ("allOf", "anyOf", "oneOf")
_NOT_IN_LOGICAL = {
    **dict.fromkeys(("type", "title", "description"), "empty"),
    **dict.fromkeys(("x-kubernetes-list-map-keys", "x-kubernetes-validations"), "empty"),
    **dict.fromkeys(("additionalProperties", "default"), "undefined"),
    **dict.fromkeys(("x-kubernetes-list-type", "x-kubernetes-map-type"), "undefined"),
    **dict.fromkeys(("nullable", "x-kubernetes-preserve-unknown-fields"), "false"),
    **dict.fromkeys(("x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"), "false"),
}
"""What may not stand where values are only restricted, and what it must be there."""
_KEYWORD_TYPES: dict[str, tuple[type, ...]] = {
    "properties": (dict,),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "enum", "required", "x-kubernetes-validations"), (list,)),
    "x-kubernetes-list-map-keys": (list,),
    "items": (dict, list),
    "additionalProperties": (dict, bool),
    "not": (dict,),
    **dict.fromkeys(("type", "format", "pattern", "title", "description", "$ref"), (str,)),
    **dict.fromkeys(("x-kubernetes-list-type", "x-kubernetes-map-type"), (str,)),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), (int, float)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), (int,)),
    **dict.fromkeys(("minProperties", "maxProperties"), (int,)),
    **dict.fromkeys(("nullable", "uniqueItems", "exclusiveMinimum", "exclusiveMaximum"), (bool,)),
    **dict.fromkeys(("x-kubernetes-int-or-string", "x-kubernetes-embedded-resource"), (bool,)),
    "x-kubernetes-preserve-unknown-fields": (bool,),
}
_JSON_NAMES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
_STRING_LISTS = ("required", "x-kubernetes-list-map-keys")
_UNSUPPORTED = (
    "$ref",
    "additionalItems",
    "definitions",
    "dependencies",
    "deprecated",
    "discriminator",
    "id",
    "patternProperties",
)


def schema_causes(schema: Any, path: str) -> Iterator[Cause]:
    """Yield what is wrong with an `openAPIV3Schema` whose place is `path`."""
    malformed = list(_malformed(schema, path))
    if malformed:  # the rules below take the shape of every keyword for granted
        yield from malformed
        return
    wrong = [*_root(schema, path), *_place(schema, path), *_undeclared(schema, schema, path, path)]
    yield from wrong
    if not wrong:  # types and costs of rules are those of a structural schema
        yield from _rules(schema, path)


def _rules(schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    if _has_rules(schema):
        from trainshed.kube.schema.crd_rules import rule_causes

        yield from rule_causes(schema, path)


def _has_rules(schema: Mapping[str, Any]) -> bool:
    """Return whether there are rules where a structural schema may have some."""
    inner = [
        *section(schema, "properties").values(),
        schema.get("additionalProperties"),
        schema.get("items"),
    ]
    return bool(schema.get(_RULES)) or any(_has_rules(part) for part in inner if isinstance(part, Mapping))


def _root(schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Yield what is wrong with the root. Of what every object has it may only restrict the names."""
    kind = schema.get("type")
    if not kind:
        yield causes.required(f"{path}.type", "must not be empty at the root")
    elif kind != "object":
        yield causes.invalid(f"{path}.type", kind, "must be object at the root")
    if schema.get("nullable"):
        yield causes.forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    if schema.get("additionalProperties") is not None:
        yield causes.forbidden(f"{path}.additionalProperties", "must not be used at the root")
    properties = section(schema, "properties")
    yield from _own_types(properties, path)
    for name in ("apiVersion", "kind", "metadata"):
        yield from _no_defaults(properties.get(name), f"{path}.properties[{name}]", f"in top-level {name}")
    metadata = {key: value for key, value in properties.get("metadata", {}).items() if not _is_empty(value)}
    if metadata.get("properties", {}).keys() <= {"name", "generateName"}:
        metadata.pop("properties", None)
    if metadata.keys() - {"type", "default"}:
        text = (
            "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )
        yield causes.forbidden(f"{path}.properties[metadata]", text)


def _own_types(properties: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Yield where what a whole object has is of another type, at the root and in embedded objects."""
    for name, wanted in (("apiVersion", "string"), ("kind", "string"), ("metadata", "object")):
        kind = properties.get(name, {}).get("type", "")
        if name in properties and kind != wanted:
            yield causes.invalid(f"{path}.properties[{name}].type", kind, f"must be {wanted}")


def _no_defaults(schema: Any, path: str, where: str) -> Iterator[Cause]:
    if not isinstance(schema, Mapping):
        return
    if schema.get("default") is not None:
        yield causes.forbidden(f"{path}.default", f"must not be set {where}")
    for name, child in section(schema, "properties").items():
        yield from _no_defaults(child, f"{path}.properties[{name}]", where)
    for key in ("items", "additionalProperties"):
        yield from _no_defaults(schema.get(key), f"{path}.{key}", where)


def _is_empty(value: Any) -> bool:
    return value is None or value is False or value in ("", [], {})


def _malformed(schema: Any, path: str) -> Iterator[Cause]:
    """Yield the keywords whose JSON type is wrong, at and below `path`."""
    if not isinstance(schema, dict):
        yield causes.invalid(path, schema, "must be a schema")
        return
    below: list[tuple[Any, str]] = []
    for key, value in schema.items():
        wanted = _KEYWORD_TYPES.get(key)
        at = f"{path}.{key}"
        if wanted is None:
            continue
        odd = not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted)
        if not odd and key in _STRING_LISTS:
            odd = not all(isinstance(item, str) for item in value)
        if not odd and key == "x-kubernetes-validations":
            odd = not all(isinstance(item, dict) and isinstance(item.get("rule", ""), str) for item in value)
        if odd:
            allowed = " or ".join(_JSON_NAMES[kind] for kind in wanted)
            yield Cause(
                "FieldValueTypeInvalid", f"Invalid value: {causes.shown(value)}: must be {allowed}", at
            )
        elif key == "properties":
            below += [(child, f"{at}[{name}]") for name, child in value.items()]
        elif key in _LOGICAL:
            below += [(child, f"{at}[{index}]") for index, child in enumerate(value)]
        elif key == "not" or (key in ("items", "additionalProperties") and isinstance(value, dict)):
            below.append((value, at))
    for child, at in below:
        yield from _malformed(child, at)


def _place(schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Yield what is wrong at and below one place; that it has a type is its parent's question."""
    get = schema.get
    kind = get("type") or ""
    int_or_string = bool(get("x-kubernetes-int-or-string"))
    if kind and kind not in _TYPES:
        yield causes.unsupported(f"{path}.type", kind, _TYPES)
    for key in _UNSUPPORTED:
        if key in schema:
            yield causes.forbidden(f"{path}.{key}", f"{key} is not supported")
    if get("x-kubernetes-preserve-unknown-fields") is False:
        text = "must be true or undefined"
        yield causes.invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, text)
    if get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield causes.forbidden(f"{path}.uniqueItems", text)
    if get("x-kubernetes-embedded-resource") and kind != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        yield causes.invalid(f"{path}.type", kind, text)
    if get("x-kubernetes-embedded-resource"):
        yield from _embedded(schema, path)
    yield from _pattern(schema, path)
    yield from _map_type(schema, path)
    yield from _list_type(schema, path)
    if get(_RULES):
        from trainshed.kube.schema.crd_rules import (
            wording_causes,  # the language is loaded with the first expression
        )

        yield from wording_causes(schema, path)
    yield from _below(schema, path)
    for logical in _LOGICAL:
        for index, part in enumerate(get(logical) or ()):
            at = f"{path}.{logical}[{index}]"
            yield from _logical(part, at, types_allowed=int_or_string)
    if isinstance(get("not"), Mapping):
        yield from _logical(get("not"), f"{path}.not", types_allowed=False)
    if schema.get("default") is not None:
        yield from _default(schema, path)


def _embedded(schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Yield what is wrong with the schema of a whole object inside another."""
    properties = section(schema, "properties")
    if schema.get("additionalProperties") is not None:
        text = "must not be used if x-kubernetes-embedded-resource is set"
        yield causes.forbidden(f"{path}.additionalProperties", text)
    if not properties and not schema.get("x-kubernetes-preserve-unknown-fields"):
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields"
        )
        yield causes.required(f"{path}.properties", text)
    yield from _own_types(properties, path)


def _map_type(schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    map_type, kind = schema.get("x-kubernetes-map-type"), schema.get("type") or ""
    if map_type is None:
        return
    text = "must be object if x-kubernetes-map-type is specified"
    if not kind:
        yield causes.required(f"{path}.type", text)
    elif kind != "object":
        yield causes.invalid(f"{path}.type", kind, text)
    if map_type not in ("atomic", "granular"):
        yield causes.unsupported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular"))


def _below(schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    properties, additional = schema.get("properties"), schema.get("additionalProperties")
    if properties and additional:
        text = "additionalProperties and properties are mutual exclusive"
        yield causes.forbidden(f"{path}.additionalProperties", text)
    below: list[tuple[Any, str, str]] = [
        (child, f"{path}.properties[{key}]", "must not be empty for specified object fields")
        for key, child in (properties or {}).items()
    ]
    if isinstance(additional, Mapping):
        below.append(
            (additional, f"{path}.additionalProperties", "must not be empty for specified object fields")
        )
    items = schema.get("items")
    if isinstance(items, list):
        text = "items must be a schema object and not an array"
        yield causes.forbidden(f"{path}.items", text)
    elif isinstance(items, Mapping):
        below.append((items, f"{path}.items", "must not be empty for specified array items"))
    elif schema.get("type") == "array":
        yield causes.required(f"{path}.items", "must be specified")
    for child, at, text in below:
        free = child.get("x-kubernetes-int-or-string") or child.get("x-kubernetes-preserve-unknown-fields")
        if not child.get("type") and not free:
            yield causes.required(f"{at}.type", text)
        yield from _place(child, at)


def _pattern(schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    pattern = schema.get("pattern")
    if pattern:
        try:
            compile_re2(pattern)
        except ValueError as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            yield causes.invalid(f"{path}.pattern", pattern, text)


def _list_type(schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or ()
    at = f"{path}.x-kubernetes-list-type"
    if list_type and list_type not in ("atomic", "map", "set"):
        yield causes.unsupported(at, list_type, ("atomic", "map", "set"))
    if list_type and schema.get("type") != "array":
        text = "must be array if x-kubernetes-list-type is specified"
        yield causes.invalid(f"{path}.type", schema.get("type") or "", text)
    elif list_type == "set":
        yield from _set_items(schema.get("items"), f"{path}.items")
    items = schema.get("items")
    if list_type in ("set", "map") and isinstance(items, Mapping) and items.get("nullable"):
        text = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        yield causes.forbidden(f"{path}.items.nullable", text)
    if list_type != "map":
        if keys:
            text = "must be map if x-kubernetes-list-map-keys is non-empty"
            yield causes.invalid(at, list_type or "", text)
        return
    if not keys:
        text = "must not be empty if x-kubernetes-list-type is map"
        yield causes.required(f"{path}.x-kubernetes-list-map-keys", text)
    yield from _map_keys(keys, items if isinstance(items, Mapping) else {}, path)


def _map_keys(keys: Sequence[str], items: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Yield why items of a list cannot be told apart by these keys."""
    at = f"{path}.x-kubernetes-list-map-keys"
    if items and items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield causes.invalid(f"{path}.items.type", items.get("type") or "", text)
        return
    properties = section(items, "properties")
    for index, key in enumerate(keys):
        found = properties.get(key)
        if found is None:
            yield causes.invalid(at, keys, "entries must all be names of item properties")
        elif found.get("type") in ("array", "object"):
            text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield causes.invalid(f"{path}.items.properties[{key}].type", items.get("type"), text)
        if key in keys[:index]:
            yield causes.invalid(at, keys, "must not contain duplicate entries")
        if found is None:
            continue
        if key not in (items.get("required") or ()) and found.get("default") is None:
            text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield causes.required(f"{path}.items.properties[{key}].default", text)
        if found.get("nullable"):
            text = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            yield causes.forbidden(f"{path}.items.properties[{key}].nullable", text)


def _set_items(items: Any, path: str) -> Iterator[Cause]:
    """Yield where items of a set could be merged: they are compared, and applied, as a whole."""
    if not isinstance(items, Mapping):
        return
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    map_type, list_type = items.get("x-kubernetes-map-type"), items.get("x-kubernetes-list-type")
    if items.get("type") == "object" and map_type != "atomic":
        yield causes.invalid(f"{path}.x-kubernetes-map-type", map_type or "null", text)
    elif items.get("type") == "array" and list_type not in (None, "atomic"):
        yield causes.invalid(f"{path}.x-kubernetes-list-type", list_type, text)


def _logical(part: Any, path: str, *, types_allowed: bool) -> Iterator[Cause]:
    """Yield what is wrong below allOf, anyOf, oneOf and not: they may only restrict values."""
    for key, wanted in _NOT_IN_LOGICAL.items():
        said = part.get(key) is not None if wanted == "undefined" else part.get(key)
        if said and not (key == "type" and types_allowed):
            yield causes.forbidden(f"{path}.{key}", f"must be {wanted} to be structural")
    if "metadata" in section(part, "properties"):
        text = "must not be specified in a nested context"
        yield causes.forbidden(f"{path}.properties[metadata]", text)
    yield from _pattern(part, path)
    for logical in _LOGICAL:
        for index, child in enumerate(part.get(logical) or ()):
            yield from _logical(child, f"{path}.{logical}[{index}]", types_allowed=types_allowed)
    for key, child in section(part, "properties").items():
        yield from _logical(child, f"{path}.properties[{key}]", types_allowed=False)
    if isinstance(part.get("items"), Mapping):
        yield from _logical(part["items"], f"{path}.items", types_allowed=False)


def _undeclared(part: Mapping[str, Any], place: Any, path: str, at: str) -> Iterator[Cause]:
    """Yield the fields and items that a restriction at `at` names and the place at `path` does not declare.

    Of the restrictions at the root, as upstream.
    """
    if not isinstance(place, Mapping):
        yield causes.required(path, f"because it is defined in {at}")
        return
    below = [
        (child, f"{at}.{key}[{index}]") for key in _LOGICAL for index, child in enumerate(part.get(key) or ())
    ]
    if isinstance(part.get("not"), Mapping):
        below.append((part["not"], f"{at}.not"))
    for child, where in below:
        yield from _undeclared(child, place, path, where)
    if part is place:
        return
    declared = section(place, "properties")
    for name, child in section(part, "properties").items():
        step = f".properties[{name}]"
        yield from _undeclared(child, declared.get(name), f"{path}{step}", f"{at}{step}")
    if isinstance(part.get("items"), Mapping):
        yield from _undeclared(part["items"], place.get("items"), f"{path}.items", f"{at}.items")


def _default(schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    value: Object = schema["default"]
    node: SchemaNode = from_schema(schema)
    found = validate(value, node) or broken_rules(value, None, node)
    for cause in found:
        yield Cause(
            cause.reason, cause.message, f"{path}.default" + (f".{cause.field}" if cause.field else "")
        )
    held = from_schema({"type": "object", "properties": {"it": schema}})
    if not found and conform({"it": value}, held, mode="ignore", what="", builtin=False)[0]["it"] != value:
        yield causes.invalid(f"{path}.default", value, "must not have unknown fields")
