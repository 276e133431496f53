"""LimitRanges: what a container is given that asks for nothing, and what pods and claims may ask for. Pure.

Source: "Limit Ranges" in the Kubernetes documentation; the LimitRanger admission plug-in for words and annotation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from trainshed.kube.meta.amounts import pod_amounts, spelled
from trainshed.kube.meta.objects import Object, copy_tree, objects, section, spec_of
from trainshed.kube.meta.quantity import parse

ANNOTATION = "kubernetes.io/limit-ranger"
_FIELDS = (("initContainers", "init container"), ("containers", "container"))


def with_defaults(pod: Object, ranges: Iterable[Object]) -> Object:
    """Return a new pod whose containers have what they leave out, and the annotation that says so."""
    given: list[str] = []
    out: Object = copy_tree(pod)
    for limit_range in ranges:
        requests: dict[str, Any] = {}
        limits: dict[str, Any] = {}
        for item in _items(limit_range, "Container"):
            requests.update(section(item, "defaultRequest"))
            limits.update(section(item, "default"))
        said = list(_fill(spec_of(out), requests, limits))
        given = said or given  # as upstream: the annotation tells of the last range that gave something
    if not given:
        return pod
    metadata = out.setdefault("metadata", {})
    metadata["annotations"] = {
        **section(metadata, "annotations"),
        ANNOTATION: f"LimitRanger plugin set: {'; '.join(given)}",
    }
    return out


def _fill(spec: Object, requests: Mapping[str, Any], limits: Mapping[str, Any]) -> Iterator[str]:
    for field, word in reversed(_FIELDS):
        for container in objects(spec, field):
            resources = container.setdefault("resources", {})
            for part, defaults, noun in (("requests", requests, "request"), ("limits", limits, "limit")):
                missing = sorted(defaults.keys() - section(resources, part).keys())
                if missing:
                    added = {name: defaults[name] for name in missing}
                    resources[part] = {**section(resources, part), **added}
                    yield f"{', '.join(missing)} {noun} for {word} {container.get('name', '')}"


def _items(limit_range: Object, kind: str) -> list[Object]:
    return [item for item in objects(spec_of(limit_range), "limits") if item.get("type") == kind]


def pod_refusals(pod: Object, limit_range: Object) -> list[str]:
    """Return what a pod asks for that the range does not allow; empty when it may be."""
    out: list[str] = []
    spec = spec_of(pod)
    for item in objects(spec_of(limit_range), "limits"):
        if item.get("type") == "Container":
            for field in ("containers", "initContainers"):
                for container in objects(spec, field):
                    resources = section(container, "resources")
                    out += _bounds(item, section(resources, "requests"), section(resources, "limits"))
        elif item.get("type") == "Pod":
            requests, limits = pod_amounts(spec, "requests"), pod_amounts(spec, "limits")
            out += _bounds(item, _texts(requests), _texts(limits))
    return out


def _texts(amounts: Mapping[str, Decimal]) -> dict[str, str]:
    return {name: spelled(name, amount) for name, amount in amounts.items()}


def claim_refusals(claim: Object, limit_range: Object) -> list[str]:
    """Return what a claim asks for that the range does not allow."""
    out: list[str] = []
    requests = section(claim, "spec", "resources", "requests")
    for item in _items(limit_range, "PersistentVolumeClaim"):
        for name, bound in sorted(section(item, "min").items()):
            out += _least("PersistentVolumeClaim", name, bound, requests, {})
        for name, bound in sorted(section(item, "max").items()):
            text = f"maximum {name} usage per PersistentVolumeClaim is {bound}"
            if name not in requests:
                out.append(f"{text}.  No request is specified")
            elif parse(requests[name]) > parse(bound):
                out.append(f"{text}, but request is {requests[name]}")
    return out


def _bounds(item: Object, requests: Mapping[str, Any], limits: Mapping[str, Any]) -> Iterator[str]:
    kind = item["type"]
    for name, bound in sorted(section(item, "min").items()):
        yield from _least(kind, name, bound, requests, limits)
    for name, bound in sorted(section(item, "max").items()):
        yield from _most(kind, name, bound, requests, limits)
    for name, bound in sorted(section(item, "maxLimitRequestRatio").items()):
        yield from _ratio(kind, name, bound, requests, limits)


def _least(
    kind: str, name: str, bound: Any, requests: Mapping[str, Any], limits: Mapping[str, Any]
) -> Iterator[str]:
    text = f"minimum {name} usage per {kind} is {bound}"
    if name not in requests:
        yield f"{text}.  No request is specified"
    elif parse(requests[name]) < parse(bound):
        yield f"{text}, but request is {requests[name]}"
    elif name in limits and parse(limits[name]) < parse(bound):
        yield f"{text}, but limit is {limits[name]}"


def _most(
    kind: str, name: str, bound: Any, requests: Mapping[str, Any], limits: Mapping[str, Any]
) -> Iterator[str]:
    text = f"maximum {name} usage per {kind} is {bound}"
    if name not in limits:
        yield f"{text}.  No limit is specified"
    elif parse(limits[name]) > parse(bound):
        yield f"{text}, but limit is {limits[name]}"
    elif name in requests and parse(requests[name]) > parse(bound):
        yield f"{text}, but request is {requests[name]}"


def _ratio(
    kind: str, name: str, bound: Any, requests: Mapping[str, Any], limits: Mapping[str, Any]
) -> Iterator[str]:
    text = f"{name} max limit to request ratio per {kind} is {bound}, but"
    request, limit = parse(requests.get(name, 0)), parse(limits.get(name, 0))
    if not request:
        yield f"{text} no request is specified or request is 0"
    elif not limit:
        yield f"{text} no limit is specified or limit is 0"
    elif limit / request > parse(bound):
        yield f"{text} provided ratio is {float(limit / request):f}"


def aggregated(refusals: Sequence[str]) -> str:
    """Return several reasons as the API server joins them: each once, in brackets unless there is one."""
    unique = list(dict.fromkeys(refusals))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
