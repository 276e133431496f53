"""The quality-of-service class of a pod."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from trainshed.kube.meta.objects import section
from trainshed.kube.meta.quantity import parse


def qos_class(spec: Mapping[str, Any]) -> str:
    """Return `Guaranteed`, `Burstable` or `BestEffort` from the CPU and memory of all containers."""
    guaranteed, anything = True, False
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or ():
            resources = section(container, "resources")
            limits, requests = section(resources, "limits"), section(resources, "requests")
            for name in ("cpu", "memory"):
                limit, request = limits.get(name), requests.get(name, limits.get(name))
                bound, floor = _amount(limit), _amount(request)
                anything = anything or bound > 0 or floor > 0
                guaranteed = guaranteed and bound > 0 and bound == floor
    if not anything:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _amount(amount: Any) -> Decimal:
    try:
        return Decimal(0) if amount is None else parse(amount)
    except ValueError:
        return Decimal(0)
