"""What a pod asks for in sum, as quotas and limit ranges count it. Pure.

Source: "Resource sharing within containers" in the Kubernetes documentation: regular and sidecar containers run
together and add up; ordinary init containers run one at a time before them, so only their largest counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from trainshed.kube.meta.objects import Object, objects, section
from trainshed.kube.meta.quantity import canonical, parse

Amounts: TypeAlias = dict[str, Decimal]
"""Resource name to amount in base units (cores, bytes, items)."""
_BINARY = ("memory", "storage", "hugepages-")


def pod_amounts(spec: Object, part: Literal["requests", "limits"]) -> Amounts:
    """Return what a pod requests, or is limited to, at its peak, its overhead included."""
    running: Amounts = {}
    peak: Amounts = {}
    for container in objects(spec, "initContainers"):
        needs = numbers(section(container, "resources", part))
        if container.get("restartPolicy") == "Always":
            add(running, needs)
            _raise(peak, running)
        else:
            together = dict(running)
            add(together, needs)
            _raise(peak, together)
    for container in objects(spec, "containers"):
        add(running, numbers(section(container, "resources", part)))
    _raise(running, peak)
    overhead = numbers(section(spec, "overhead"))
    add(running, overhead if part == "requests" else {k: v for k, v in overhead.items() if k in running})
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
