"""CEL expressions as trees: what types and costs are read from, and what programs are made of.

Source: the grammar of the language definition of CEL (github.com/google/cel-spec), and the optional syntax
(`a.?b`, `a[?b]`) that Kubernetes turns on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from trainshed.kube.cel.values import Uint

T = TypeVar("T")


class Literal(msgspec.Struct, frozen=True):
    """A constant: `kind` is the CEL name of its type, `text` what a string says, `value` what it is at run time."""

    kind: str
    at: int
    text: str = ""
    value: Any = None


class Ident(msgspec.Struct, frozen=True):
    """A name."""

    name: str
    at: int


class Select(msgspec.Struct, frozen=True):
    """A field of `operand`; `test` is that of `has(a.b)`, `optional` that of `a.?b`."""

    operand: Expr
    field: str
    at: int
    test: bool = False
    optional: bool = False


class Call(msgspec.Struct, frozen=True):
    """A function, an operator (`_==_`, `_[_]` …) or, with `target`, a member of it; macros are members, too.

    `?_` stands around what a list or map holds only if it is there.
    """

    function: str
    target: Expr | None
    arguments: tuple[Expr, ...]
    at: int


class ListLiteral(msgspec.Struct, frozen=True):
    """`[a, b]`."""

    items: tuple[Expr, ...]
    at: int


class MapLiteral(msgspec.Struct, frozen=True):
    """`{a: b}`."""

    entries: tuple[tuple[Expr, Expr], ...]
    at: int


Expr: TypeAlias = Literal | Ident | Select | Call | ListLiteral | MapLiteral

_TOKEN = re.compile(
    r"""
      (?P<space>  \s+ | //[^\n]* )
    | (?P<text>   (?:[rR][bB]?|[bB][rR]?)?
                  (?: \"\"\".*?\"\"\" | '''.*?''' | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' ) )
    | (?P<number> 0[xX][0-9a-fA-F]+[uU]? | (?:\d+\.\d+|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)? | \d+[uU]? )
    | (?P<name>   [A-Za-z_]\w* | `[^`\n]+` )
    | (?P<sign>   && | \|\| | == | != | <= | >= | [-+*/%<>!?:.,()\[\]{}] )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"""\\(?: ([abfnrtv\\?"'`]) | [xX]([0-9a-fA-F]{2}) | u([0-9a-fA-F]{4}) | U([0-9a-fA-F]{8}) | ([0-3][0-7]{2}) )""",
    re.VERBOSE,
)
_SIGNS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LEVELS = (("||",), ("&&",), ("<", "<=", ">", ">=", "==", "!=", "in"), ("+", "-"), ("*", "/", "%"))


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse(expression: str) -> Expr:
    """Return the tree of an expression; ValueError where it is none, RecursionError where it is too deep."""
    return _Parser(_tokens(expression)).whole()


def _tokens(expression: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        if match is None:
            raise ValueError(f"unexpected character at {at}")
        kind = match.lastgroup or ""
        if kind != "space":
            found.append(_Token("sign" if match[0] == "in" else kind, match[0], at))
        at = match.end()
    found.append(_Token("end", "", at))
    return found


class _Parser:
    """By recursive descent; `at` of an expression is where Kubernetes says that something is wrong with it."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0

    def whole(self) -> Expr:
        found = self._expression()
        self._expect("")
        return found

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._token
        self._next += 1
        return token

    def _is(self, *signs: str) -> bool:
        return self._token.kind in ("sign", "end") and self._token.text in signs

    def _expect(self, sign: str) -> _Token:
        if not self._is(sign):
            raise ValueError(f"unexpected {self._token.text!r} at {self._token.at}")
        return self._take() if sign else self._token

    def _expression(self) -> Expr:
        found = self._binary(0)
        if self._is("?"):
            at = self._take().at
            yes = self._binary(0)
            self._expect(":")
            found = Call("_?_:_", None, (found, yes, self._expression()), at)
        return found

    def _binary(self, level: int) -> Expr:
        if level == len(_LEVELS):
            return self._unary()
        found = self._binary(level + 1)
        while self._is(*_LEVELS[level]):
            sign = self._take()
            name = "@in" if sign.text == "in" else f"_{sign.text}_"
            found = Call(name, None, (found, self._binary(level + 1)), sign.at)
        return found

    def _unary(self) -> Expr:
        if not self._is("!", "-"):
            return self._member()
        sign = self._take()
        inside = self._unary()
        if sign.text == "-" and isinstance(inside, Literal) and inside.kind in ("int", "double"):
            return msgspec.structs.replace(inside, at=sign.at, value=-inside.value)
        return Call("!_" if sign.text == "!" else "-_", None, (inside,), sign.at)

    def _member(self) -> Expr:
        found = self._primary()
        while self._is(".", "["):
            sign = self._take()
            optional = self._is("?") and self._take() is not None
            if sign.text == "[":
                index = self._expression()
                self._expect("]")
                found = Call("_[?_]" if optional else "_[_]", None, (found, index), sign.at)
                continue
            name = self._name()
            if self._is("(") and not optional:
                at = self._take().at
                found = Call(name, found, self._list(")", self._expression), at)
            else:
                found = Select(found, name, sign.at, optional=optional)
        return found

    def _name(self) -> str:
        token = self._take()
        if token.kind != "name":
            raise ValueError(f"unexpected {token.text!r} at {token.at}")
        return token.text.strip("`")

    def _primary(self) -> Expr:
        if self._is("."):
            self._take()
        token = self._take()
        if token.kind == "text":
            return _text(token)
        if token.kind == "number":
            return _number(token)
        if token.kind == "name":
            if token.text in ("true", "false", "null"):
                value = None if token.text == "null" else token.text == "true"
                return Literal("null_type" if value is None else "bool", token.at, value=value)
            if not self._is("("):
                return Ident(token.text, token.at)
            at = self._take().at
            arguments = self._list(")", self._expression)
            if token.text == "has" and len(arguments) == 1 and isinstance(arguments[0], Select):
                return msgspec.structs.replace(arguments[0], test=True, at=at)
            return Call(token.text, None, arguments, at)
        if token.kind == "sign" and token.text == "(":
            inside = self._expression()
            self._expect(")")
            return inside
        if token.kind == "sign" and token.text == "[":
            return ListLiteral(self._list("]", self._element), token.at)
        if token.kind == "sign" and token.text == "{":
            return MapLiteral(self._list("}", self._entry), token.at)
        raise ValueError(f"unexpected {token.text!r} at {token.at}")

    def _element(self) -> Expr:
        if not self._is("?"):
            return self._expression()
        at = self._take().at
        return Call("?_", None, (self._expression(),), at)

    def _entry(self) -> tuple[Expr, Expr]:
        optional = self._is("?")
        at = self._take().at if optional else 0
        key = self._expression()
        self._expect(":")
        value = self._expression()
        return key, Call("?_", None, (value,), at) if optional else value

    def _list(self, end: str, item: Callable[[], T]) -> tuple[T, ...]:
        found: list[T] = []
        while not self._is(end):
            found.append(item())
            if not self._is(","):
                break
            self._take()
        self._expect(end)
        return tuple(found)


