"""What is wrong with the schema of a CRD.

In the order of Kubernetes: whether it is structural (`crd_structural`), then its defaults (`crd_defaults`), and if both
are sound the expressions of its rules, beside the keywords of every place.

Source of rules and texts: `apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from trainshed.kube.meta import causes, golang
from trainshed.kube.meta.equality import repeated
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import section
from trainshed.kube.schema.crd_defaults import default_causes
from trainshed.kube.schema.crd_structural import LOGICAL, PRESERVES, cannot_be, structural_causes

if TYPE_CHECKING:
    from trainshed.kube.schema.crd_rules import RuleContext

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_RULES = "x-kubernetes-validations"
_LIST_TYPES, _MAP_TYPES = ("atomic", "map", "set"), ("atomic", "granular")
_UNSUPPORTED = (
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
)
_META = ("metadata", "kind", "apiVersion")
# fmt: off
_AT_ROOT = [
    "description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
    "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "required", "items",
    "properties", "externalDocs", "example", PRESERVES, "x-kubernetes-validations",
]
# fmt: on
"""What may stand at the root where there is a status, whose schema is taken out of it."""
_AT_ROOT_SHOWN = " ".join(
    "XPreserveUnknownFields"
    if key == PRESERVES
    else "XValidations"
    if key == _RULES
    else key[0].upper() + key[1:]
    for key in _AT_ROOT
)


class _Below(NamedTuple):
    """What a place has to know of where it is."""

    root: bool = False
    inside_metadata: bool = False
    no_defaults: str | None = None
    uncorrelated: str = ""
    """The path of the first place above that cannot be told from its old state."""


def schema_causes(schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Yield what is wrong with an `openAPIV3Schema` whose place is `path`."""
    if schema.get("nullable"):
        yield causes.forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    unfit = cannot_be(schema)
    found = [] if unfit else structural_causes(schema, path) or list(default_causes(schema, path, root=True))
    yield from found
    context = None
    if not unfit and not found and _has_rules(schema):
        from trainshed.kube.schema.crd_rules import RuleContext  # the language is loaded with the first rule

        context = RuleContext.root()
    wrong, of_rules = _place(schema, path, _Below(root=True), context)
    yield from wrong
    yield from of_rules
    if unfit and not wrong and not schema.get("nullable"):
        yield causes.invalid(path, "", unfit)
    if context is not None:
        yield from context.costs.causes(path)


