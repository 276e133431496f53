"""ReplicaSets: replicas behind a selector that stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import ALL, SCALE, STATUS, Builtin, row
from trainshed.kube.builtin.parts.columns import Columns, define, label_selector
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.builtin.parts.workload import (
    COUNTS,
    counts_row,
    fixed_causes,
    replicated_causes,
    template_defaults,
    template_warnings,
)
from trainshed.kube.meta.causes import non_negative
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, spec_of
from trainshed.kube.meta.resources import REPLICASETS


def _defaults(obj: Object) -> None:
    """Fill in a ReplicaSet; typed clients require the count in its status."""
    spec = setdefault(obj, "spec", {})
    spec.setdefault("replicas", 1)
    template_defaults(spec)
    obj.setdefault("status", {}).setdefault("replicas", 0)


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a ReplicaSet."""
    if subresource == "status":
        return
    spec = spec_of(obj)
    yield from replicated_causes(spec, "replicaset")
    yield from non_negative(spec, "spec", "replicas", "minReadySeconds")
    if old is not None:
        yield from fixed_causes(spec, spec_of(old), "selector")


def _row(obj: Object, now: float) -> list[Any]:
    return [*counts_row(obj, now), label_selector(spec_of(obj).get("selector"))]


KIND = Builtin(
    info=row(REPLICASETS, "rs", categories=ALL, subresources={**SCALE, **STATUS}, generation=True),
    does="keeps its number of pods",
    defaults=_defaults,
    check=_check,
    warns=template_warnings("spec", "template"),
    columns=Columns(define(COUNTS), _row),
    viewed=("", "scale", "status"),
    edited=("", "scale"),
)
