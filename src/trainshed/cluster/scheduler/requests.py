"""What a pod asks of a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from trainshed.kube.meta.amounts import Amounts, add, at_peak, numbers
from trainshed.kube.meta.objects import Object, section, spec_of, status_of


def pod_requests(pod: Object) -> Amounts:
    """Return what the pod needs at its peak, itself as one of `pods`."""
    spec = spec_of(pod)
    needed = at_peak(spec, container_requests)
    add(needed, numbers(section(spec, "overhead")))
    needed["pods"] = Decimal(1)
    return needed


def container_requests(container: Mapping[str, Any]) -> Amounts:
    """Return the container's requests; a limit without a request stands for it."""
    resources = section(container, "resources")
    return numbers({**section(resources, "limits"), **section(resources, "requests")})


def used_by(pods: Iterable[Object]) -> Amounts:
    """Return what the pods hold together; finished pods hold nothing."""
    total: Amounts = {}
    for pod in pods:
        if status_of(pod).get("phase") not in ("Succeeded", "Failed"):
            add(total, pod_requests(pod))
    return total
