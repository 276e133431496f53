"""PriorityLevelConfigurations: how many requests of a level a server works on at a time, and how many wait."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import STATUS, Builtin, row
from trainshed.kube.builtin.parts import flowcontrol
from trainshed.kube.builtin.parts.columns import NONE, Columns, age, define
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, section, spec_of
from trainshed.kube.meta.resources import PRIORITYLEVELS

_MOST_QUEUES = 10**7
_HASH_BITS = 60
_NOT_NEGATIVE = "must be a non-negative integer"
_PERCENT = 100
_V1BETA3_ZERO = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"


def _defaults(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    for field, shares in (("exempt", 0), ("limited", 30)):
        if isinstance(part := spec.get(field), dict):
            part.setdefault("nominalConcurrencyShares", shares)
            part.setdefault("lendablePercent", 0)
    if isinstance(queuing := section(spec, "limited", "limitResponse").get("queuing"), dict):
        for field, number in (("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)):
            setdefault(queuing, field, number)
    obj.setdefault("status", {})


def _check(obj: Object) -> Iterator[Cause]:
    """Yield what is wrong with a level: only `exempt` is without limits, and stays so.

    Source of rules and texts: `pkg/apis/flowcontrol/validation/validation.go` of Kubernetes.
    """
    name, spec = name_of(obj), spec_of(obj)
    if _V1BETA3_ZERO in section(obj, "metadata", "annotations"):
        yield causes.forbidden("metadata.annotations", f"annotation '{_V1BETA3_ZERO}' is forbidden")
    kind, exempt, limited = spec.get("type") or "", spec.get("exempt"), spec.get("limited")
    if (name == flowcontrol.EXEMPT) != (kind == "Exempt"):
        yield causes.invalid("spec.type", kind, "type must be 'Exempt' if and only if name is 'exempt'")
    if kind == "Exempt":
        if limited is not None:
            yield causes.forbidden("spec.limited", "must be nil if the type is not Limited")
        yield from _shares(exempt or {}, "spec.exempt")
        yield from _lent(exempt or {}, "spec.exempt")
    elif kind == "Limited":
        if exempt is not None:
            yield causes.forbidden("spec.exempt", "must be nil if the type is Limited")
        if limited is None:
            yield causes.required("spec.limited", "must not be empty when type is Limited")
        else:
            yield from _limited(limited)
    else:
        yield causes.unsupported("spec.type", kind, ("Exempt", "Limited"))
    if name == flowcontrol.EXEMPT:
        if {**spec, "exempt": None} != {"type": "Exempt", "exempt": None}:
            text = f"spec of '{name}' except the 'spec.exempt' field must equal the fixed value"
            yield causes.invalid("spec", spec, text)
    else:
        yield from flowcontrol.changed_spec(name, spec, flowcontrol.PRIORITY_LEVELS)


def _shares(part: Object, path: str) -> Iterator[Cause]:
    shares = part.get("nominalConcurrencyShares") or 0
    if shares < 0:
        yield causes.invalid(f"{path}.nominalConcurrencyShares", shares, _NOT_NEGATIVE)


def _lent(part: Object, path: str) -> Iterator[Cause]:
    percent = part.get("lendablePercent") or 0
    if not 0 <= percent <= _PERCENT:
        yield causes.invalid(f"{path}.lendablePercent", percent, "must be between 0 and 100, inclusive")


def _limited(limited: Object) -> Iterator[Cause]:
    yield from _shares(limited, "spec.limited")
    response = section(limited, "limitResponse")
    kind, queuing = response.get("type") or "", response.get("queuing")
    at = "spec.limited.limitResponse"
    if kind == "Reject":
        if queuing is not None:
            yield causes.forbidden(
                f"{at}.queuing", "must be nil if limited.limitResponse.type is not Limited"
            )
    elif kind == "Queue":
        if queuing is None:
            text = "must not be empty if limited.limitResponse.type is Limited"
            yield causes.required(f"{at}.queuing", text)
        else:
            yield from _queuing(queuing, f"{at}.queuing")
    else:
        yield causes.unsupported(f"{at}.type", kind, ("Queue", "Reject"))
    yield from _lent(limited, "spec.limited")
    borrowed = limited.get("borrowingLimitPercent") or 0
    if borrowed < 0:
        text = f"if specified, {_NOT_NEGATIVE}"
        yield causes.invalid("spec.limited.borrowingLimitPercent", borrowed, text)


def _queuing(queuing: Object, at: str) -> Iterator[Cause]:
    limit, queues, hand = (int(queuing.get(key) or 0) for key in ("queueLengthLimit", "queues", "handSize"))
    if limit <= 0:
        yield causes.invalid(f"{at}.queueLengthLimit", limit, "must be positive")
    if queues <= 0:
        yield causes.invalid(f"{at}.queues", queues, "must be positive")
    elif queues > _MOST_QUEUES:
        yield causes.invalid(f"{at}.queues", queues, f"must not be greater than {_MOST_QUEUES}")
    if hand <= 0:
        yield causes.invalid(f"{at}.handSize", hand, "must be positive")
    elif hand > queues:
        yield causes.invalid(f"{at}.handSize", hand, f"should not be greater than queues ({queues})")
    elif _entropy_bits(queues, hand) > _HASH_BITS:
        text = (
            f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than"
            f" {_HASH_BITS}"
        )
        yield causes.invalid(f"{at}.handSize", hand, text)


def _entropy_bits(queues: int, hand: int) -> int:
    """Return the bits that it takes to deal a hand of so many of these queues."""
    return math.ceil(math.log2(queues) * hand)


def _row(obj: Object, now: float) -> list[Any]:
    spec = spec_of(obj)
    limited = spec.get("limited")
    shares = NONE if limited is None else limited.get("nominalConcurrencyShares", 0)
    queuing = section(limited or {}, "limitResponse").get("queuing")
    shown = [NONE] * 3
    if queuing is not None:
        shown = [queuing.get(key, 0) for key in ("queues", "handSize", "queueLengthLimit")]
    return [name_of(obj), spec.get("type", ""), shares, *shown, age(obj, now)]


KIND = Builtin(
    info=row(PRIORITYLEVELS, subresources=STATUS, generation=True),
    inert=True,
    defaults=_defaults,
    check=flowcontrol.but_for_status(_check),
    columns=Columns(
        define("Name, Type, NominalConcurrencyShares, Queues, HandSize, QueueLengthLimit, Age"), _row
    ),
)
