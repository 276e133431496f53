"""What a pod asks for in sum, as the scheduler, quotas and limit ranges count it. Pure.

Source: "Resource sharing within containers" in the Kubernetes documentation: regular and sidecar containers run
together and add up; ordinary init containers run one at a time before them, so only their largest counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from trainshed.kube.meta.objects import Object, objects, section, spec_of
from trainshed.kube.meta.quantity import canonical, parse

Amounts: TypeAlias = dict[str, Decimal]
"""Resource name to amount in base units (cores, bytes, devices, items)."""
_BINARY = ("memory", "storage", "hugepages-")


def pod_amounts(spec: Object, part: Literal["requests", "limits"]) -> Amounts:
    """Return what a pod requests, or is limited to, at its peak, its overhead included."""
    return _with_overhead(spec, part, lambda container: numbers(section(container, "resources", part)))


def held_amounts(pod: Object, part: Literal["requests", "limits"]) -> Amounts:
    """Return the same of a pod that may be on a node: what it was given there counts where that is more."""
    needs = as_given(pod, part, lambda container: numbers(section(container, "resources", part)))
    return _with_overhead(spec_of(pod), part, needs)


def _with_overhead(
    spec: Object, part: Literal["requests", "limits"], needs: Callable[[Object], Amounts]
) -> Amounts:
    total = at_peak(spec, needs)
    overhead = numbers(section(spec, "overhead"))
    add(total, overhead if part == "requests" else {k: v for k, v in overhead.items() if k in total})
    return total


def as_given(
    pod: Object, part: Literal["requests", "limits"], needs: Callable[[Object], Amounts]
) -> Callable[[Object], Amounts]:
    """Return what the containers of a pod need with regard to what its node says that they have.

    A pod whose resize its node cannot grant needs what it has (`determineContainerReqs` of
    k8s.io/component-helpers/resource).
    """
    status = section(pod, "status")
    told = {
        one.get("name"): one
        for key in ("containerStatuses", "initContainerStatuses")
        for one in objects(status, key)
        if one.get("resources") is not None
    }
    if not told:
        return needs
    infeasible = any(
        one.get("type") == "PodResizePending" and one.get("reason") == "Infeasible"
        for one in objects(status, "conditions")
    )

    def needed(container: Object) -> Amounts:
        one = told.get(container.get("name"))
        if one is None or one["resources"] == section(container, "resources"):
            return needs(container)
        held = numbers(section(one, "resources", part))
        if part == "requests":
            _raise(held, numbers(section(one, "allocatedResources")))
        if not infeasible:
            _raise(held, needs(container))
        return held

    return needed


def at_peak(spec: Object, needs: Callable[[Object], Amounts]) -> Amounts:
    """Return what a pod's containers need together, at most, by what each of them needs."""
    running: Amounts = {}
    peak: Amounts = {}
    for container in objects(spec, "initContainers"):
        if container.get("restartPolicy") == "Always":
            add(running, needs(container))
            _raise(peak, running)
        else:
            together = dict(running)
            add(together, needs(container))
            _raise(peak, together)
    for container in objects(spec, "containers"):
        add(running, needs(container))
    _raise(running, peak)
    return running


def numbers(amounts: Mapping[str, Any]) -> Amounts:
    """Return quantities as numbers."""
    return {name: parse(amount) for name, amount in amounts.items()}


def add(total: Amounts, more: Mapping[str, Decimal]) -> None:
    """Add `more` to `total` in place."""
    for name, amount in more.items():
        total[name] = total.get(name, Decimal(0)) + amount


def _raise(total: Amounts, floor: Mapping[str, Decimal]) -> None:
    for name, amount in floor.items():
        total[name] = max(total.get(name, Decimal(0)), amount)


def spelled(name: str, amount: Decimal) -> str:
    """Return an amount as the API spells it: bytes with binary suffixes, everything else with decimal ones."""
    last = name.rpartition("/")[2].removeprefix("requests.").removeprefix("limits.")
    if (
        amount >= 1024
        and amount == int(amount)
        and (last.endswith(_BINARY[:2]) or last.startswith(_BINARY[2]))
    ):
        return _binary(int(amount))
    return canonical(format(amount, "f"))


def _binary(amount: int) -> str:
    power = 0
    while amount % 1024 == 0 and power < 6:
        amount, power = amount // 1024, power + 1
    return f"{amount}{('', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei')[power]}"
