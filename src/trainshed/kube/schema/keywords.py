"""Schemas in CustomResourceDefinitions as Go's decoder reads them: types, unknown keywords, what is left out if empty.

A walk of its own, over plain data: the 366 KB schema of a JobSet takes it milliseconds.

Source: apiextensions.k8s.io/v1 JSONSchemaProps, and `marshal.go` beside it for what is a schema or something else.
"""

from __future__ import annotations

from typing import Any, Final

_STRING: Final = (frozenset({str}), "string")
_BOOL: Final = (frozenset({bool}), "bool")
_FLOAT: Final = (frozenset({int, float}), "float64")
_INT: Final = (frozenset({int}), "int64")
_ANY: Final = (frozenset({str, bool, int, float, list, dict}), "")
_SCHEMA: Final = "v1.JSONSchemaProps"
_TYPES: Final[dict[str, tuple[frozenset[type], str]]] = {
    **dict.fromkeys(("id", "$ref", "description", "type", "format", "title", "pattern"), _STRING),
    **dict.fromkeys(("x-kubernetes-list-type", "x-kubernetes-map-type"), _STRING),
    "$schema": (frozenset({str}), "v1.JSONSchemaURL"),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), _FLOAT),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "uniqueItems", "nullable"), _BOOL),
    **dict.fromkeys(
        ("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"), _INT
    ),
    **dict.fromkeys(("required", "x-kubernetes-list-map-keys"), (frozenset({list}), "[]string")),
    "enum": (frozenset({list}), "[]v1.JSON"),
    "externalDocs": (frozenset({dict}), "v1.ExternalDocumentation"),
    **dict.fromkeys(("default", "example"), _ANY),
    "x-kubernetes-preserve-unknown-fields": _BOOL,
    "x-kubernetes-embedded-resource": _BOOL,
    "x-kubernetes-int-or-string": _BOOL,
}
_MAPS: Final = {
    "properties": f"map[string]{_SCHEMA}",
    "patternProperties": f"map[string]{_SCHEMA}",
    "definitions": "v1.JSONSchemaDefinitions",
}
_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf"})
_CHOICES: Final = frozenset({"items", "additionalProperties", "additionalItems", "dependencies"})
"""What is a schema or something else: decoded by itself, so that unknown keywords below are nobody's."""
_STRINGS: Final = frozenset({"required", "x-kubernetes-list-map-keys"})
_POINTERS: Final = frozenset(
    {"$ref", "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-preserve-unknown-fields"}
    | {"default", "example"}
)
"""What is kept where it is empty; numbers are, too."""
_RULE: Final[dict[str, tuple[frozenset[type], str]]] = {
    **dict.fromkeys(("rule", "message", "messageExpression", "fieldPath"), _STRING),
    "reason": (frozenset({str}), "v1.FieldValueErrorReason"),
    "optionalOldSelf": _BOOL,
}
_DOCS: Final[dict[str, tuple[frozenset[type], str]]] = {"description": _STRING, "url": _STRING}
_RULES: Final = "x-kubernetes-validations"


class Misfit(Exception):
    """A value of another type than its keyword's: Go's struct and path of the field, and the type that Go has for it.

    Without a type, the text is the whole of what is said.
    """

    def __init__(self, struct: str, field: str, value: Any, wanted: str, text: str = "") -> None:
        super().__init__(text)
        self.struct, self.field, self.value, self.wanted = struct, field, value, wanted


def read_schema(schema: Any, path: str, unknown: list[str], field: str) -> Any:
    """Return a schema as it is stored, itself where nothing is to be changed.

    Args:
        path: where it is, as unknown keywords are told of, which are noted in `unknown`.
        field: the same without indexes and keys, as misfits tell.

    Raises:
        Misfit: a value has another type than its keyword's.
    """
    if type(schema) is not dict:
        raise Misfit("", field, schema, _SCHEMA)
    out: dict[str, Any] = schema
    for key, value in schema.items():
        wanted = _TYPES.get(key)
        new = value
        if value is None:
            new = None
        elif wanted is not None:
            if type(value) not in wanted[0]:
                raise Misfit("JSONSchemaProps", f"{field}.{key}", value, wanted[1])
            if key in _STRINGS:
                _texts(value, f"{field}.{key}")
            elif key == "externalDocs":
                new = _struct(
                    value, _DOCS, "ExternalDocumentation", f"{path}.{key}", f"{field}.{key}", unknown
                )
            if not new and type(new) not in (int, float) and key not in _POINTERS:
                new = None
        elif key in _MAPS:
            new = _map(key, value, path, unknown, field)
        elif key in _LISTS:
            new = _list(value, f"{path}.{key}", unknown, f"{field}.{key}")
        elif key == "not":
            new = _read(value, f"{path}.not", unknown, f"{field}.not")
        elif key in _CHOICES:
            new = _choice(key, value, f"{field}.{key}")
        elif key == _RULES:
            new = _rules(value, f"{path}.{key}", unknown, f"{field}.{key}")
        else:
            unknown.append(f"{path}.{key}")
            new = None
        if new is not value or new is None:
            out = dict(out) if out is schema else out
            if new is None:
                del out[key]
            else:
                out[key] = new
    return out


