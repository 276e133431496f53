"""Compiled OpenAPI schemas: one `SchemaNode` tree drives decoding, patches, server-side apply and explain.

Two sources give the same node type:

- built-in kinds: the OpenAPI definitions of Kubernetes (`definitions`).
- custom kinds: `openAPIV3Schema` of a CustomResourceDefinition.

Memory: a definition stays undecoded JSON until a node of it is first read, a node's children are made when
the node is read, equal scalar nodes are shared, and descriptions of built-in kinds are not kept
(`builtin_definition` gives the raw text to whoever builds documents).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import UNSET

from trainshed.kube.schema.definitions import builtin_definition, definition_name, definitions
from trainshed.kube.schema.zerovalues import NO_ZEROS, Zeros, zeros_of

_INLINE = "-"
"""Name of a node inside a built-in definition that is no definition itself."""

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_APIEXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
OBJECT_META = _META + "ObjectMeta"
JSON_SCHEMA_PROPS = _APIEXTENSIONS + "JSONSchemaProps"

_RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_ARBITRARY = frozenset(
    {
        _RAW,
        _META + "FieldsV1",
        _META + "Patch",
        _APIEXTENSIONS + "JSON",
        # Typed upstream, but nothing below `versions` (an atomic list) is ever patched by key; `keywords` finds
        # misspelt ones.
        JSON_SCHEMA_PROPS,
        _APIEXTENSIONS + "JSONSchemaPropsOrArray",
        _APIEXTENSIONS + "JSONSchemaPropsOrBool",
        _APIEXTENSIONS + "JSONSchemaPropsOrStringArray",
    }
)

# Upstream publishes these defaults beside the list-map keys; the data file leaves every default out.
_KEY_DEFAULTS: dict[tuple[str, str], Any] = {
    ("io.k8s.api.core.v1.ContainerPort", "protocol"): "TCP",
    ("io.k8s.api.core.v1.ServicePort", "protocol"): "TCP",
}


PythonType: TypeAlias = type[Any]


class SchemaNode:
    """One place of a schema. Read its attributes; never write them.

    Attributes that most callers need:
        type: `object`, `array`, `string`, `integer`, `number`, `boolean`, or empty when any value fits.
        properties: known fields of an object; `additional`: schema of a map's values; `items`: of a list's.
        list_type: `atomic`, `set`, `map` or None; `list_map_keys` when it is `map`.
        patch_merge_key, patch_strategy: strategic merge; the strategy is empty, `merge`, `retainKeys`, ...
        map_type: `atomic`, `granular` or None.
        int_or_string, quantity, time: values that JSON types alone do not describe. `time` is `Time`,
            `MicroTime` or empty.
        preserve_unknown: unknown fields stay; `keeps_all` when no known field below needs a look either.
        verbatim: the Python type whose every value fits as it is, or None when values need a look.
        default: `msgspec.UNSET` when there is none; null is none.
        builtin: whether this is part of a built-in definition; `name` is set where it is one by itself.
        zeros: the zero values of a built-in definition, `NO_ZEROS` of anything else.
    """

    __slots__ = (
        "_rules",
        "_source",
        "_with_defaults",
        "additional",
        "all_of",
        "any_of",
        "builtin",
        "default",
        "description",
        "embedded_resource",
        "enum",
        "exclusive_maximum",
        "exclusive_minimum",
        "format",
        "int_or_string",
        "items",
        "keeps_all",
        "list_map_keys",
        "list_type",
        "map_type",
        "max_items",
        "max_length",
        "max_properties",
        "maximum",
        "min_items",
        "min_length",
        "min_properties",
        "minimum",
        "multiple_of",
        "name",
        "negated",
        "nullable",
        "one_of",
        "patch_merge_key",
        "patch_strategy",
        "pattern",
        "preserve_unknown",
        "properties",
        "quantity",
        "required",
        "time",
        "type",
        "validations",
        "verbatim",
        "zeros",
    )

    type: str
    properties: dict[str, SchemaNode]
    items: SchemaNode | None
    additional: SchemaNode | None
    list_type: str | None
    list_map_keys: tuple[str, ...]
    patch_merge_key: str | None
    patch_strategy: str
    map_type: str | None
    int_or_string: bool
    quantity: bool
    time: str
    preserve_unknown: bool
    keeps_all: bool
    verbatim: PythonType | None
    embedded_resource: bool
    nullable: bool
    name: str
    builtin: bool
    format: str
    description: str
    default: Any
    enum: tuple[Any, ...] | None
    required: tuple[str, ...]
    minimum: float | None
    maximum: float | None
    exclusive_minimum: bool
    exclusive_maximum: bool
    multiple_of: float | None
    min_length: int | None
    max_length: int | None
    pattern: str | None
    min_items: int | None
    max_items: int | None
    min_properties: int | None
    max_properties: int | None
    validations: tuple[dict[str, Any], ...]
    zeros: Zeros
    all_of: tuple[SchemaNode, ...]
    any_of: tuple[SchemaNode, ...]
    one_of: tuple[SchemaNode, ...]
    negated: SchemaNode | None

    _source: Callable[[], tuple[Mapping[str, Any], str]]
    _with_defaults: bool
    _rules: bool

    def __init__(self, source: Callable[[], tuple[Mapping[str, Any], str]]) -> None:
        """`source` returns the raw schema and the built-in definition's name; called once, on first read."""
        self._source = source

    def __getattr__(self, attribute: str) -> Any:
        # Only reached while the slot is empty: fill all of them, then ordinary slot access takes over.
        if attribute.startswith("__") or attribute not in self.__slots__:
            raise AttributeError(attribute)
        if attribute in ("_with_defaults", "_rules"):
            _summarise(self)
        else:
            raw, name = self._source()
            _fill(self, raw, name)
        return object.__getattribute__(self, attribute)

    def __repr__(self) -> str:
        return f"SchemaNode({self.name or self.type or 'any'})"

    @property
    def with_defaults(self) -> bool:
        """Whether a default is declared here or below."""
        return self._with_defaults

    @property
    def with_rules(self) -> bool:
        """Whether a CEL rule is declared here or below."""
        return self._rules

    def child(self, key: str) -> SchemaNode | None:
        """Return the schema of field `key` of an object, or None when the schema does not know it."""
        known = self.properties.get(key)
        if known is not None:
            return known
        if self.additional is not None:
            return self.additional
        return UNTYPED if self.preserve_unknown else None


