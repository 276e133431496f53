"""RuntimeClasses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts import nodelabels
from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.builtin.parts.pod.resources import resource_causes
from trainshed.kube.builtin.parts.pod.scheduling import toleration_causes
from trainshed.kube.meta import causes, names
from trainshed.kube.meta.equality import repeated
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, section
from trainshed.kube.meta.resources import RUNTIMECLASSES
from trainshed.kube.schema.metadata import labels_causes


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a RuntimeClass. Source: `pkg/apis/node/validation/validation.go` of Kubernetes."""
    handler = obj.get("handler") or ""
    if old is not None and handler != (old.get("handler") or ""):
        yield causes.invalid("handler", handler, "field is immutable")
    for why in names.dns_label(handler):
        yield causes.invalid("handler", handler, why)
    overhead = section(obj, "overhead")
    if overhead.get("podFixed"):
        yield from resource_causes({"limits": overhead["podFixed"]}, "overhead")
    scheduling = section(obj, "scheduling")
    yield from labels_causes(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    tolerations = scheduling.get("tolerations") or []
    yield from toleration_causes(tolerations, "scheduling.tolerations.tolerations")
    for index in sorted(repeated(tolerations)):
        yield causes.duplicate(f"scheduling.tolerations[{index}]", tolerations[index])


def _row(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), obj.get("handler", ""), age(obj, now)]


def _warns(obj: Object, old: Object | None) -> Iterator[str]:
    for label in section(obj, "scheduling", "nodeSelector"):
        if text := nodelabels.deprecation(label):
            yield f"scheduling.nodeSelector: {text}"


KIND = Builtin(
    info=row(
        RUNTIMECLASSES,
        create_on_update=True,
        unconditional_update=False,
    ),
    does="gives pods that name it overhead, node selector and tolerations",
    lacks="its handler is ignored",
    check=_check,
    warns=_warns,
    columns=Columns(define("Name, Handler, Age"), _row),
)
