"""DaemonSets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import ALL, STATUS, Builtin, row
from trainshed.kube.builtin.parts.columns import (
    Columns,
    age,
    containers,
    define,
    label_selector,
    labels,
    template_spec,
)
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.builtin.parts.workload import (
    fixed_causes,
    replicated_causes,
    template_defaults,
    template_warnings,
)
from trainshed.kube.meta.causes import non_negative, one_of
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, metadata_of, name_of, section, spec_of, status_of
from trainshed.kube.meta.resources import DAEMONSETS

_GENERATION = "deprecated.daemonset.template.generation"
"""How often the template has changed; typed as an annotation since apps/v1 has no field for it."""


def _defaults(obj: Object) -> None:
    """Fill in a DaemonSet; typed clients require four counts in its status."""
    annotations = setdefault(setdefault(obj, "metadata", {}), "annotations", {})
    annotations.setdefault(_GENERATION, "0")
    spec = setdefault(obj, "spec", {})
    strategy = setdefault(spec, "updateStrategy", {})
    if setdefault(strategy, "type", "RollingUpdate") == "RollingUpdate":
        rolling = setdefault(strategy, "rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    template_defaults(spec)
    status = obj.setdefault("status", {})
    for count in ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"):
        status.setdefault(count, 0)


def template_generation(daemon_set: Object) -> str:
    """Return the annotation that counts the changes of the template."""
    return str(section(metadata_of(daemon_set), "annotations").get(_GENERATION) or "0")


def numbered(daemon_set: Object, before: Object | None) -> Object:
    """Return a DaemonSet with the count that follows `before`'s; whatever a client says of it is not heard."""
    count = template_generation(before) if before else "0"
    if before is None or section(spec_of(daemon_set), "template") != section(spec_of(before), "template"):
        count = str(int(count) + 1 if count.isdecimal() else 1)
    metadata = metadata_of(daemon_set)
    annotations = {**section(metadata, "annotations"), _GENERATION: count}
    return {**daemon_set, "metadata": {**metadata, "annotations": annotations}}


def _identify(obj: Object) -> Object:
    return numbered(obj, None)


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a DaemonSet."""
    if subresource == "status":
        return
    spec = spec_of(obj)
    yield from replicated_causes(spec, "daemonset")
    yield from non_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit")
    yield from one_of(
        section(spec, "updateStrategy"), "spec.updateStrategy", "type", ("OnDelete", "RollingUpdate")
    )
    if old is not None:
        yield from fixed_causes(spec, spec_of(old), "selector")


def _row(obj: Object, now: float) -> list[Any]:
    counts = status_of(obj)
    return [
        name_of(obj),
        counts.get("desiredNumberScheduled", 0),
        counts.get("currentNumberScheduled", 0),
        counts.get("numberReady", 0),
        counts.get("updatedNumberScheduled", 0),
        counts.get("numberAvailable", 0),
        labels(template_spec(obj).get("nodeSelector")),
        age(obj, now),
        *containers(template_spec(obj)),
        label_selector(spec_of(obj).get("selector")),
    ]


KIND = Builtin(
    info=row(
        DAEMONSETS,
        "ds",
        categories=ALL,
        subresources=STATUS,
        generation=True,
    ),
    does="keeps a pod on each node that it is for; rolling updates, history and rollback",
    defaults=_defaults,
    identify=_identify,
    check=_check,
    warns=template_warnings("spec", "template"),
    columns=Columns(
        define(
            "Name, Desired#, Current#, Ready#, Up-to-date#, Available#, Node Selector, Age, "
            "Containers*, Images*, Selector*"
        ),
        _row,
    ),
    viewed=("", "status"),
    edited=("",),
)
