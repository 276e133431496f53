"""Kubernetes quantities: `500m`, `2Gi`, `1e3` as exact decimals, and the one spelling that the API answers.

Source: the API reference's Quantity page (resource.Quantity): a number, then a decimal suffix (n u m "" k M G T P E),
a binary suffix (Ki ... Ei) or a decimal exponent; nothing finer than nano, nothing beyond 2^63-1.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, DecimalException

# Digits may be missing altogether: a suffix, a sign or a dot alone is 0.
_TEXT = re.compile(r"(?=.)([+-]?)([0-9]*(?:\.[0-9]*)?)(?:([KMGTPE]i)|([numkMGTPE]?)|[eE]([+-]?[0-9]+))")

_DECIMAL_POWER = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL_POWER.items()}
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BINARY_FACTOR = {suffix: 1024**i for i, suffix in enumerate(_BINARY_SUFFIXES)}

_LARGEST = Decimal(2**63 - 1)
_NANO = Decimal("1e-9")
# Wide enough that a product is never rounded: 19 integer digits, the fraction as written, a binary factor.
_EXACT = Context(prec=400)

_REFUSAL = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def parse(text: str | int | float) -> Decimal:
    """Return the value in base units (cores, bytes, items), rounded away from zero to nano and capped at 2^63-1.

    Raises:
        ValueError: `text` is no quantity.
    """
    return _read(_as_text(text))[0]


def canonical(value: str | int | float) -> str:
    """Return the spelling that the API stores: largest suffix without a fraction, in the family it was written in.

    `"0.5Gi"` → `"512Mi"`, `0.5` → `"500m"`, `"1000m"` → `"1"`, `1500` → `"1500"`.

    Raises:
        ValueError: `value` is no quantity.
    """
    return _canonical(_as_text(value))


def total(parts: Iterable[tuple[str | int | float, int]]) -> str:
    """Return the sum of `amount * count` in the spelling of the API, in the family of the first amount that is not 0.

    Amounts that are no quantities are left out.
    """
    value, family = Decimal(0), "decimal"
    for amount, count in parts:
        try:
            each, written = _read(_as_text(amount))
        except ValueError:
            continue
        family = family if value else written
        value += each * count
    return _spelled(value, family)


def _as_text(value: str | int | float) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(_REFUSAL)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e18:
        return str(int(value))  # 1000.0 was not written with an exponent: answer "1k", not "1e3"
    return format(Decimal(repr(value)), "f") if isinstance(value, float) and abs(value) < 1e18 else str(value)


@functools.lru_cache(maxsize=4096)
def _read(text: str) -> tuple[Decimal, str]:
    """Return the value and the family it is written in: `binary`, `decimal` or `exponent`."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(_REFUSAL)
    sign, number, binary, suffix, exponent = match.groups()
    if len(number) > 200:
        raise ValueError(_REFUSAL)
    try:
        number = number if number.strip(".") else "0"
        value = Decimal(number)
        if binary:
            family, value = "binary", _EXACT.multiply(value, Decimal(_BINARY_FACTOR[binary]))
        elif exponent is not None:
            family, value = "exponent", Decimal(f"{number}e{exponent}")
        else:
            family, value = "decimal", Decimal(f"{number}e{_DECIMAL_POWER[suffix or '']}")
        if value > _LARGEST:
            value = _LARGEST
        elif value.as_tuple().exponent < -9:  # type: ignore[operator]  # finite, so an int
            value = value.quantize(_NANO, rounding=ROUND_CEILING, context=_EXACT)
    except (DecimalException, OverflowError) as error:
        raise ValueError(_REFUSAL) from error
    return (-value if sign == "-" else value), family


@functools.lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    return _spelled(*_read(text))


def _spelled(value: Decimal, family: str) -> str:
    if not value:
        return "0"
    # Small and fractional amounts are exact only with a decimal suffix.
    if family == "binary" and abs(value) >= 1024 and value == value.to_integral_value(rounding=ROUND_FLOOR):
        mantissa, power = int(value), 0
        while mantissa % 1024 == 0 and power < len(_BINARY_SUFFIXES) - 1:
            mantissa, power = mantissa // 1024, power + 1
        return f"{mantissa}{_BINARY_SUFFIXES[power]}"
    mantissa, power = int(_EXACT.scaleb(value, 9)), -9
    while mantissa % 1000 == 0 and power < 18:
        mantissa, power = mantissa // 1000, power + 3
    if family == "exponent":
        return f"{mantissa}e{power}" if power else str(mantissa)
    return f"{mantissa}{_DECIMAL_SUFFIX[power]}"
