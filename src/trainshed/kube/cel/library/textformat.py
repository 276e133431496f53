"""`format` of texts: `%s`, `%d`, `%f`, `%e`, `%b`, `%x`, `%X`, `%o`.

Source: `cel-go/ext/README.md`, "Format"; numbers with a fraction are written as Go's printer for English does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from trainshed.kube.cel.library.overloads import FUNCTIONS, member
from trainshed.kube.cel.library.strings import quoted
from trainshed.kube.cel.values import Duration, EvaluationError, Timestamp, TypeValue, Uint, type_name

_CLAUSE = re.compile(r"%(?:(%)|(?:\.(\d+))?(.?))", re.DOTALL)
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_DIGITS = 6
_FAILED = "error during formatting:"
_TEXTS = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"


@member("format", str, list)
def _format(pattern: str, arguments: list[Any]) -> str:
    left = iter(enumerate(arguments))
    count = 0

    def written(match: re.Match[str]) -> str:
        nonlocal count
        if match[1]:
            return "%"
        if not match[3]:
            raise EvaluationError("unexpected end of string")
        if match[3] not in _CLAUSES:
            raise EvaluationError(
                f'could not parse formatting clause: unrecognized formatting clause "{match[3]}"'
            )
        _, argument = next(left, (0, _MISSING))
        if argument is _MISSING:
            raise EvaluationError(f"index {count} out of range")
        count += 1
        return _CLAUSES[match[3]](argument, int(match[2] or _DIGITS))

    return _CLAUSE.sub(written, pattern)


_MISSING = object()


def format_fault(pattern: str, kinds: list[str]) -> tuple[str, int | None]:
    """Return what is wrong with a constant format, given the kinds of its arguments, and of which argument.

    The text is empty where nothing is, and there is no argument where it is of the format itself.
    """
    used = 0
    for match in _CLAUSE.finditer(pattern):
        if match[1]:
            continue
        if not match[3]:
            return "unexpected end of string", None
        if match[3] not in _CLAUSES:
            return f'could not parse formatting clause: unrecognized formatting clause "{match[3]}"', None
        if used >= len(kinds):
            return f"index {used} out of range", None
        clause, shown, taken = _TAKES[match[3].lower()]
        if kinds[used] not in (*taken, "dyn"):
            given = _FULL.get(kinds[used], kinds[used])
            return f"{_FAILED} {clause} clause can only be used on {shown}, was given {given}", used
        used += 1
    if used < len(kinds):
        return f"too many arguments supplied to string.format (expected {used}, got {len(kinds)})", None
    return "", None


def _wrong(clause: str, kinds: str, value: Any) -> EvaluationError:
    return EvaluationError(
        f"{_FAILED} {clause} clause can only be used on {kinds}, was given {type_name(value)}"
    )


def text_of(value: Any) -> str:
    """Return a value as `%s` writes it. Raises EvaluationError where it has no text."""
    if type(value) is str:
        return value
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{', '.join(map(_inner, value))}]"
    if type(value) is dict:
        entries = sorted((_key(key), _inner(item)) for key, item in value.items())
        return "{" + ", ".join(f"{key}:{item}" for key, item in entries) + "}"
    if type(value) is TypeValue:
        return value.name
    if isinstance(value, bool | int | float | bytes | Duration | Timestamp):
        return str(FUNCTIONS["string"].find([value])(value))
    raise _wrong("string", _TEXTS, value)


def _inner(value: Any) -> str:
    if type(value) is str:
        return quoted(value)
    if type(value) is bytes:
        return f"b{quoted(text_of(value))}"
    if type(value) is float and not math.isfinite(value):
        return quoted(text_of(value))
    return text_of(value)


def _key(key: Any) -> str:
    return quoted(key) if type(key) is str else text_of(key)


def _decimal(value: Any, digits: int) -> str:
    if type(value) not in (int, Uint):
        raise _wrong("decimal", "integers", value)
    return str(int(value))


def _number(value: Any, clause: str) -> float:
    if type(value) is str and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if type(value) is not float:
        raise _wrong(clause, "doubles", value)
    return value


def _not_finite(number: float) -> str:
    return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"


def _fixed(value: Any, digits: int) -> str:
    number = _number(value, "fixed-point")
    return f"{number:,.{digits}f}" if math.isfinite(number) else _not_finite(number)


def _scientific(value: Any, digits: int) -> str:
    number = _number(value, "scientific")
    if not math.isfinite(number):
        return _not_finite(number)
    mantissa, _, power = f"{number:.{_DIGITS}e}".partition("e")
    return f"{mantissa}×10{power.lstrip('+').translate(_SUPERSCRIPTS)}".rjust(digits)


def _binary(value: Any, digits: int) -> str:
    if type(value) is bool:
        return str(int(value))
    if type(value) not in (int, Uint):
        raise _wrong("binary", "integers and bools", value)
    return format(int(value), "b")


def _octal(value: Any, digits: int) -> str:
    if type(value) not in (int, Uint):
        raise _wrong("octal", "integers", value)
    return format(int(value), "o")


def _hex(value: Any, digits: int) -> str:
    if isinstance(value, str):
        return value.encode().hex()
    if isinstance(value, bytes):
        return value.hex()
    if type(value) not in (int, Uint):
        raise _wrong("hex", "integers, byte buffers, and strings", value)
    return format(int(value), "x")


_FULL = {"optional": "optional_type"}
_PLAIN = (
    "string",
    "bool",
    "bytes",
    "int",
    "uint",
    "double",
    "map",
    "list",
    "type",
    "duration",
    "timestamp",
    "null_type",
)
_TAKES = {
    "s": ("string", _TEXTS, _PLAIN),
    "d": ("decimal", "integers", ("int", "uint")),
    "f": ("fixed-point", "doubles", ("double", "string")),
    "e": ("scientific", "doubles", ("double", "string")),
    "b": ("binary", "integers and bools", ("int", "uint", "bool")),
    "o": ("octal", "integers", ("int", "uint")),
    "x": ("hex", "integers, byte buffers, and strings", ("int", "uint", "string", "bytes")),
}
"""What a clause is called, and what it can be used on."""
_CLAUSES: dict[str, Callable[[Any, int], str]] = {
    "s": lambda value, digits: text_of(value),
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "o": _octal,
    "x": _hex,
    "X": lambda value, digits: _hex(value, digits).upper(),
}
