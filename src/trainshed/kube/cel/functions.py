"""The functions of CEL and of Kubernetes' libraries: what they take, what they return, what they cost at most.

Source: the language definition of CEL; `cel-go/checker/cost.go` and `apiserver/pkg/cel/library` for both.
"""

from __future__ import annotations

from trainshed.kube.cel.types import DYN, UNBOUNDED, Type

BOOL, INT, UINT, DOUBLE, TYPE = (Type(kind, 1) for kind in ("bool", "int", "uint", "double", "type"))
_UNSIZED = Type("string", UNBOUNDED)
# fmt: off
TYPE_NAMES = frozenset({
    "bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type", "timestamp",
    "duration", "optional_type", "dyn",
})
# fmt: on
NUMBERS = ("int", "uint", "double")
ARITHMETIC = {"_+_", "_-_", "_*_", "_/_", "_%_"}
COMPARISONS = {"_<_", "_<=_", "_>_", "_>=_"}

# Steps of a macro's loop, besides what the predicate costs: its condition, what it adds, and its result.
MACROS: dict[str, tuple[int, int]] = {
    "all": (3, 1),
    "exists": (4, 1),
    "exists_one": (2, 2),
    "existsOne": (2, 2),
    "map": (12, 11),
    "filter": (13, 11),
    "transformList": (12, 11),
    "transformMap": (2, 31),
    "transformMapEntry": (32, 31),
}
PREDICATES = ("all", "exists", "exists_one", "existsOne", "filter")


def optional_of(elem: Type) -> Type:
    """Return the type of a value that may not be there."""
    return Type("optional", elem.size, elem)


def list_of(elem: Type, size: int = UNBOUNDED) -> Type:
    """Return the type of a list."""
    return Type("list", size, elem)


