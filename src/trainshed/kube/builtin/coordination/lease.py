"""Leases: who holds what, since when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.meta import causes
from trainshed.kube.meta.causes import non_negative
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, spec_of
from trainshed.kube.meta.resources import LEASES


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = spec_of(obj)
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield causes.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    yield from non_negative(spec, "spec", "leaseTransitions")


def _row(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), spec_of(obj).get("holderIdentity") or "", age(obj, now)]


KIND = Builtin(
    info=row(LEASES, create_on_update=True, unconditional_update=False),
    does="leader election; the node's heartbeat",
    check=_check,
    columns=Columns(define("Name, Holder, Age"), _row),
    edited=("",),
)
