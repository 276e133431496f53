"""What is wrong with a CEL rule before it runs: types that do not fit, names that are not there, and its cost.

An expression is gone through once, with types and bounds on sizes for values. A cost is that of the worst case within
those bounds, in Kubernetes' units, since its limits decide which rules a CRD may have.

Source: `cel-go/checker/cost.go` and `apiserver/pkg/cel/library/cost.go` for costs, the language definition of CEL and
Kubernetes' libraries for functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, NoReturn

from trainshed.kube.cel.constants import is_unreadable
from trainshed.kube.cel.functions import (
    ARITHMETIC,
    BOOL,
    COMPARISONS,
    GLOBALS,
    INT,
    MACROS,
    MEMBERS,
    NAMESPACES,
    PREDICATES,
    TYPE,
    TYPE_NAMES,
    TYPE_PACKAGES,
    has_order,
    list_of,
    member_cost,
    optional_of,
    plus,
    quarter,
    replaced,
    tenth,
    times,
)
from trainshed.kube.cel.library import FUNCTIONS
from trainshed.kube.cel.library import MEMBERS as MEMBER_FUNCTIONS
from trainshed.kube.cel.library.textformat import format_fault
from trainshed.kube.cel.macros import MACROS as _MACROS
from trainshed.kube.cel.operatortypes import (
    Misread,
    Wrong,
    arithmetic,
    comparison,
    conditional,
    equality_cost,
    indexing,
    joined,
    membership,
    want,
)
from trainshed.kube.cel.signatures import accepts
from trainshed.kube.cel.syntax import (
    Call,
    Expr,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    parse,
)
from trainshed.kube.cel.types import DYN, ERROR, Type, agree


class Checked(NamedTuple):
    """What an expression comes to: its type, what it costs at most, and the variables that it names."""

    type: Type
    cost: int
    names: frozenset[str]


def check(expression: str, variables: Mapping[str, Type]) -> Checked:
    """Return type and cost of an expression. ValueError where it is wrong, in Kubernetes' words.

    Raises SyntaxError when it is no expression, RecursionError when it is nested too deeply to tell.
    """
    try:
        tree = parse(expression)
    except ValueError as error:
        raise SyntaxError(str(error)) from error
    checker = _Checker(variables)
    try:
        found, cost = checker.visit(tree)
        faults = checker.faults or checker.unreadable
    except Misread as misread:
        found, cost, faults = ERROR, 0, [misread]
    if faults:
        told = [
            _placed(expression, fault.at, fault.text) for fault in sorted(faults, key=lambda each: each.at)
        ]
        raise ValueError("\n".join(told))
    return Checked(found, cost, frozenset(checker.names))


def _no_overload(name: str, held: Type, types: list[Type]) -> str:
    shown = ", ".join(map(str, types))
    return f"found no matching overload for '{name}' applied to '{held}.({shown})'"


def _placed(expression: str, at: int, text: str) -> str:
    line = expression.count("\n", 0, at) + 1
    start = expression.rfind("\n", 0, at) + 1
    shown = expression[start:].partition("\n")[0]
    return f"ERROR: <input>:{line}:{at - start + 1}: {text}\n | {shown}\n | {'.' * (at - start)}^"


class _Checker:
    """Goes through one expression; each visit returns the type of a part, and its cost with all below it."""

    def __init__(self, variables: Mapping[str, Type]) -> None:
        self._variables = dict(variables)
        self.names: set[str] = set()
        self.faults: list[Wrong] = []
        self.unreadable: list[Wrong] = []
        """Constants that can never be read, which is told of what has no other faults."""
        self._mixed = False
        """Whether lists and maps may hold what they like, as what is formatted does."""

    def visit(self, expr: Expr) -> tuple[Type, int]:
        try:
            return self._visit(expr)
        except Misread:
            raise
        except Wrong as wrong:
            self.faults.append(wrong)
            return ERROR, 0

    def _visit(self, expr: Expr) -> tuple[Type, int]:
        match expr:
            case Literal(kind=kind, text=text):
                return Type(kind, len(text) if kind in ("string", "bytes") else 1), 0
            case Ident():
                return self._ident(expr)
            case Select():
                return self._select(expr)
            case ListLiteral():
                return self._list_literal(expr)
            case MapLiteral():
                return self._map_literal(expr)
            case Call(target=None):
                return self._global(expr)
            case Call():
                return self._member(expr)

    def _ident(self, expr: Ident) -> tuple[Type, int]:
        found = self._variables.get(expr.name)
        if found is not None:
            self.names.add(expr.name)
            return found, 1
        if expr.name in TYPE_NAMES:
            return TYPE, 1
        self._undeclared(expr.name, expr.at)

    def _undeclared(self, name: str, at: int) -> NoReturn:
        raise Wrong(at, f"undeclared reference to '{name}' (in container '')")

    def _select(self, expr: Select) -> tuple[Type, int]:
        root: Expr = expr
        while isinstance(root, Select):
            root = root.operand
        if isinstance(root, Ident) and root.name in TYPE_PACKAGES and root.name not in self._variables:
            return TYPE, 1
        held, cost = self.visit(expr.operand)
        optional = expr.optional or held.kind == "optional"
        inside = held.elem or DYN if held.kind == "optional" else held
        found = self._field(inside, expr)
        if expr.test:
            return BOOL, cost
        if optional:
            found = found if found.kind == "optional" else optional_of(found)
        return found, plus(cost, int(held.kind in ("map", "object") or optional))

    def _field(self, held: Type, expr: Select) -> Type:
        if held.kind == "dyn":
            return DYN
        if held.kind == "map":
            return held.elem or DYN
        if held.kind == "object" or held.fields is not None:
            found = (held.fields or {}).get(expr.field)
            if found is None:
                raise Wrong(expr.at, f"undefined field '{expr.field}'")
            return found
        raise Wrong(expr.at, f"type '{held}' does not support field selection")

    def _list_literal(self, expr: ListLiteral) -> tuple[Type, int]:
        elem, cost = None, 10
        for item in expr.items:
            found, each = self.visit(item)
            cost = plus(cost, each)
            elem = found if elem is None or self._mixed else joined(elem, found, item)
        return list_of(elem or DYN.sized(0), len(expr.items)), cost

    def _map_literal(self, expr: MapLiteral) -> tuple[Type, int]:
        elem, cost = None, 30
        for key, value in expr.entries:
            cost = plus(cost, self.visit(key)[1])
            found, each = self.visit(value)
            cost = plus(cost, each)
            elem = found if elem is None or self._mixed else joined(elem, found, value)
        return Type("map", len(expr.entries), elem or DYN.sized(0)), cost

    # ------------------------------------------------------------------------------------ operators

    def _global(self, expr: Call) -> tuple[Type, int]:
        name, found = expr.function, [self.visit(argument) for argument in expr.arguments]
        types, cost = [each for each, _ in found], plus(*(each for _, each in found))
        match name:
            case "_&&_" | "_||_" | "!_":
                if name == "!_":
                    want(expr, types, agree(types[0], BOOL))
                odd = [
                    Wrong(part.at, f"expected type 'bool' but found '{each}'")
                    for part, each in zip(expr.arguments, types, strict=True)
                    if not agree(each, BOOL)
                ]
                self.faults += odd
                return (ERROR if odd else BOOL), cost + (name == "!_")
            case "_?_:_":
                return conditional(expr, found)
            case "_==_" | "_!=_":
                want(expr, types, agree(*types))
                return BOOL, plus(cost, equality_cost(*types))
            case "-_":
                want(expr, types, types[0].kind in ("int", "double", "dyn"))
                return types[0].sized(1), cost + 1
            case "@in":
                return membership(expr, types, cost)
            case "_[_]" | "_[?_]":
                return indexing(expr, types, cost)
            case "?_":
                return (types[0].elem or DYN) if types[0].kind == "optional" else types[0], cost
            case "dyn":
                return DYN.sized(types[0].size if types else 0), cost + 1
        if name in COMPARISONS:
            return comparison(expr, types, cost)
        if name in ARITHMETIC:
            return arithmetic(expr, types, cost)
        return self._function(expr, name, types, cost)

    # ------------------------------------------------------------------------------------ functions

    def _function(self, expr: Call, name: str, types: list[Type], cost: int) -> tuple[Type, int]:
        if name == "has":
            raise Misread(
                expr.arguments[0].at if expr.arguments else expr.at, "invalid argument to has() macro"
            )
        optional = name in ("optional.of", "optional.ofNonZeroValue")
        result = optional_of(types[0]) if optional and types else GLOBALS.get(name)
        if result is None:
            named = expr.target.name if isinstance(expr.target, Ident) else name
            self._undeclared(named, expr.target.at if expr.target is not None else expr.at)
        if not accepts(FUNCTIONS[name], types):
            shown = ", ".join(map(str, types))
            raise Wrong(expr.at, f"found no matching overload for '{name}' applied to '({shown})'")
        self._literals(expr, name)
        size = types[0].size if types else 0
        match name:
            case "isIP" | "ip" | "isCIDR" | "cidr" | "quantity" | "isQuantity" | "semver" | "isSemver":
                return result, plus(cost, tenth(size))
            case "url":
                return result.sized(size), plus(cost, tenth(size))
            case "ip.isCanonical":
                return result, plus(cost, -(-size // 5))
            case "bytes":
                return result.sized(times(size, 4)), plus(cost, tenth(size))
            case "string" if types and types[0].kind == "bytes":
                return result.sized(size), plus(cost, tenth(size))
            case "matches" if len(types) == 2:
                return result, plus(cost, times(tenth(types[0].size + 1), quarter(types[1].size)))
        return result, plus(cost, 1)

    def _literals(self, expr: Call, name: str) -> None:
        """Refuse constants that a function can never read."""
        said = expr.arguments[-1] if expr.arguments else None
        if isinstance(said, Literal) and is_unreadable(name, said):
            self.unreadable.append(Wrong(said.at, f"invalid {name} argument"))

    def _member(self, expr: Call) -> tuple[Type, int]:
        target = expr.target
        assert target is not None
        if isinstance(target, Ident) and target.name in NAMESPACES and target.name not in self._variables:
            return self._namespaced(expr, f"{target.name}.{expr.function}")
        held, cost = self.visit(target)
        if expr.function in MACROS:
            return self._macro(expr, held, cost)
        if expr.function in ("optMap", "optFlatMap") and len(expr.arguments) == 2:
            return self._bound_member(expr, held, cost)
        before, self._mixed = self._mixed, self._mixed or expr.function == "format"
        found = [self.visit(argument) for argument in expr.arguments]
        self._mixed = before
        types, cost = [each for each, _ in found], plus(cost, *(each for _, each in found))
        declared = MEMBERS.get(expr.function)
        if declared is None and expr.function not in FUNCTIONS:
            self._undeclared(expr.function, expr.at)
        if declared is None:
            raise Wrong(expr.at, _no_overload(expr.function, held, types))
        kinds, result = declared
        fits = accepts(MEMBER_FUNCTIONS[expr.function], [held, *types])
        if held.kind not in (*kinds, "dyn") or not fits or not has_order(expr.function, held):
            raise Wrong(expr.at, _no_overload(expr.function, held, types))
        searched = held.kind == "list" and expr.function in ("indexOf", "lastIndexOf")
        if searched and not agree(held.elem or DYN, types[0]):
            raise Wrong(expr.at, _no_overload(expr.function, held, types))
        self._literals(expr, expr.function)
        self._format(expr)
        if result is None:
            result = held.elem or DYN
        return self._sized(expr, held, types, result), plus(cost, member_cost(expr.function, held, types))

    def _format(self, expr: Call) -> None:
        """Refuse a constant format that what it is given does not fit."""
        if expr.function != "format" or not isinstance(expr.target, Literal):
            return
        if len(expr.arguments) == 1 and isinstance(expr.arguments[0], ListLiteral):
            self._mixed = True
            items = expr.arguments[0].items
            faults = len(self.faults)
            kinds = [self.visit(item)[0].kind for item in items]
            del self.faults[faults:]  # they are told already
            self._mixed = False
            fault, of = format_fault(expr.target.text, kinds)
            if fault:
                self.unreadable.append(Wrong(expr.at if of is None else items[of].at, fault))

    def _namespaced(self, expr: Call, name: str) -> tuple[Type, int]:
        found_all = [self.visit(argument) for argument in expr.arguments]
        cost = plus(*(each for _, each in found_all))
        return self._function(expr, name, [each for each, _ in found_all], cost)

    def _sized(self, expr: Call, held: Type, types: list[Type], result: Type) -> Type:
        match expr.function:
            case "lowerAscii" | "upperAscii" | "trim" | "substring" | "charAt" | "reverse":
                return result.sized(held.size)
            case "split" | "findAll":
                return result.sized(held.size)
            case "replace" if len(types) >= 2:
                known = isinstance(expr.arguments[0], Literal)
                return result.sized(replaced(held.size, types[0].size if known else 0, types[1].size))
            case "find":
                return result.sized(held.size)
            case "join":
                each = (held.elem or DYN).size
                between = times(types[0].size, max(held.size - 1, 0)) if types else 0
                return result.sized(plus(times(held.size, each), between))
        return result

    @contextmanager
    def _bound(self, names: Mapping[str, Type]) -> Iterator[None]:
        before = dict(self._variables)
        self._variables |= names
        try:
            yield
        finally:
            self._variables = before

    def _bound_member(self, expr: Call, held: Type, cost: int) -> tuple[Type, int]:
        name, body = expr.arguments
        if not isinstance(name, Ident):
            raise Misread(name.at, f"{expr.function}() variable name must be a simple identifier")
        with self._bound({name.name: held.elem or DYN}):
            found, inside = self.visit(body)
        optional = found if expr.function == "optFlatMap" else optional_of(found)
        return optional, plus(cost, inside, 20)

    def _macro(self, expr: Call, held: Type, cost: int) -> tuple[Type, int]:
        name, arguments = expr.function, expr.arguments
        if (name, len(arguments)) not in _MACROS:
            self._undeclared(name, expr.at)
        pairs = name.startswith("transform") or (name in PREDICATES and len(arguments) == 3)
        count = 2 if pairs else 1
        if held.kind not in ("list", "map", "dyn"):
            text = f"expression of type '{held}' cannot be range of a comprehension (must be list, map, or dynamic)"
            self.faults.append(Wrong(expr.target.at if expr.target is not None else expr.at, text))
            held = ERROR
        elem = held.elem or (ERROR if held is ERROR else DYN)
        key = Type("string") if held.kind == "map" else INT if held.kind == "list" else DYN
        # What a loop goes through: the keys of a map, the items of a list.
        values = (key, elem) if pairs else (key if held.kind == "map" else elem,)
        names: dict[str, Type] = {}
        for variable, of in zip(arguments[:count], values, strict=True):
            if not isinstance(variable, Ident):
                raise Misread(variable.at, "argument is not an identifier")
            names[variable.name] = of
        with self._bound(names):
            parts = [self.visit(part) for part in arguments[count:]]
        filters = parts[:1] if name in PREDICATES or len(parts) == 2 else []
        for found, _ in filters:
            if not agree(found, BOOL):
                at = arguments[count].at if name in ("all", "exists") else expr.at
                raise Wrong(at, f"expected type 'bool' but found '{found}'")
        each, once = MACROS[name]
        loop = plus(each, *(one for _, one in parts))
        result = parts[-1][0] if parts else DYN
        return self._made(name, held, elem, result), plus(cost, once, times(held.size, loop))

    def _made(self, name: str, held: Type, elem: Type, result: Type) -> Type:
        if name == "filter":
            return list_of(Type("string") if held.kind == "map" else elem, held.size)
        if name in ("map", "transformList"):
            return list_of(result, held.size)
        if name.startswith("transform"):
            return Type("map", held.size, result if name == "transformMap" else DYN)
        return BOOL
