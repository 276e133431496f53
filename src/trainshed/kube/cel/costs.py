"""What a call costs once its arguments are known.

Source: `cel-go/interpreter/runtimecost.go` and `apiserver/pkg/cel/library/cost.go`.
"""

from __future__ import annotations

from typing import Any

from trainshed.kube.cel.values import size

_ACCESS_CHECK = 350_000
"""So that an expression can ask the authorizer twice."""
_ONCE = {
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim", "isIP", "cidr", "isCIDR"), 10),
    **dict.fromkeys(("startsWith", "endsWith", "bytes", "strings.quote", "format"), 10),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver", "isURL"), 10),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), 5),
}
"""Functions that go through their first argument, and how many characters of it cost one."""
_COMPARED = 7
_SETS = ("sets.contains", "sets.intersects")


def _traversal(value: Any) -> int:
    if isinstance(value, str | bytes):
        return len(value) // 10
    if isinstance(value, list):
        return sum(map(_traversal, value))
    if isinstance(value, dict):
        return sum(_traversal(key) + _traversal(item) for key, item in value.items())
    return 1


def _tenth(number: int) -> int:
    return -(-number // 10)


def call_cost(name: str, arguments: list[Any], result: Any) -> int:
    """Return what a call of a function costs; the receiver is the first of its arguments."""
    per = _ONCE.get(name)
    if per is not None and arguments and isinstance(arguments[0], str | bytes):
        return -(-len(arguments[0]) // per)
    match name:
        case "check":
            return _ACCESS_CHECK
        case "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf":
            return _traversal(arguments[0])
        case "join":
            return -(-size(result) // 5)
        case "matches" | "find" | "findAll":
            return _tenth(1 + size(arguments[0])) * -(-size(arguments[1]) // 4)
        case "contains":
            return _tenth(size(arguments[0])) * _tenth(size(arguments[1]))
        case "string" if isinstance(arguments[0], bytes):
            return _tenth(len(arguments[0]))
        case "ip" if isinstance(arguments[0], str):
            return _tenth(len(arguments[0]))
        case "containsIP" | "containsCIDR":
            return _COMPARED + (_tenth(len(arguments[1])) if isinstance(arguments[1], str) else 0)
        case "validate":
            return _tenth(size(arguments[1])) * 32
        case "fieldSelector" | "labelSelector":
            return 10 + _tenth(size(arguments[1])) + size(arguments[1]) // 2 * 50
    if name in _SETS:
        return size(arguments[0]) * size(arguments[1]) + 1
    if name == "sets.equivalent":
        return 2 * size(arguments[0]) * size(arguments[1]) + 1
    return 1