# Members of a value: the kinds that have them, and what they return (None: the element of the receiver).
_TEXTS = list_of(_UNSIZED)
_RESOURCE_CHECK = Type("resourcecheck", 1)
AUTHORIZER = Type("authorizer", 1, fields={"requestResource": _RESOURCE_CHECK})
MEMBERS: dict[str, tuple[tuple[str, ...], Type | None]] = {
    **dict.fromkeys(("contains", "startsWith", "endsWith", "matches"), (("string",), BOOL)),
    "size": (("string", "bytes", "list", "map"), INT),
    **dict.fromkeys(
        ("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
        (("timestamp",), INT),
    ),
    **dict.fromkeys(
        ("getHours", "getMinutes", "getSeconds", "getMilliseconds"), (("timestamp", "duration"), INT)
    ),
    **dict.fromkeys(
        ("lowerAscii", "upperAscii", "trim", "substring", "replace", "charAt", "format", "find"),
        (("string",), _UNSIZED),
    ),
    **dict.fromkeys(("split", "findAll"), (("string",), _TEXTS)),
    "join": (("list",), _UNSIZED),
    **dict.fromkeys(("indexOf", "lastIndexOf"), (("string", "list"), INT)),
    "isSorted": (("list",), BOOL),
    **dict.fromkeys(("sum", "min", "max"), (("list",), None)),
    **dict.fromkeys(
        ("getScheme", "getHost", "getHostname", "getPort", "getEscapedPath"), (("url",), _UNSIZED)
    ),
    "getQuery": (("url",), Type("map", UNBOUNDED, _TEXTS)),
    **dict.fromkeys(("isGreaterThan", "isLessThan"), (("quantity",), BOOL)),
    "compareTo": (("quantity",), INT),
    "asApproximateFloat": (("quantity",), DOUBLE),
    "asInteger": (("quantity",), INT),
    "isInteger": (("quantity",), BOOL),
    **dict.fromkeys(("add", "sub"), (("quantity",), Type("quantity", 1))),
    "family": (("ip",), INT),
    **dict.fromkeys(
        ("isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast"),
        (("ip",), BOOL),
    ),
    **dict.fromkeys(("containsIP", "containsCIDR"), (("cidr",), BOOL)),
    "ip": (("cidr",), Type("ip", 1)),
    "masked": (("cidr",), Type("cidr", 1)),
    "prefixLength": (("cidr",), INT),
    "validate": (("format",), optional_of(_TEXTS)),
    "hasValue": (("optional",), BOOL),
    **dict.fromkeys(("value", "orValue"), (("optional",), None)),
    "or": (("optional",), DYN),
    "path": (("authorizer",), Type("pathcheck", 1)),
    "serviceAccount": (("authorizer",), AUTHORIZER),
    "group": (("authorizer",), Type("groupcheck", 1)),
    "resource": (("groupcheck",), _RESOURCE_CHECK),
    **dict.fromkeys(
        ("subresource", "namespace", "name", "fieldSelector", "labelSelector"),
        (("resourcecheck",), _RESOURCE_CHECK),
    ),
    "check": (("pathcheck", "resourcecheck"), Type("decision", 1)),
    **dict.fromkeys(("allowed", "errored"), (("decision",), BOOL)),
    **dict.fromkeys(("reason", "error"), (("decision",), _UNSIZED)),
}
# fmt: off
_FORMATS = (
    "dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix",
    "dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date", "datetime",
)
# fmt: on
GLOBALS: dict[str, Type] = {
    "size": INT,
    "int": INT,
    "uint": UINT,
    "double": DOUBLE,
    "bool": BOOL,
    "string": _UNSIZED,
    "bytes": Type("bytes", UNBOUNDED),
    "type": TYPE,
    "duration": Type("duration", 1),
    "timestamp": Type("timestamp", 1),
    "matches": BOOL,
    "url": Type("url", UNBOUNDED),
    "quantity": Type("quantity", 1),
    "ip": Type("ip", 1),
    "cidr": Type("cidr", 1),
    "sign": INT,
    **dict.fromkeys(("isURL", "isQuantity", "isIP", "isCIDR", "ip.isCanonical"), BOOL),
    **dict.fromkeys(("sets.contains", "sets.equivalent", "sets.intersects"), BOOL),
    "strings.quote": _UNSIZED,
    "format.named": optional_of(Type("format", 1)),
    **{f"format.{name}": Type("format", 1) for name in _FORMATS},
    "optional.none": optional_of(DYN),
}
NAMESPACES = ("sets", "strings", "format", "optional", "ip")
TYPE_PACKAGES = ("google", "net", "kubernetes")
_SUMMED = ("int", "uint", "double", "duration", "dyn")
ORDERED = (*NUMBERS, "string", "bytes", "bool", "timestamp", "duration", "dyn")


def plus(*costs: int) -> int:
    """Return the sum of costs or sizes."""
    return min(sum(costs), UNBOUNDED)


def times(one: int, other: int) -> int:
    """Return the product of costs or sizes."""
    return min(one * other, UNBOUNDED)


def tenth(size: int) -> int:
    """Return what it costs to go through a text once."""
    return UNBOUNDED if size >= UNBOUNDED else -(-size // 10)


def quarter(size: int) -> int:
    """Return what a pattern of that length costs for each step through the text."""
    return UNBOUNDED if size >= UNBOUNDED else -(-size // 4)


def member_cost(name: str, held: Type, types: list[Type]) -> int:
    """Return what a member costs besides its receiver and its arguments."""
    first = types[0].size if types else 0
    match name:
        case "startsWith" | "endsWith":
            return tenth(first)
        case "contains":
            return times(tenth(held.size), tenth(first))
        case "matches" | "find" | "findAll":
            return times(tenth(min(held.size + 1, UNBOUNDED)), quarter(first))
        case "lowerAscii" | "upperAscii" | "substring" | "trim" | "format":
            return tenth(held.size)
        case "replace" | "split":
            return UNBOUNDED if held.size >= UNBOUNDED else -(-held.size // 5)
        case "join":
            each = (held.elem or DYN).size
            between = times(first, max(held.size - 1, 0))
            return tenth(plus(times(held.size, each), between))
        case "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf":
            if held.kind != "list":
                return tenth(held.size)
            elem = held.elem or DYN
            each = 1 + (tenth(elem.size) if elem.kind in ("string", "bytes") else 0)
            return times(held.size, each)
        case "validate":
            return times(tenth(first), 32)
        case "containsIP":
            return 4 + (tenth(first) if types and types[0].kind == "string" else 0)
        case "containsCIDR":
            return 7 + (tenth(first) if types and types[0].kind == "string" else 0)
        case "check":
            return 350_000
        case "fieldSelector" | "labelSelector":
            return plus(10, tenth(first), times(first // 2, 50))
    return 1


def has_order(name: str, held: Type) -> bool:
    """Return whether the items of a list can be compared, or added up, where a member does so."""
    kind = held.elem.kind if held.kind == "list" and held.elem is not None else "dyn"
    return (
        kind in _SUMMED if name == "sum" else kind in ORDERED if name in ("min", "max", "isSorted") else True
    )


def replaced(size: int, old: int, new: int) -> int:
    """Return the length of a text in which texts of a length were replaced: lengths are bounds, so old may be empty."""
    if old and new <= old:
        return size
    count = size if old else min(size + 1, UNBOUNDED)
    return plus(times(count, new), 0 if old else size)