def _fill(node: SchemaNode, raw: Mapping[str, Any], name: str) -> None:
    get = raw.get
    kinds = get("type") or ""
    node.name = name.removeprefix(_INLINE)
    node.builtin = bool(name)
    node.zeros = zeros_of(node.name) if node.name else NO_ZEROS
    node.quantity = name == "io.k8s.apimachinery.pkg.api.resource.Quantity"
    node.int_or_string = name.endswith(".IntOrString") or bool(get("x-kubernetes-int-or-string"))
    node.time = name.removeprefix(_META) if name in (_META + "Time", _META + "MicroTime") else ""
    # Built-in nullability is Go's: null means absent everywhere, so the `null` of the type list says nothing.
    node.type = kinds if isinstance(kinds, str) else next((k for k in kinds if k != "null"), "")
    node.nullable = bool(get("nullable"))
    node.preserve_unknown = name in _ARBITRARY or bool(get("x-kubernetes-preserve-unknown-fields"))
    node.embedded_resource = bool(get("x-kubernetes-embedded-resource"))
    make = _builtin_node if name else _crd_node
    if name in _ARBITRARY:
        node.type = ""
        node.properties = {}
    else:
        node.properties = {key: make(value, name, key) for key, value in (get("properties") or {}).items()}
    if node.embedded_resource:
        # ObjectMeta replaces what the schema says of metadata, as upstream does: a CRD cannot retype it.
        node.properties.update(_type_and_metadata())
    node.keeps_all = node.preserve_unknown and not node.properties
    items = get("items")
    node.items = make(items, name, "[]") if isinstance(items, Mapping) else None
    additional = get("additionalProperties")
    if isinstance(additional, Mapping):
        node.additional = make(additional, name, "{}") if additional else UNTYPED
    else:
        node.additional = UNTYPED if additional else None
    node.list_type = get("x-kubernetes-list-type")
    node.list_map_keys = tuple(get("x-kubernetes-list-map-keys") or ())
    node.patch_merge_key = get("x-kubernetes-patch-merge-key")
    node.patch_strategy = get("x-kubernetes-patch-strategy") or ""
    node.map_type = "atomic" if name == _RAW else get("x-kubernetes-map-type")
    node.format = get("format") or ""
    if node.type == "boolean":
        node.verbatim = bool
    else:
        checked = node.time or node.format == "byte"
        node.verbatim = str if node.type == "string" and not checked else None
    node.description = "" if name else get("description") or ""
    default = get("default")
    node.default = UNSET if default is None else default  # upstream cannot tell a default of null from none
    enum = get("enum")
    node.enum = tuple(enum) if enum else None
    node.required = tuple(get("required") or ())
    node.minimum, node.maximum = get("minimum"), get("maximum")
    node.exclusive_minimum = bool(get("exclusiveMinimum"))
    node.exclusive_maximum = bool(get("exclusiveMaximum"))
    node.multiple_of = get("multipleOf")
    node.min_length, node.max_length, node.pattern = get("minLength"), get("maxLength"), get("pattern")
    node.min_items, node.max_items = get("minItems"), get("maxItems")
    node.min_properties, node.max_properties = get("minProperties"), get("maxProperties")
    node.validations = tuple(get("x-kubernetes-validations") or ())
    node.all_of = tuple(_crd_node(s, "", "") for s in get("allOf") or ())
    node.any_of = tuple(_crd_node(s, "", "") for s in get("anyOf") or ())
    # The data file spells Quantity and IntOrString as oneOf; the flags above say it better.
    node.one_of = () if name else tuple(_crd_node(s, "", "") for s in get("oneOf") or ())
    negated = get("not")
    node.negated = _crd_node(negated, "", "") if isinstance(negated, Mapping) else None


