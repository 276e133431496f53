"""Deployments: replicas behind a selector that stays, replaced by rolling updates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import ALL, SCALE, STATUS, Builtin, row
from trainshed.kube.builtin.parts.columns import (
    Columns,
    age,
    containers,
    define,
    label_selector,
    template_spec,
)
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.builtin.parts.workload import (
    fixed_causes,
    ready_of_desired,
    replicated_causes,
    template_defaults,
    template_warnings,
)
from trainshed.kube.meta import causes, golang
from trainshed.kube.meta.causes import non_negative, one_of
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, section, spec_of, status_of
from trainshed.kube.meta.resources import DEPLOYMENTS

_ZERO = 'intstr.IntOrString{Type:0, IntVal:0, StrVal:""}'


def _defaults(obj: Object) -> None:
    """Fill in a Deployment."""
    spec = setdefault(obj, "spec", {})
    spec.setdefault("replicas", 1)
    strategy = setdefault(spec, "strategy", {})
    if setdefault(strategy, "type", "RollingUpdate") == "RollingUpdate":
        rolling = setdefault(strategy, "rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    template_defaults(spec)
    obj.setdefault("status", {})


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a Deployment."""
    if subresource == "status":
        return
    spec = spec_of(obj)
    yield from replicated_causes(spec, "deployment")
    counts = ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    yield from non_negative(spec, "spec", *counts)
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        text = "must be greater than minReadySeconds"
        yield causes.invalid("spec.progressDeadlineSeconds", deadline, text)
    strategy = section(spec, "strategy")
    yield from one_of(strategy, "spec.strategy", "type", ("Recreate", "RollingUpdate"))
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") == "Recreate" and rolling is not None:
        text = "may not be specified when strategy `type` is 'Recreate'"
        yield causes.forbidden("spec.strategy.rollingUpdate", text)
    elif rolling:
        yield from _rolling(rolling, "spec.strategy.rollingUpdate")
    if old is not None:
        yield from fixed_causes(spec, spec_of(old), "selector")


def _rolling(rolling: Object, path: str) -> Iterator[Cause]:
    zero = 0
    for field in ("maxUnavailable", "maxSurge"):
        value = rolling.get(field)
        if value is None:
            continue
        if isinstance(value, str) and not re.fullmatch(r"[0-9]+%", value):
            text = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%',"
            shown = f"intstr.IntOrString{{Type:1, IntVal:0, StrVal:{golang.text(value)}}}"
            yield causes.invalid_shown(
                f"{path}.{field}", shown, f"{text} regex used for validation is '[0-9]+%')"
            )
        elif isinstance(value, int) and value < 0:
            yield causes.invalid(f"{path}.{field}", value, "must be greater than or equal to 0")
        zero += value in (0, "0%")
    if zero == 2:
        text = "may not be 0 when `maxSurge` is 0"
        yield causes.invalid_shown(f"{path}.maxUnavailable", _ZERO, text)


def _row(obj: Object, now: float) -> list[Any]:
    return [
        name_of(obj),
        ready_of_desired(obj),
        status_of(obj).get("updatedReplicas", 0),
        status_of(obj).get("availableReplicas", 0),
        age(obj, now),
        *containers(template_spec(obj)),
        label_selector(spec_of(obj).get("selector")),
    ]


KIND = Builtin(
    info=row(DEPLOYMENTS, "deploy", categories=ALL, subresources={**SCALE, **STATUS}, generation=True),
    does="rolling updates, history and rollback, pause, scale",
    defaults=_defaults,
    check=_check,
    warns=template_warnings("spec", "template"),
    columns=Columns(define("Name, Ready, Up-to-date, Available, Age, Containers*, Images*, Selector*"), _row),
    viewed=("", "scale", "status"),
    edited=("", "rollback", "scale"),
)
