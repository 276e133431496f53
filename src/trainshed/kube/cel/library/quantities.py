"""Quantities. Source: the Kubernetes documentation, "CEL in Kubernetes"."""

from __future__ import annotations

from decimal import Decimal
from typing import ClassVar

import msgspec

from trainshed.kube.cel.library.overloads import function, member
from trainshed.kube.cel.values import SMALLEST, EvaluationError
from trainshed.kube.meta.quantity import parse

_POWERS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_LARGEST = 2**63 - 1


class Quantity(msgspec.Struct, frozen=True):
    """An amount."""

    type_name: ClassVar[str] = "kubernetes.Quantity"
    amount: Decimal
    whole: bool
    """Whether Kubernetes holds it as an integer: one with a fraction it does not, even if it comes to one."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.amount == other.amount

    def __hash__(self) -> int:
        return hash(self.amount)


def _read(text: str) -> Quantity:
    if text != text.strip():
        raise ValueError("unable to parse quantity's suffix")
    amount = parse(text)
    integral = amount == amount.to_integral_value() and SMALLEST <= amount < _LARGEST
    return Quantity(amount, integral and _is_scaled(text))


def _is_scaled(text: str) -> bool:
    """Return whether a suffix of thousands takes up all digits after the dot."""
    fraction = text.partition(".")[2]
    digits = len(fraction.rstrip("numkMGTPEi"))
    return digits <= _POWERS.get(fraction[digits:] if fraction else text[-1:], 0)


@function("isQuantity", str)
def _is_quantity(text: str) -> bool:
    try:
        _read(text)
    except ValueError:
        return False
    return True


@function("quantity", str)
def _quantity(text: str) -> Quantity:
    try:
        return _read(text)
    except ValueError as error:
        raise EvaluationError(str(error)) from error


def _compare(one: Quantity, other: Quantity) -> int:
    return (one.amount > other.amount) - (one.amount < other.amount)


@member("asInteger", Quantity)
def _as_integer(held: Quantity) -> int:
    if not held.whole:
        raise EvaluationError("cannot convert value to integer")
    return int(held.amount)


def _sum(one: Quantity, amount: Decimal, whole: bool) -> Quantity:
    total = one.amount + amount
    return Quantity(total, one.whole and whole and SMALLEST <= total <= _LARGEST)


function("sign", Quantity)(lambda held: (held.amount > 0) - (held.amount < 0))
member("isGreaterThan", Quantity, Quantity)(lambda one, other: one.amount > other.amount)
member("isLessThan", Quantity, Quantity)(lambda one, other: one.amount < other.amount)
member("compareTo", Quantity, Quantity)(_compare)
member("asApproximateFloat", Quantity)(lambda held: float(held.amount))
member("isInteger", Quantity)(lambda held: held.whole)
member("add", Quantity, Quantity)(lambda one, other: _sum(one, other.amount, other.whole))
member("add", Quantity, int)(lambda one, other: _sum(one, Decimal(other), whole=True))
member("sub", Quantity, Quantity)(lambda one, other: _sum(one, -other.amount, other.whole))
member("sub", Quantity, int)(lambda one, other: _sum(one, Decimal(-other), whole=True))
