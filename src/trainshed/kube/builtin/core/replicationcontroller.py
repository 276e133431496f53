"""ReplicationControllers, whose selector is a plain map of labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import ALL, SCALE, STATUS, Builtin, row
from trainshed.kube.builtin.parts.columns import Columns, define, labels
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.builtin.parts.pod.rules import template_causes
from trainshed.kube.builtin.parts.workload import COUNTS, counts_row, template_defaults, template_warnings
from trainshed.kube.meta import causes, golang
from trainshed.kube.meta.causes import non_negative
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.fieldselectors import path
from trainshed.kube.meta.objects import Object, section, spec_of
from trainshed.kube.meta.resources import REPLICATIONCONTROLLERS
from trainshed.kube.meta.selectors import LabelSelector


def _defaults(obj: Object) -> None:
    """Fill in a ReplicationController: without a selector it selects its template's labels."""
    spec = setdefault(obj, "spec", {})
    spec.setdefault("replicas", 1)
    template_defaults(spec)
    labels = section(spec, "template", "metadata").get("labels")
    if labels:
        setdefault(spec, "selector", dict(labels))
        setdefault(obj.setdefault("metadata", {}), "labels", dict(labels))
    obj.setdefault("status", {}).setdefault("replicas", 0)


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a ReplicationController, whose selector is a plain map."""
    if subresource == "status":
        return
    spec = spec_of(obj)
    selector, template = section(spec, "selector"), spec.get("template")
    yield from non_negative(spec, "spec", "replicas", "minReadySeconds")
    if not selector:
        yield causes.required("spec.selector")
    if template is None:
        yield causes.required("spec.template")
        return
    labels = section(template, "metadata", "labels")
    if selector and not LabelSelector.from_labels(selector).matches(labels):
        yield causes.invalid_shown(
            "spec.template.metadata.labels",
            golang.strings(labels),
            "`selector` does not match template `labels`",
        )
    yield from template_causes(template, "spec.template")


def _row(obj: Object, now: float) -> list[Any]:
    return [*counts_row(obj, now), labels(spec_of(obj).get("selector"))]


KIND = Builtin(
    info=row(
        REPLICATIONCONTROLLERS,
        "rc",
        categories=ALL,
        subresources={**SCALE, **STATUS},
        generation=True,
    ),
    does="keeps its number of pods",
    defaults=_defaults,
    check=_check,
    warns=template_warnings("spec", "template"),
    columns=Columns(define(COUNTS), _row),
    fields={"status.replicas": path("status", "replicas", absent="0")},
    viewed=("", "scale"),
    edited=("", "scale"),
)