def _read(value: Any, path: str, unknown: list[str], field: str) -> Any:
    if type(value) is not dict:
        raise Misfit("JSONSchemaProps", field, value, _SCHEMA)
    return read_schema(value, path, unknown, field)


def _texts(values: list[Any], field: str) -> None:
    for value in values:
        if type(value) is not str and value is not None:
            raise Misfit("JSONSchemaProps", field, value, "string")


def _map(key: str, value: Any, path: str, unknown: list[str], field: str) -> Any:
    below = f"{field}.{key}"
    if type(value) is not dict:
        raise Misfit("JSONSchemaProps", below, value, _MAPS[key])
    each = {
        name: {} if one is None else _read(one, f"{path}.{key}.{name}", unknown, below)
        for name, one in value.items()
    }
    return None if not each else value if all(each[name] is value[name] for name in value) else each


def _list(value: Any, path: str, unknown: list[str], field: str) -> Any:
    if type(value) is not list:
        raise Misfit("JSONSchemaProps", field, value, f"[]{_SCHEMA}")
    each = [
        {} if one is None else _read(one, f"{path}[{index}]", unknown, field)
        for index, one in enumerate(value)
    ]
    return None if not each else value if all(a is b for a, b in zip(each, value, strict=True)) else each


def _choice(key: str, value: Any, field: str) -> Any:
    """Return a schema or what else may be in its place. What is wrong below is told as being at `field` itself."""
    nobodys: list[str] = []
    try:
        if key == "dependencies":
            if type(value) is not dict:
                raise Misfit("JSONSchemaProps", field, value, "v1.JSONSchemaDependencies")
            for one in value.values():
                if type(one) is list:
                    _texts(one, field)
            return {
                name: read_schema(one, "", nobodys, "") if type(one) is dict else one
                for name, one in value.items()
            }
        if type(value) is dict:
            return read_schema(value, "", nobodys, "")
        if key == "items":
            return _list(value, "", nobodys, "") if type(value) is list else None
        if type(value) is bool:
            return value
    except Misfit as misfit:
        raise Misfit("JSONSchemaProps", field, misfit.value, misfit.wanted, str(misfit)) from None
    raise Misfit("", field, value, "", "boolean or JSON schema expected")


def _rules(value: Any, path: str, unknown: list[str], field: str) -> Any:
    if type(value) is not list:
        raise Misfit("JSONSchemaProps", field, value, "v1.ValidationRules")
    each = []
    for index, rule in enumerate(value):
        if type(rule) is not dict:
            if rule is not None:
                raise Misfit("JSONSchemaProps", field, rule, "v1.ValidationRule")
            rule = {}
        read = _struct(rule, _RULE, "ValidationRule", f"{path}[{index}]", field, unknown)
        each.append(read if "rule" in read else {"rule": "", **read})
    return None if not each else value if all(a is b for a, b in zip(each, value, strict=True)) else each


def _struct(
    value: dict[str, Any],
    types: dict[str, tuple[frozenset[type], str]],
    struct: str,
    path: str,
    field: str,
    unknown: list[str],
) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, inner in value.items():
        wanted = types.get(key)
        if wanted is None:
            unknown.append(f"{path}.{key}")
        elif inner is not None:
            if type(inner) not in wanted[0]:
                raise Misfit(struct, f"{field}.{key}", inner, wanted[1])
            if inner or key in ("rule", "reason", "optionalOldSelf"):
                out[key] = inner
    return value if out == value else out
