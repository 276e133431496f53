"""Keywords of the schemas in CustomResourceDefinitions: what is none of them is an unknown field like any other.

A walk of its own, over plain data: the 366 KB schema of a JobSet takes it milliseconds.

Source: apiextensions.k8s.io/v1 JSONSchemaProps.
"""

from __future__ import annotations

from operator import is_
from typing import Any, Final

_SCHEMAS: Final = frozenset({"items", "not", "additionalProperties", "additionalItems"})
_LISTS: Final = frozenset({"items", "allOf", "anyOf", "oneOf"})
_MAPS: Final = frozenset({"properties", "patternProperties", "definitions", "dependencies"})
_TEXTS: Final = ("id", "$schema", "$ref", "description", "type", "format", "title", "pattern")
_BOUNDS: Final = ("maximum", "minimum", "multipleOf", "exclusiveMaximum", "exclusiveMinimum")
_SIZES: Final = (
    "maxLength",
    "minLength",
    "maxItems",
    "minItems",
    "maxProperties",
    "minProperties",
    "uniqueItems",
)
_VALUES: Final = ("default", "enum", "required", "externalDocs", "example", "nullable")
_EXTENSIONS: Final = (
    "preserve-unknown-fields",
    "embedded-resource",
    "int-or-string",
    "list-map-keys",
    "list-type",
    "map-type",
    "validations",
)
_PLAIN: Final = frozenset(
    {*_TEXTS, *_BOUNDS, *_SIZES, *_VALUES, *(f"x-kubernetes-{name}" for name in _EXTENSIONS)}
)


def without_unknown(schema: Any, path: str, unknown: list[str]) -> Any:
    """Return a schema with keywords only, itself if it has no others; note the paths of the others in `unknown`.

    What is no schema where there should be one is left to validation.
    """
    if type(schema) is not dict:
        return schema
    out: dict[str, Any] = schema
    new: Any
    for key, value in schema.items():
        if key in _PLAIN:
            continue
        below = f"{path}.{key}"
        if key in _MAPS and type(value) is dict:
            new = _each(value, below, unknown)
        elif key in _LISTS and type(value) is list:
            each = [without_unknown(one, f"{below}[{number}]", unknown) for number, one in enumerate(value)]
            new = value if all(map(is_, each, value)) else each
        elif key in _SCHEMAS:
            new = without_unknown(value, below, unknown)
        elif key in _MAPS or key in _LISTS:
            continue
        else:
            unknown.append(below)
            out = _without(out, schema, key)
            continue
        if new is not value:
            out = {**out, key: new}
    return out


def _each(schemas: dict[str, Any], path: str, unknown: list[str]) -> dict[str, Any]:
    each = {name: without_unknown(one, f"{path}[{name}]", unknown) for name, one in schemas.items()}
    return schemas if all(map(is_, each.values(), schemas.values())) else each


def _without(out: dict[str, Any], schema: dict[str, Any], key: str) -> dict[str, Any]:
    out = dict(out) if out is schema else out
    del out[key]
    return out
