"""What makes the schema of a CRD structural: every place has a type, nothing is said twice.

Source of rules and texts: `apiextensions-apiserver/pkg/apiserver/schema`: `convert.go`, `validation.go`, `complete.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainshed.kube.cel.re2 import compile_re2
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import section

LOGICAL = ("allOf", "anyOf", "oneOf")
PRESERVES = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_EMBEDDED = "x-kubernetes-embedded-resource"
_INT_OR_STRING_FORM = [{"type": "integer"}, {"type": "string"}]
_NOT_IN_LOGICAL = {
    **dict.fromkeys(("type", "title", "description"), "empty"),
    **dict.fromkeys(("x-kubernetes-list-map-keys", "x-kubernetes-validations"), "empty"),
    **dict.fromkeys(("additionalProperties", "default"), "undefined"),
    **dict.fromkeys(("x-kubernetes-list-type", "x-kubernetes-map-type"), "undefined"),
    **dict.fromkeys(("nullable", PRESERVES, _EMBEDDED, _INT_OR_STRING), "false"),
}
"""What may not stand where values are only restricted, and what it must be there."""
_UNSUPPORTED = (
    "id",
    "$schema",
    "$ref",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
)
_NO_TYPE = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def cannot_be(schema: Mapping[str, Any]) -> str:
    """Return why a schema cannot be a structural one at all; empty if it can."""
    for key in _UNSUPPORTED:
        if schema.get(key) or (key == "additionalItems" and key in schema):
            return f"OpenAPIV3Schema '{key.removeprefix('$') if key == '$schema' else key}' is not supported"
    parts = [part for key in LOGICAL for part in schema.get(key) or ()]
    if schema.get("not") is not None:
        parts.insert(0, schema["not"])
    for part in parts:
        if why := cannot_be(part):
            return why
    if schema.get(PRESERVES) is False:
        return f"internal error: '{PRESERVES}' must be true or undefined"
    if schema.get("items") and isinstance(schema["items"], list):
        return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    for child in _children(schema):
        if why := cannot_be(child):
            return why
    return ""


def _children(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    inner = [schema.get("items"), *section(schema, "properties").values(), schema.get("additionalProperties")]
    return [each for each in inner if isinstance(each, Mapping)]


def structural_causes(schema: Mapping[str, Any], path: str) -> list[Cause]:
    """Return why a schema is not structural, in the order of the messages."""
    found = [*_place(schema, path, "root"), *_undeclared(schema, schema, path, path)]
    return sorted(found, key=lambda cause: f"{cause.field}: {cause.message}")


def _place(schema: Mapping[str, Any], path: str, level: str) -> Iterator[Cause]:
    kind, items, additional = schema.get("type"), schema.get("items"), schema.get("additionalProperties")
    if kind == "array" and items is None:
        yield causes.required(f"{path}.items", "must be specified")
    if isinstance(items, Mapping):
        yield from _place(items, f"{path}.items", "item")
    for name, child in section(schema, "properties").items():
        yield from _place(child, f"{path}.properties[{name}]", "field")
    if additional is not None:
        if level == "root":
            yield causes.forbidden(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(additional, Mapping):
            yield from _place(additional, f"{path}.additionalProperties", "field")
    if schema.get(_INT_OR_STRING):
        for key in (PRESERVES, _EMBEDDED):
            if schema.get(key):
                yield causes.invalid(f"{path}.{key}", True, f"must be false if {_INT_OR_STRING} is true")
    first = (schema.get("allOf") or [{}])[0]
    yield from _restrictions(
        schema,
        path,
        skip_any=schema.get("anyOf") == _INT_OR_STRING_FORM,
        skip_first_all=first.get("anyOf") == _INT_OR_STRING_FORM,
    )
    yield from _typed(schema, path, level)
    yield from _whole(schema, path, level)


def _typed(schema: Mapping[str, Any], path: str, level: str) -> Iterator[Cause]:
    kind = schema.get("type")
    if schema.get(_EMBEDDED) and kind != "object":
        text = f"must be object if {_EMBEDDED} is true"
        yield causes.invalid(f"{path}.type", kind, text) if kind else causes.required(f"{path}.type", text)
    elif not kind and not schema.get(_INT_OR_STRING) and not schema.get(PRESERVES):
        yield causes.required(f"{path}.type", _NO_TYPE[level])
    if schema.get(_EMBEDDED) and schema.get("additionalProperties") is not None:
        text = f"must not be used if {_EMBEDDED} is set"
        yield causes.forbidden(f"{path}.additionalProperties", text)
    if level == "root" and kind and kind != "object":
        yield causes.invalid(f"{path}.type", kind, "must be object at the root")


def _whole(schema: Mapping[str, Any], path: str, level: str) -> Iterator[Cause]:
    """Yield what is wrong with what whole objects have, at the root and where others are embedded."""
    properties = section(schema, "properties")
    if level == "root" or schema.get(_EMBEDDED):
        for name, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
            kind = properties.get(name, {}).get("type") or ""
            if name in properties and kind != wanted:
                yield causes.invalid(f"{path}.properties[{name}].type", kind, f"must be {wanted}")
    if level == "root" and "metadata" in properties:
        metadata = {key: value for key, value in properties["metadata"].items() if key not in _IGNORED}
        if metadata.get("properties", {}).keys() <= {"name", "generateName"}:
            metadata.pop("properties", None)
        if metadata:
            text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield causes.forbidden(f"{path}.properties[metadata]", text)
    if schema.get(_EMBEDDED) and not schema.get(PRESERVES) and not properties:
        text = f"must not be empty if {_EMBEDDED} is true without {PRESERVES}"
        yield causes.required(f"{path}.properties", text)


_IGNORED = ("type", "default", "externalDocs", "example")
"""Of the metadata at the root: told of elsewhere, or not part of a structural schema."""


def _restrictions(
    schema: Mapping[str, Any], path: str, *, skip_any: bool = False, skip_first_all: bool = False
) -> Iterator[Cause]:
    """Yield what is wrong with the restrictions of values at a place."""
    for key in LOGICAL:
        if key == "anyOf" and skip_any:
            continue
        for index, part in enumerate(schema.get(key) or ()):
            skip = skip_first_all and key == "allOf" and index == 0
            yield from _restriction(part, f"{path}.{key}[{index}]", skip_any=skip)
    if isinstance(schema.get("not"), Mapping):
        yield from _restriction(schema["not"], f"{path}.not")
    pattern = schema.get("pattern")
    if pattern:
        try:
            compile_re2(pattern)
        except ValueError as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            yield causes.invalid(f"{path}.pattern", pattern, text)


def _restriction(part: Mapping[str, Any], path: str, *, skip_any: bool = False) -> Iterator[Cause]:
    """Yield what is wrong below allOf, anyOf, oneOf and not: they may only restrict values."""
    yield from _restrictions(part, path, skip_any=skip_any)
    if isinstance(part.get("items"), Mapping):
        yield from _restriction(part["items"], f"{path}.items")
    for key, child in section(part, "properties").items():
        yield from _restriction(child, f"{path}.properties[{key}]")
    for key, wanted in _NOT_IN_LOGICAL.items():
        said = part.get(key) is not None if wanted == "undefined" else part.get(key)
        if said and not (key == "additionalProperties" and said and part[key] is False):
            yield causes.forbidden(f"{path}.{key}", f"must be {wanted} to be structural")
    if "metadata" in section(part, "properties"):
        text = "must not be specified in a nested context"
        yield causes.forbidden(f"{path}.properties[metadata]", text)


def _undeclared(part: Mapping[str, Any], place: Any, path: str, at: str) -> Iterator[Cause]:
    """Yield the fields and items that a restriction at `at` names and the place at `path` does not declare.

    Of the restrictions at the root, as upstream.
    """
    if not isinstance(place, Mapping):
        yield causes.required(path, f"because it is defined in {at}")
        return
    below = [
        (child, f"{at}.{key}[{index}]") for key in LOGICAL for index, child in enumerate(part.get(key) or ())
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
