"""ServiceCIDRs: the ranges that Services get addresses of; here of the first, `kubernetes`, alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import STATUS, Builtin, row
from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.meta import causes, golang, networks
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, spec_of
from trainshed.kube.meta.resources import SERVICECIDRS

DEFAULT = "kubernetes"
_PATH = "spec.cidrs"
_IMMUTABLE = "field is immutable"
_PAIR = 2


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a ServiceCIDR: a range of each family at most, which stay.

    Source of rules and texts: `pkg/apis/networking/validation/validation.go` of Kubernetes.
    """
    if subresource:
        return
    ranges: list[str] = spec_of(obj).get("cidrs") or []
    if old is None:
        yield from _ranges(ranges)
        return
    before: list[str] = spec_of(old).get("cidrs") or []
    if len(before) == len(ranges):
        for index, (was, text) in enumerate(zip(before, ranges, strict=True)):
            if was != text:
                yield causes.invalid(f"{_PATH}[{index}]", text, _IMMUTABLE)
    elif (len(before), len(ranges)) == (1, _PAIR):
        if ranges[0] != before[0]:
            yield causes.invalid(f"{_PATH}[0]", ranges[0], _IMMUTABLE)
        yield from _ranges(ranges)
    else:
        yield causes.invalid_shown(_PATH, golang.text_list(ranges), _IMMUTABLE)


def _ranges(ranges: list[str]) -> Iterator[Cause]:
    if not ranges:
        yield causes.required(_PATH, "at least one CIDR required")
        return
    if len(ranges) > _PAIR:
        shown = f"networking.ServiceCIDRSpec{{CIDRs:{golang.text_list(ranges)}}}"
        yield causes.invalid_shown(_PATH, shown, "may only hold up to 2 values")
        return
    for index, text in enumerate(ranges):
        for why in networks.cidr(text):
            yield causes.invalid(f"{_PATH}[{index}]", text, why)
    families = [networks.family(text) for text in ranges]
    if len(families) == _PAIR and families[0] == families[1] != 0:
        text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        yield causes.invalid_shown(_PATH, golang.text_list(ranges), text)


def _warns(obj: Object, old: Object | None) -> Iterator[str]:
    if name_of(obj) != DEFAULT:
        yield f"Services of this cluster get addresses of the ServiceCIDR {DEFAULT} alone"


def _row(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), ",".join(spec_of(obj).get("cidrs") or ()), age(obj, now)]


KIND = Builtin(
    info=row(SERVICECIDRS, subresources=STATUS),
    does=f"`{DEFAULT}` says what Services get addresses of",
    lacks=f"Services get addresses of `{DEFAULT}` alone, others are only stored",
    check=_check,
    warns=_warns,
    columns=Columns(define("Name, CIDRs, Age"), _row),
    status_on_create=True,
)