def _number(token: _Token) -> Literal:
    text = token.text.lower()
    if text.startswith("0x"):
        kind = "uint" if text[-1] == "u" else "int"
    elif text[-1] == "u":
        kind = "uint"
    else:
        kind = "double" if "." in text or "e" in text else "int"
    if kind == "double":
        return Literal(kind, token.at, value=float(text))
    number = int(text.rstrip("u"), 16 if text.startswith("0x") else 10)
    return Literal(kind, token.at, value=Uint(number) if kind == "uint" else number)


def _text(token: _Token) -> Literal:
    prefix = token.text[: min(token.text.index(quote) for quote in "'\"" if quote in token.text)].lower()
    marks = 3 if token.text[len(prefix) :][:3] in ('"""', "'''") else 1
    said = token.text[len(prefix) + marks : -marks]
    if "b" in prefix:
        value = _bytes(said, raw="r" in prefix)
        return Literal("bytes", token.at, value.decode(errors="replace"), value)
    said = said if "r" in prefix else _ESCAPE.sub(_unescaped, said)
    return Literal("string", token.at, said, said)


def _bytes(said: str, *, raw: bool) -> bytes:
    """Return the bytes of a literal: an escape of two or three digits is one byte, not one character."""
    out, at = bytearray(), 0
    for match in () if raw else _ESCAPE.finditer(said):
        out += said[at : match.start()].encode()
        two, octal = match[2], match[5]
        code = int(two, 16) if two else int(octal, 8) if octal else -1
        out += bytes([code]) if 0 <= code < 256 else _unescaped(match).encode()
        at = match.end()
    return bytes(out + said[at:].encode())


def _unescaped(match: re.Match[str]) -> str:
    sign, *codes, octal = match.groups()
    if sign:
        return _SIGNS.get(sign, sign)
    code = int(octal, 8) if octal else next(int(code, 16) for code in codes if code)
    return chr(code) if code < 0x110000 else match[0]
