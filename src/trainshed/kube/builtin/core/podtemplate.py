"""PodTemplates: a template without anyone who makes pods of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import Columns, containers, define, labels
from trainshed.kube.builtin.parts.pod.defaults import pod_spec_defaults, setdefault
from trainshed.kube.builtin.parts.pod.rules import template_causes
from trainshed.kube.builtin.parts.workload import template_warnings
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, metadata_of, name_of, section
from trainshed.kube.meta.resources import core


def _defaults(obj: Object) -> None:
    pod_spec_defaults(setdefault(setdefault(obj, "template", {}), "spec", {}))


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    yield from template_causes(section(obj, "template"), "template")


def _row(obj: Object, now: float) -> list[Any]:
    template = section(obj, "template")
    return [
        name_of(obj),
        *containers(template.get("spec")),
        labels(metadata_of(template).get("labels")),
    ]


KIND = Builtin(
    info=row(core("podtemplates", "PodTemplate"), generation=True),
    does="read by whoever wants it: nothing of Kubernetes acts on it",
    defaults=_defaults,
    check=_check,
    warns=template_warnings("template"),
    columns=Columns(define("Name, Containers, Images, Pod Labels"), _row),
    returns_deleted=True,
)
