"""`pods/resize`: other amounts of CPU and memory for the containers of a pod that exists.

Source of rules and texts: `ValidatePodResize` in `pkg/apis/core/validation/validation.go`, and `podResizeStrategy` in
`pkg/registry/core/pod/strategy.go`, of Kubernetes 1.33.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainshed.kube.builtin.parts.pod.qos import qos_class
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, section, spec_of, status_of
from trainshed.kube.meta.pods import is_sidecar
from trainshed.kube.meta.quantity import parse

_LISTS = ("containers", "initContainers")
_FIELDS = ("resources", "resizePolicy")
_RESIZED = ("cpu", "memory")
_STATIC = "kubernetes.io/config.mirror"
_ONLY = "only cpu and memory resources are mutable"


def resized(old: Object, new: Object) -> Object:
    """Return `old` with what a resize may change of `new`; its containers as sent where they are others."""
    before, after = spec_of(old), spec_of(new)
    if any(len(before.get(field) or ()) != len(after.get(field) or ()) for field in _LISTS):
        return new
    spec = dict(before)
    for field in _LISTS:
        if field in before:
            spec[field] = _merged(before[field], after[field])
    return {**new, "spec": spec}


def _merged(old: Sequence[Object], new: Sequence[Object]) -> list[Object]:
    if any(one.get("name") != other.get("name") for one, other in zip(old, new, strict=True)):
        return list(new)
    return [
        {
            **{key: value for key, value in one.items() if key not in _FIELDS},
            **{key: other[key] for key in _FIELDS if key in other},
        }
        for one, other in zip(old, new, strict=True)
    ]


def resize_causes(pod: Object, old: Object) -> Iterator[Cause]:
    """Yield what a resize may not do."""
    spec, before = spec_of(pod), spec_of(old)
    refusal = _never(spec, before, old)
    if refusal:
        yield causes.forbidden("<nil>", refusal)
        return
    held = status_of(old).get("qosClass") or qos_class(before)
    if held != qos_class(spec):
        yield causes.invalid("spec", held, "Pod QOS Class may not change as a result of resizing")
    if not _is_supported(old):
        yield causes.forbidden("spec", "Pod running on node without support for resize")
    others = list(_others(spec, before))
    yield from others
    if not others:
        yield from _changes(spec, before)


def _never(spec: Object, before: Object, old: Object) -> str:
    """Return why pods like this one are never resized; empty where they may be."""
    if any(
        section(each, "resources").get(kind) for each in (spec, before) for kind in ("requests", "limits")
    ):
        return "pods with pod-level resources cannot be resized"
    if _STATIC in section(old, "metadata", "annotations"):
        return "static pods cannot be resized"
    return "windows pods cannot be resized" if section(before, "os").get("name") == "windows" else ""


def _is_supported(old: Object) -> bool:
    """Return whether the node says of a running container what it was given, as nodes do that resize."""
    for status in status_of(old).get("containerStatuses") or ():
        if section(status, "state").get("running") is not None:
            return status.get("resources") is not None
    return True


def _others(spec: Object, before: Object) -> Iterator[Cause]:
    for field in _LISTS:
        new, old = spec.get(field) or [], before.get(field) or []
        if len(new) != len(old):
            yield causes.forbidden(f"spec.{field}", f"{field} may not be added or removed on resize")
            continue
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            if one.get("name") != other.get("name"):
                text = f"{field} may not be renamed or reordered on resize"
                yield causes.forbidden(f"spec.{field}[{index}].name", text)


def _changes(spec: Object, before: Object) -> Iterator[Cause]:
    found = False
    for field in reversed(_LISTS):
        pairs = list(zip(before.get(field) or (), spec.get(field) or (), strict=True))
        for index, (old, new) in enumerate(pairs):
            if field == "containers" or is_sidecar(old):
                for cause in _amounts(old, new, f"spec.{field}[{index}].resources"):
                    found = True
                    yield cause
    for field in _LISTS:
        for old, new in zip(before.get(field) or (), spec.get(field) or (), strict=True):
            if field == "containers" or is_sidecar(old):
                which = "" if field == "containers" else " for sidecar containers"
                same = _without(new, old) == _without(old, old)
                text = f"only cpu and memory resources{which} are mutable"
            else:
                same, text = new == old, "resources for non-sidecar init containers are immutable"
            if not same:
                found = True
                yield causes.forbidden("spec", text)
    if not found and {**spec, **dict.fromkeys(_LISTS)} != {**before, **dict.fromkeys(_LISTS)}:
        yield causes.forbidden("spec", _ONLY)


def _amounts(old: Object, new: Object, at: str) -> Iterator[Cause]:
    """Yield what is wrong with the new amounts of one container."""
    for kind in ("requests", "limits"):
        if section(old, "resources", kind).keys() - section(new, "resources", kind).keys():
            yield causes.forbidden(f"{at}.{kind}", f"resource {kind} cannot be removed")
    policies = {each.get("resourceName"): each.get("restartPolicy") for each in new.get("resizePolicy") or ()}
    if policies.get("memory") not in (None, "", "NotRequired"):
        return
    more, held = (section(each, "resources", "limits").get("memory") for each in (new, old))
    if more is not None and (held is None or parse(more) < parse(held)):
        how = "added" if held is None else "decreased"
        text = f"memory limits cannot be {how} unless resizePolicy is RestartContainer"
        yield causes.forbidden(f"{at}.limits[memory]", text)


def _without(container: Object, old: Object) -> Object:
    """Return a container with the CPU and memory of `old`, without a kind of amounts that `old` does not have."""
    resources: Object = {}
    for kind in ("requests", "limits"):
        if held := section(old, "resources", kind):
            sent = section(container, "resources", kind)
            kept = {name: amount for name, amount in sent.items() if name not in _RESIZED}
            resources[kind] = kept | {name: held[name] for name in _RESIZED if name in held}
    return {**{key: value for key, value in container.items() if key != "resources"}, "resources": resources}
