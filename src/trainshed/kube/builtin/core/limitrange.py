"""LimitRanges: a container's maximum is its default, and its default what it requests."""

from __future__ import annotations

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.meta.objects import Object, section, spec_of
from trainshed.kube.meta.resources import core


def _defaults(obj: Object) -> None:
    for limit in spec_of(obj).get("limits") or ():
        if limit.get("type") != "Container":
            continue
        default = limit.setdefault("default", {})
        for name, amount in section(limit, "max").items():
            default.setdefault(name, amount)
        request = limit.setdefault("defaultRequest", {})
        for name, amount in {**section(limit, "min"), **default}.items():
            request.setdefault(name, amount)


KIND = Builtin(
    info=row(core("limitranges", "LimitRange"), "limits", create_on_update=True),
    inert=True,
    defaults=_defaults,
    viewed=("",),
)
