"""The types of CEL expressions, with bounds on sizes, and those that a structural schema declares.

Source: `apiserver/pkg/cel/common/schemas.go` and `limits.go`: what is exposed to rules, and how large a value can be
in a request of three MiB where the schema sets no bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

MAX_REQUEST_BYTES = 3 * 1024 * 1024
UNBOUNDED = 2**64 - 1
"""The size of what nothing is known about; sums and products end here."""

_TEXT_SIZES = {
    "duration": ("duration", 3, 32),
    "date": ("timestamp", 12, 12),
    "date-time": ("timestamp", 21, 32),
}
"""Format → CEL type, bytes of the shortest and of the longest value."""


_SHOWN = {
    "null_type": "null",
    "quantity": "kubernetes.Quantity",
    "url": "kubernetes.URL",
    "format": "kubernetes.NamedFormat",
    "ip": "net.IP",
    "cidr": "net.CIDR",
    "authorizer": "kubernetes.authorization.Authorizer",
    "pathcheck": "kubernetes.authorization.PathCheck",
    "groupcheck": "kubernetes.authorization.GroupCheck",
    "resourcecheck": "kubernetes.authorization.ResourceCheck",
    "decision": "kubernetes.authorization.Decision",
}


class Type(msgspec.Struct, frozen=True):
    """A type: `size` is how many characters, items or entries a value has at most.

    What has none of these counts as 1, and as 0 where it is declared, which is how Kubernetes counts.
    """

    kind: str
    size: int = 0
    elem: Type | None = None
    """Of lists, maps and optional values."""
    fields: Mapping[str, Type] | None = None
    """Of objects, spelled as in rules."""
    minimum: int = 1
    """Bytes of the shortest JSON value."""
    name: str = ""
    """What messages call it, where that is not its kind."""

    def sized(self, size: int) -> Type:
        """Return the type of values of another size."""
        return msgspec.structs.replace(self, size=size)

    def __str__(self) -> str:
        if self.name:
            return self.name
        match self.kind:
            case "list":
                return f"list({self.elem})"
            case "map":
                return f"map(string, {self.elem})"
            case "optional":
                return f"optional_type({self.elem})"
        return _SHOWN.get(self.kind, self.kind)


DYN = Type("dyn", UNBOUNDED)
ERROR = Type("dyn", UNBOUNDED, name="!error!")
"""The type of what is wrong: it goes with any other, so that nothing is told twice."""
_OWN_TEXT = Type("string", MAX_REQUEST_BYTES - 2, minimum=2)


def agree(one: Type, other: Type) -> bool:
    """Return whether a value of either type can stand for one of the other."""
    if "dyn" in (one.kind, other.kind):
        return True
    if "null_type" in (one.kind, other.kind):
        kind = other.kind if one.kind == "null_type" else one.kind
        return kind not in ("bool", "int", "uint", "double", "string", "bytes", "list", "map", "type")
    if one.kind != other.kind:
        return False
    return one.elem is None or other.elem is None or agree(one.elem, other.elem)


def declared(schema: Mapping[str, Any], *, root: bool = False) -> Type | None:
    """Return the type of a place of a structural schema, None where rules see nothing.

    Args:
        root: the place is that of a whole object, whose kind and names every rule may use.
    """
    get = schema.get
    if get("x-kubernetes-int-or-string"):
        return Type("dyn", _longest(schema))
    match get("type"):
        case "boolean":
            return Type("bool", minimum=4)
        case "integer":
            return Type("int")
        case "number":
            return Type("double")
        case "string":
            return _text(schema)
        case "array":
            return _list(schema)
        case "object":
            return _object(schema, root=root)
    return _object({}, root=True) if root else None


def named(held: Type, name: str) -> Type:
    """Return a declared type whose objects have names, by where they are: `object.parts.@idx`."""
    if held.fields is not None:
        fields = {key: named(each, f"{name}.{key}") for key, each in held.fields.items()}
        return msgspec.structs.replace(held, fields=fields, name=name)
    if held.elem is None:
        return held
    return msgspec.structs.replace(
        held, elem=named(held.elem, f"{name}.{'@idx' if held.kind == 'list' else '@elem'}")
    )


def escape(name: str) -> str:
    """Return a field name as rules spell it: `a-b` is `a__dash__b`, `namespace` is `__namespace__`.

    Source: "Validation rules" of the CustomResourceDefinition documentation.
    """
    if name in _KEYWORDS:
        return f"__{name}__"
    for raw, escaped in _ESCAPES:
        name = name.replace(raw, escaped)
    return name


def spellings(name: str) -> tuple[str, ...]:
    """Return what rules may call a field: its escaped name, and a word that CEL only reserves as it is, too.

    Source: kube-apiserver 1.33, asked with every word.
    """
    escaped = escape(name)
    return (escaped, name) if name in _KEYWORDS and name not in _OF_THE_GRAMMAR else (escaped,)


# fmt: off
_KEYWORDS = frozenset({
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if",
    "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
})
# fmt: on
_OF_THE_GRAMMAR = ("true", "false", "null", "in")
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))


def _longest(schema: Mapping[str, Any]) -> int:
    longest = schema.get("maxLength")
    # Its characters may have four bytes each, which is what requests and costs are counted in.
    return MAX_REQUEST_BYTES - 2 if longest is None else max(longest, 0) * 4


def _text(schema: Mapping[str, Any]) -> Type:
    form = schema.get("format")
    if form in _TEXT_SIZES:
        kind, shortest, longest = _TEXT_SIZES[form]
        return Type(kind, longest, minimum=shortest)
    if form == "byte":
        bound = schema.get("maxLength")
        return Type("bytes", MAX_REQUEST_BYTES - 2 if bound is None else max(bound, 0), minimum=2)
    values = schema.get("enum")
    if values and schema.get("maxLength") is None:
        return Type("string", max(len(str(value)) for value in values), minimum=2)
    return Type("string", _longest(schema), minimum=2)


def _list(schema: Mapping[str, Any]) -> Type | None:
    items = schema.get("items")
    elem = declared(items, root=bool(items.get("x-kubernetes-embedded-resource"))) if items else None
    if elem is None:
        return None
    bound = schema.get("maxItems")
    size = (MAX_REQUEST_BYTES - 2) // (elem.minimum + 1) if bound is None else max(bound, 0)
    return Type("list", size, elem, minimum=2)


def _object(schema: Mapping[str, Any], *, root: bool) -> Type | None:
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        elem = declared(additional, root=bool(additional.get("x-kubernetes-embedded-resource")))
        if elem is None:
            return None
        bound = schema.get("maxProperties")
        size = (MAX_REQUEST_BYTES - 2) // (elem.minimum + 6) if bound is None else max(bound, 0)
        return Type("map", size, elem, minimum=2)
    fields: dict[str, Type] = {}
    required, minimum = schema.get("required") or (), 2
    for name, part in (schema.get("properties") or {}).items():
        found = declared(part, root=bool(part.get("x-kubernetes-embedded-resource")))
        if found is None:
            continue
        fields |= dict.fromkeys(spellings(name), found)
        if name in required and part.get("default") is None:
            minimum += len(name) + found.minimum + 4
    if root:
        own = {"name": _OWN_TEXT, "generateName": _OWN_TEXT}
        fields |= {
            "apiVersion": _OWN_TEXT,
            "kind": _OWN_TEXT,
            "metadata": Type("object", fields=own, minimum=2),
        }
    return Type("object", fields=fields, minimum=minimum)
