"""What a pod asks of a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from trainshed.kube.meta import quantity
from trainshed.kube.meta.objects import Object, section, spec_of, status_of

Resources = dict[str, Decimal]
"""Resource name to amount in base units (cores, bytes, devices)."""


def pod_requests(pod: Object) -> Resources:
    """Return what the pod needs at its peak.

    Regular and sidecar containers run together and add up; ordinary init containers run one at a time
    before them, so only their largest counts (Kubernetes docs, "Resource sharing within containers").
    """
    spec = spec_of(pod)
    running: Resources = {}
    peak_of_init: Resources = {}
    for container in spec.get("initContainers") or ():
        needs = container_requests(container)
        if container.get("restartPolicy") == "Always":
            add(running, needs)
            raise_to(peak_of_init, running)
        else:
            together = dict(running)
            add(together, needs)
            raise_to(peak_of_init, together)
    for container in spec.get("containers") or ():
        add(running, container_requests(container))
    raise_to(running, peak_of_init)
    add(running, parse_all(section(spec, "overhead")))
    running["pods"] = Decimal(1)
    return running


def container_requests(container: Mapping[str, Any]) -> Resources:
    """Return the container's requests; a limit without a request stands for it."""
    resources = section(container, "resources")
    return parse_all({**section(resources, "limits"), **section(resources, "requests")})


def parse_all(amounts: Mapping[str, Any]) -> Resources:
    """Return the amounts as numbers."""
    return {name: quantity.parse(value) for name, value in amounts.items()}


def add(total: Resources, more: Mapping[str, Decimal]) -> None:
    """Add `more` to `total` in place."""
    for name, amount in more.items():
        total[name] = total.get(name, Decimal(0)) + amount


def raise_to(total: Resources, floor: Mapping[str, Decimal]) -> None:
    """Raise each amount of `total`, in place, to at least that of `floor`."""
    for name, amount in floor.items():
        total[name] = max(total.get(name, Decimal(0)), amount)


def used_by(pods: Iterable[Object]) -> Resources:
    """Return what the pods hold together; finished pods hold nothing."""
    total: Resources = {}
    for pod in pods:
        if status_of(pod).get("phase") not in ("Succeeded", "Failed"):
            add(total, pod_requests(pod))
    return total