def root_causes(schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Yield what may not stand at the root of a schema of a version that has a status."""
    kind = schema.get("type")
    if kind and kind != "object":
        text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        yield causes.invalid(f"{path}.type", kind, text)
        return
    if any(key not in _AT_ROOT for key, value in schema.items() if not is_empty(value)):
        text = (
            f"only [{_AT_ROOT_SHOWN}] fields are allowed at the root of the schema "
            "if the status subresource is enabled"
        )
        yield causes.invalid_shown(path, "apiextensions.JSONSchemaProps{}", text)


def is_empty(value: Any) -> bool:
    """Return whether a keyword says nothing: numbers are pointers in Go, so 0 is something."""
    return value is None or value is False or value in ("", [], {})


def _has_rules(schema: Mapping[str, Any]) -> bool:
    """Return whether there are rules where a structural schema may have some."""
    inner = [*section(schema, "properties").values(), schema.get("additionalProperties"), schema.get("items")]
    return bool(schema.get(_RULES)) or any(_has_rules(part) for part in inner if isinstance(part, Mapping))


def _place(
    schema: Mapping[str, Any], path: str, below: _Below, context: RuleContext | None
) -> tuple[list[Cause], list[Cause]]:
    """Return what is wrong at and below one place: with the schema, and with the expressions of its rules."""
    wrong = list(_own(schema, path, below))
    of_rules: list[Cause] = []
    for child, at, where, its in _children(schema, path, below, context):
        inner, expressions = _place(child, at, where, its)
        wrong += inner
        of_rules += expressions
    wrong += _types(schema, path)
    rules = schema.get(_RULES)
    if rules:
        from trainshed.kube.schema.crd_rules import place_causes, wording_causes

        wrong += wording_causes(schema, path)
        if not wrong and context is not None:
            of_rules += place_causes(schema, path, context, below.uncorrelated)
    return wrong, of_rules


def _own(schema: Mapping[str, Any], path: str, below: _Below) -> Iterator[Cause]:
    kind = schema.get("type")
    if kind and kind not in _TYPES:
        yield causes.unsupported(f"{path}.type", kind, _TYPES)
    if schema.get("default") is not None and below.no_defaults is not None:
        yield causes.forbidden(f"{path}.default", f"must not be set {below.no_defaults}")
    for key in _UNSUPPORTED:
        if schema.get(key) or (key in schema and key in ("$ref", "additionalItems", "dependencies")):
            yield causes.forbidden(f"{path}.{key}", f"{key} is not supported")
    if kind == "null":
        text = "type cannot be set to null, use nullable as an alternative"
        yield causes.forbidden(f"{path}.type", text)
    if schema.get("items") and isinstance(schema["items"], list):
        text = "items must be a schema object and not an array"
        yield causes.forbidden(f"{path}.items", text)
    if below.inside_metadata and schema.get("x-kubernetes-embedded-resource"):
        text = "must not be used inside of resource meta"
        yield causes.forbidden(f"{path}.x-kubernetes-embedded-resource", text)
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield causes.forbidden(f"{path}.uniqueItems", text)
    additional = schema.get("additionalProperties")
    if schema.get("properties") and (additional is False or isinstance(additional, Mapping)):
        text = "additionalProperties and properties are mutual exclusive"
        yield causes.forbidden(f"{path}.additionalProperties", text)


def _children(
    schema: Mapping[str, Any], path: str, below: _Below, context: RuleContext | None
) -> Iterator[tuple[Mapping[str, Any], str, _Below, RuleContext | None]]:
    """Yield the schemas below one, their paths, and what they have to know."""

    def its(child: Mapping[str, Any]) -> RuleContext | None:
        return None if context is None else context.below(schema, child)

    plain = below._replace(root=False)
    additional, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(additional, Mapping):
        reason = "inside additionalProperties applying to object metadata"
        where = plain._replace(no_defaults=reason) if below.inside_metadata else plain
        yield additional, f"{path}.additionalProperties", where, its(additional)
    for name, child in section(schema, "properties").items():
        where = plain
        if schema.get("x-kubernetes-map-type") == "atomic":
            where = where._replace(uncorrelated=where.uncorrelated or path)
        if name in _META and (below.root or schema.get("x-kubernetes-embedded-resource")):
            where = where._replace(inside_metadata=True)
            if below.root:
                where = where._replace(no_defaults=f"in top-level {name}")
        yield child, f"{path}.properties[{name}]", where, its(child)
    if isinstance(schema.get("not"), Mapping):
        yield schema["not"], f"{path}.not", plain, None
    for key in LOGICAL:
        for index, part in enumerate(schema.get(key) or ()):
            yield part, f"{path}.{key}[{index}]", plain, None
    for name, child in section(schema, "definitions").items():
        yield child, f"{path}.definitions[{name}]", plain, None
    where = plain
    if schema.get("x-kubernetes-list-type") != "map":
        where = where._replace(uncorrelated=where.uncorrelated or path)
    if isinstance(items, Mapping):
        yield items, f"{path}.items", where, its(items)
    elif isinstance(items, list):
        for index, child in enumerate(items):
            yield child, f"{path}.items[{index}]", where, None
    for name, child in section(schema, "dependencies").items():
        if isinstance(child, Mapping):
            yield child, f"{path}.dependencies[{name}]", plain, None


def _types(schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Yield what is wrong with the types of maps and lists."""
    kind, map_type, list_type = (
        schema.get(key) for key in ("type", "x-kubernetes-map-type", "x-kubernetes-list-type")
    )
    if schema.get(PRESERVES) is False:
        yield causes.invalid(f"{path}.{PRESERVES}", False, "must be true or undefined")
    if map_type is not None and kind != "object":
        yield _of_type(path, kind, "must be object if x-kubernetes-map-type is specified")
    if map_type is not None and map_type not in _MAP_TYPES:
        yield causes.unsupported(f"{path}.x-kubernetes-map-type", map_type, _MAP_TYPES)
    if list_type is not None and kind != "array":
        yield _of_type(path, kind, "must be array if x-kubernetes-list-type is specified")
    elif list_type == "set":
        yield from _set_items(schema.get("items"), f"{path}.items")
    at, keys = f"{path}.x-kubernetes-list-type", schema.get("x-kubernetes-list-map-keys") or ()
    if list_type is not None and list_type not in _LIST_TYPES:
        yield causes.unsupported(at, list_type, ("atomic", "set", "map"))
    if keys and list_type != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield causes.required(at, text) if list_type is None else causes.invalid(at, list_type, text)
    if list_type == "map":
        yield from _map_list(keys, schema.get("items"), path)
    items = schema.get("items")
    if list_type in ("set", "map") and isinstance(items, Mapping):
        if items.get("nullable"):
            text = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
            yield causes.forbidden(f"{path}.items.nullable", text)
        for key in keys if list_type == "map" else ():
            yield from _map_key(key, items, f"{path}.items.properties[{key}]")


def _of_type(path: str, kind: str | None, text: str) -> Cause:
    return causes.invalid(f"{path}.type", kind, text) if kind else causes.required(f"{path}.type", text)


def _map_list(keys: Sequence[str], items: Any, path: str) -> Iterator[Cause]:
    """Yield why items of a list cannot be told apart by these keys."""
    at = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        yield causes.required(at, "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield causes.required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    elif not isinstance(items, Mapping):
        text = "must only have a single schema if x-kubernetes-list-type is map"
        yield causes.invalid(f"{path}.items", items, text)
    elif items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield causes.invalid(f"{path}.items.type", items.get("type") or "", text)
    else:
        again = repeated(keys)
        for index, key in enumerate(keys):
            found = section(items, "properties").get(key)
            if found is None:
                yield causes.invalid_shown(
                    at, golang.text_list(keys), "entries must all be names of item properties"
                )
            elif found.get("type") in ("array", "object"):
                text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
                yield causes.invalid(f"{path}.items.properties[{key}].type", items.get("type"), text)
            if index in again:
                yield causes.invalid_shown(at, golang.text_list(keys), "must not contain duplicate entries")


def _map_key(key: str, items: Mapping[str, Any], path: str) -> Iterator[Cause]:
    found = section(items, "properties").get(key)
    if found is None:
        return
    if key not in (items.get("required") or ()) and found.get("default") is None:
        text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
        yield causes.required(f"{path}.default", text)
    if found.get("nullable"):
        text = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
        yield causes.forbidden(f"{path}.nullable", text)


def _set_items(items: Any, path: str) -> Iterator[Cause]:
    """Yield where items of a set could be merged: they are compared, and applied, as a whole."""
    if not isinstance(items, Mapping):
        return
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    map_type, list_type = items.get("x-kubernetes-map-type"), items.get("x-kubernetes-list-type")
    if items.get("type") == "object" and map_type != "atomic":
        yield causes.invalid(f"{path}.x-kubernetes-map-type", list_type or "null", text)
    elif items.get("type") == "array" and list_type not in (None, "atomic"):
        yield causes.invalid(f"{path}.x-kubernetes-list-type", list_type, text)
