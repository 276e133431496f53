"""The pod's quality-of-service class, from its requests and limits (pkg/apis/core/helper/qos)."""

from __future__ import annotations

from decimal import Decimal

from trainshed.cluster.node.observed import init_containers, main_containers
from trainshed.kube import quantity
from trainshed.kube.resources import Object

COMPUTE = ("cpu", "memory")


def qos_class(pod: Object) -> str:
    """Return Guaranteed, Burstable or BestEffort."""
    guaranteed = True
    any_set = False
    for container in (*init_containers(pod), *main_containers(pod)):
        resources = container.get("resources") or {}
        requests, limits = _compute(resources.get("requests")), _compute(resources.get("limits"))
        any_set = any_set or bool(requests) or bool(limits)
        same = all(requests.get(name, limits.get(name)) == limits.get(name) for name in COMPUTE)
        guaranteed = guaranteed and set(limits) == set(COMPUTE) and same
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _compute(amounts: Object | None) -> dict[str, Decimal]:
    parsed = {name: quantity.parse(value) for name, value in (amounts or {}).items() if name in COMPUTE}
    return {name: value for name, value in parsed.items() if value > 0}
