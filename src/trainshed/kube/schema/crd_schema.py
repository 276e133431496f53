"""What makes the schema of a CRD structural: every place has a type, nothing is said twice.

Source of rules and texts: `apiextensions-apiserver/pkg/apiserver/schema/validation.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.schema.cel import compile_error
from trainshed.kube.schema.nodes import SchemaNode, from_schema
from trainshed.kube.schema.re2 import compile_re2
from trainshed.kube.schema.structural import validate

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_LOGICAL = ("allOf", "anyOf", "oneOf")
_NOT_IN_LOGICAL = ("type", "default", "additionalProperties", "nullable", "title", "description")
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
    kind = schema.get("type")
    if not kind:
        yield causes.required(f"{path}.type", "must not be empty at the root")
    elif kind != "object":
        yield causes.invalid(f"{path}.type", kind, "must be object at the root")
    if schema.get("nullable"):
        yield causes.forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    yield from _root(schema, path)
    yield from _place(schema, path)


def _root(schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Yield where the root describes what every object has: it may only restrict its names."""
    if schema.get("additionalProperties") is not None:
        yield causes.forbidden(f"{path}.additionalProperties", "must not be used at the root")
    properties = section(schema, "properties")
    for name, wanted in (("apiVersion", "string"), ("kind", "string"), ("metadata", "object")):
        kind = properties.get(name, {}).get("type", "")
        if name in properties and kind != wanted:
            yield causes.invalid(f"{path}.properties[{name}].type", kind, f"must be {wanted}")
    metadata = {key: value for key, value in properties.get("metadata", {}).items() if not _is_empty(value)}
    if metadata.get("properties", {}).keys() <= {"name", "generateName"}:
        metadata.pop("properties", None)
    if metadata.keys() - {"type", "default"}:
        text = (
            "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )
        yield causes.forbidden(f"{path}.properties[metadata]", text)


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
    if int_or_string and kind:
        text = "must be empty if x-kubernetes-int-or-string is true"
        yield causes.invalid(f"{path}.type", kind, text)
    if get("x-kubernetes-preserve-unknown-fields") is False:
        text = "must be true or undefined"
        yield causes.invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, text)
    if get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield causes.forbidden(f"{path}.uniqueItems", text)
    if get("x-kubernetes-embedded-resource") and kind != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        yield causes.invalid(f"{path}.type", kind, text)
    yield from _pattern(schema, path)
    yield from _list_type(schema, path)
    for index, rule in enumerate(get("x-kubernetes-validations") or ()):
        if not (rule.get("rule") or "").strip():
            yield causes.required(f"{path}.x-kubernetes-validations[{index}].rule", "rule is not specified")
        elif wrong := compile_error(rule["rule"], schema):
            yield causes.invalid_text(f"{path}.x-kubernetes-validations[{index}].rule", wrong)
    yield from _below(schema, path)
    for logical in _LOGICAL:
        for index, part in enumerate(get(logical) or ()):
            at = f"{path}.{logical}[{index}]"
            yield from _logical(part, at, types_allowed=int_or_string)
    if isinstance(get("not"), Mapping):
        yield from _logical(get("not"), f"{path}.not", types_allowed=False)
    if schema.get("default") is not None:
        yield from _default(schema, path)


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
    if list_type != "map":
        if keys:
            text = "must be map if x-kubernetes-list-map-keys is non-empty"
            yield causes.invalid(at, list_type or "", text)
        return
    if not keys:
        text = "must not be empty if x-kubernetes-list-type is map"
        yield causes.required(f"{path}.x-kubernetes-list-map-keys", text)
    items = schema.get("items")
    items = items if isinstance(items, Mapping) else {}
    properties = section(items, "properties")
    for index, key in enumerate(keys):
        if key not in properties:
            text = "entries must all be names of item properties"
            yield causes.invalid(f"{path}.x-kubernetes-list-map-keys[{index}]", key, text)
        elif key not in (items.get("required") or ()) and "default" not in properties[key]:
            text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield causes.required(f"{path}.items.properties[{key}].default", text)


def _set_items(items: Any, path: str) -> Iterator[Cause]:
    """Yield where items of a set could be merged: they are compared, and applied, as a whole."""
    if not isinstance(items, Mapping):
        return
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    map_type, list_type = items.get("x-kubernetes-map-type"), items.get("x-kubernetes-list-type")
    if items.get("type") == "object" and map_type != "atomic":
        yield causes.invalid(f"{path}.x-kubernetes-map-type", map_type, text)
    elif items.get("type") == "array" and list_type not in (None, "atomic"):
        yield causes.invalid(f"{path}.x-kubernetes-list-type", list_type, text)


def _logical(part: Any, path: str, *, types_allowed: bool) -> Iterator[Cause]:
    """Yield what is wrong below allOf, anyOf, oneOf and not: they may only restrict values."""
    for key in _NOT_IN_LOGICAL:
        if part.get(key) and not (key == "type" and types_allowed):
            yield causes.forbidden(f"{path}.{key}", "must be empty to be structural")
    yield from _pattern(part, path)
    for logical in _LOGICAL:
        for index, child in enumerate(part.get(logical) or ()):
            yield from _logical(child, f"{path}.{logical}[{index}]", types_allowed=types_allowed)
    for key, child in section(part, "properties").items():
        yield from _logical(child, f"{path}.properties[{key}]", types_allowed=False)
    if isinstance(part.get("items"), Mapping):
        yield from _logical(part["items"], f"{path}.items", types_allowed=False)


def _default(schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    value: Object = schema["default"]
    node: SchemaNode = from_schema(schema)
    for cause in validate(value, node):
        yield Cause(
            cause.reason, cause.message, f"{path}.default" + (f".{cause.field}" if cause.field else "")
        )