def _summarise(node: SchemaNode) -> None:
    """Fill the answers to "any default, any rule below?", so walks skip subtrees that hold neither."""
    if node.builtin or node is UNTYPED:  # built-in definitions are recursive and declare neither
        node._with_defaults = node._rules = False
        return
    below = [child for child in (*node.properties.values(), node.items, node.additional) if child is not None]
    node._with_defaults = node.default is not UNSET or any(child._with_defaults for child in below)
    node._rules = bool(node.validations) or any(child._rules for child in below)


def _crd_node(raw: Any, name: str, key: str) -> SchemaNode:
    if raw is True or raw == {}:
        return UNTYPED
    return SchemaNode(lambda: (raw if isinstance(raw, Mapping) else {}, ""))


UNTYPED = SchemaNode(lambda: ({"x-kubernetes-preserve-unknown-fields": True}, ""))
"""Accepts anything and keeps everything."""


def from_schema(schema: Mapping[str, Any]) -> SchemaNode:
    """Return the node of any part of a CRD's schema. `schema` is kept, not copied."""
    return _crd_node(schema, "", "")


def from_crd(schema: Mapping[str, Any]) -> SchemaNode:
    """Return the node of a whole custom resource whose `openAPIV3Schema` is `schema`.

    `apiVersion`, `kind` and `metadata` are typed as for every object, whatever the schema says of them.
    `schema` is kept, not copied: do not change it afterwards.
    """
    return SchemaNode(lambda: ({**schema, "x-kubernetes-embedded-resource": True, "type": "object"}, ""))


# ---------------------------------------------------------------------------------- built-in definitions


@functools.cache
def definition(name: str) -> SchemaNode:
    """Return the shared node of definition `name`, e.g. `OBJECT_META`."""
    if name not in definitions():
        raise KeyError(name)
    return SchemaNode(lambda: (builtin_definition(name), name))


def builtin(gvk: tuple[str, str, str]) -> SchemaNode:
    """Return the schema of a built-in (group, version, kind); `UNTYPED` for kinds that have none.

    Aggregated APIs such as metrics.k8s.io are not among the definitions.
    """
    name = definition_name(gvk)
    return UNTYPED if name is None else definition(name)


_scalars: dict[tuple[Any, ...], SchemaNode] = {}


def _builtin_node(raw: Mapping[str, Any], owner: str, key: str) -> SchemaNode:
    reference = raw.get("$ref")
    default = _KEY_DEFAULTS.get((owner, key), UNSET)
    if reference is not None:
        target = reference.rpartition("/")[2]
        beside = {k: v for k, v in raw.items() if k.startswith("x-kubernetes-")}
        if not beside:
            return definition(target)
        return SchemaNode(lambda: ({**builtin_definition(target), **beside}, target))
    if "items" not in raw and "properties" not in raw and "additionalProperties" not in raw:
        shared = (str(raw.get("type")), raw.get("format"), str(raw.get("enum")), default)
        node = _scalars.get(shared)
        if node is None:
            kept = {k: raw[k] for k in ("type", "format", "enum") if k in raw}
            if default is not UNSET:
                kept["default"] = default
            node = _scalars[shared] = SchemaNode(lambda: (kept, _INLINE))
        return node
    lean = {k: v for k, v in raw.items() if k != "description"}
    return SchemaNode(lambda: (lean, _INLINE))


@functools.cache
def _type_and_metadata() -> dict[str, SchemaNode]:
    text = _builtin_node({"type": "string"}, "", "")
    return {"apiVersion": text, "kind": text, "metadata": definition(OBJECT_META)}
