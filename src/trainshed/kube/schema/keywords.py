"""Keywords of the schemas in CustomResourceDefinitions: what is none of them is an unknown field like any other.

A walk of its own, over plain data: the 366 KB schema of a JobSet takes it milliseconds.

Source: apiextensions.k8s.io/v1 JSONSchemaProps.
"""

from __future__ import annotations

from collections.abc import Iterator
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


_STRING: Final = (frozenset({str}), "string")
_BOOL: Final = (frozenset({bool}), "bool")
_FLOAT: Final = (frozenset({int, float}), "float64")
_INT: Final = (frozenset({int, float}), "int64")
_LIST: Final = (frozenset({list}), "[]string")
_TYPES: Final = {
    **dict.fromkeys((*_TEXTS, "x-kubernetes-list-type", "x-kubernetes-map-type"), _STRING),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), _FLOAT),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "uniqueItems", "nullable"), _BOOL),
    **dict.fromkeys(_SIZES[:-1], _INT),
    **dict.fromkeys(("required", "x-kubernetes-list-map-keys"), _LIST),
    "x-kubernetes-preserve-unknown-fields": _BOOL,
    "x-kubernetes-embedded-resource": _BOOL,
    "x-kubernetes-int-or-string": _BOOL,
}
_RULE: Final = {
    **dict.fromkeys(("rule", "message", "messageExpression", "reason", "fieldPath"), _STRING),
    "optionalOldSelf": _BOOL,
}
_RULES: Final = "x-kubernetes-validations"
Misfit = tuple[str, str, Any, str]
"""Go's struct and the path of a field, its value, and the type that Go has for it."""


def misfits(schema: Any, path: str) -> Iterator[Misfit]:
    """Yield the keywords of a schema whose values have another type than theirs; null is no value."""
    if type(schema) is not dict:
        return
    for key, value in schema.items():
        below = f"{path}.{key}"
        wanted = _TYPES.get(key)
        if wanted is not None:
            if value is not None and type(value) not in wanted[0]:
                yield "JSONSchemaProps", below, value, wanted[1]
        elif key == _RULES and type(value) is list:
            for number, rule in enumerate(value):
                for field, inner in rule.items() if type(rule) is dict else ():
                    of_rule = _RULE.get(field)
                    if of_rule is not None and inner is not None and type(inner) not in of_rule[0]:
                        yield "ValidationRule", f"{below}[{number}].{field}", inner, of_rule[1]
        elif key in _MAPS and type(value) is dict:
            for name, one in value.items():
                yield from misfits(one, f"{below}[{name}]")
        elif key in _LISTS and type(value) is list:
            for number, one in enumerate(value):
                yield from misfits(one, f"{below}[{number}]")
        elif key in _SCHEMAS:
            yield from misfits(value, below)


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
