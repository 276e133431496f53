"""Conversions between the types of CEL.

Source: the language definition of CEL, "Standard Definitions"; texts of errors are cel-go's.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

from trainshed.kube.cel.library.overloads import ANY, function
from trainshed.kube.cel.values import (
    LARGEST_UNSIGNED,
    Duration,
    EvaluationError,
    Timestamp,
    TypeValue,
    Uint,
    integer,
    type_name,
    unsigned,
)

_SECOND = 1_000_000_000
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan)", re.IGNORECASE
)
_TRUE, _FALSE = {"1", "t", "T", "TRUE", "true", "True"}, {"0", "f", "F", "FALSE", "false", "False"}


def no_conversion(value: Any, kind: str) -> EvaluationError:
    """Return the error of a value that cannot become one of another type."""
    return EvaluationError(f"type conversion error from '{type_name(value)}' to '{kind}'")


function("int", int)(lambda value: value)
function("int", Uint)(lambda value: integer(int(value)))
function("int", Timestamp)(lambda value: value.nanoseconds // _SECOND)
function("int", Duration)(lambda value: value.nanoseconds)
function("uint", Uint)(lambda value: value)
function("uint", int)(lambda value: unsigned(value))
function("double", float)(lambda value: value)
function("double", int)(float)
function("double", Uint)(float)
function("bool", bool)(lambda value: value)
function("bytes", bytes)(lambda value: value)
function("bytes", str)(lambda value: value.encode())
function("string", str)(lambda value: value)
function("string", bool)(lambda value: "true" if value else "false")
function("string", int)(str)
function("string", Uint)(lambda value: str(int(value)))
function("dyn", ANY)(lambda value: value)
function("type", ANY)(lambda value: TypeValue(type_name(value)))


@function("int", str)
def _int(text: str) -> int:
    if not _INTEGER.fullmatch(text) or not -(2**63) <= int(text[:25]) < 2**63:
        raise no_conversion(text, "int")
    return int(text)


@function("int", float)
def _truncated(number: float) -> int:
    if not math.isfinite(number) or not -(2.0**63) < number < 2.0**63:
        raise EvaluationError("integer overflow")
    return int(number)


@function("uint", float)
def _unsigned(number: float) -> Uint:
    if not math.isfinite(number) or not -1 < number < 2.0**64:
        raise EvaluationError("unsigned integer overflow")
    return unsigned(int(number))


@function("uint", str)
def _uint(text: str) -> Uint:
    if not text.isdecimal() or not text.isascii() or int(text[:25]) > LARGEST_UNSIGNED:
        raise no_conversion(text, "uint")
    return Uint(text)


@function("double", str)
def _double(text: str) -> float:
    if not _DOUBLE.fullmatch(text):
        raise no_conversion(text, "double")
    return float(text)


@function("bool", str)
def _bool(text: str) -> bool:
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise no_conversion(text, "bool")


@function("string", bytes)
def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from error


@function("string", float)
def double_text(number: float) -> str:
    """Return the shortest text of a double: with an exponent from a million up and below one ten-thousandth."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    assert isinstance(exponent, int)
    power = len(digits) + exponent - 1
    minus = "-" if sign else ""
    if not number:
        return f"{minus}0"
    if -4 <= power < 6:
        return minus + _plain(shown, power)
    mantissa = shown[0] + (f".{shown[1:]}" if len(shown) > 1 else "")
    return f"{minus}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _plain(digits: str, power: int) -> str:
    if power < 0:
        return f"0.{'0' * (-power - 1)}{digits}"
    whole, fraction = digits[: power + 1].ljust(power + 1, "0"), digits[power + 1 :]
    return f"{whole}.{fraction}" if fraction else whole
