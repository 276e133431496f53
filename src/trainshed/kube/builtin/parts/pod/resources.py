"""Rules of `resources` of a container, and of the names of resources.

Source of rules and texts: `pkg/apis/core/validation/validation.go` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.meta import causes, names
from trainshed.kube.meta.causes import NON_NEGATIVE
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.quantity import parse

_STANDARD_RESOURCES = frozenset(
    {
        "configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets",
        "services", "services.loadbalancers", "services.nodeports", "storage",
        *(f"{part}.{name}" for part in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage")),
        "requests.storage",
    }
)  # fmt: skip
"""What a quota counts; no container can ask for it."""
NATIVE_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})

_HUGE = "hugepages-"


def resource_causes(resources: Object, path: str) -> Iterator[Cause]:
    """Yield what is wrong with `requests` and `limits`: names, signs, requests above limits."""
    limits, requests = section(resources, "limits"), section(resources, "requests")
    for name, amount in limits.items():
        at = f"{path}.limits[{name}]"
        yield from resource_name_causes(name, at, in_container=True)
        yield from _amount(name, amount, at)
        yield from _pages(name, amount, at)
    for name, amount in requests.items():
        at = f"{path}.requests[{name}]"
        yield from resource_name_causes(name, at, in_container=True)
        yield from _amount(name, amount, at)
        yield from _beside_limit(name, amount, limits.get(name), path)
        yield from _pages(name, amount, at)
    named = {*limits, *requests}
    if any(name.startswith(_HUGE) for name in named) and not named & {"cpu", "memory"}:
        yield causes.forbidden(path, "HugePages require cpu or memory")


def _beside_limit(name: str, amount: Any, limit: Any, path: str) -> Iterator[Cause]:
    extended = _extended(name)
    try:
        if limit is None:
            if extended:
                text = "Limit must be set for non overcommitable resources"
                yield causes.required(f"{path}.limits", text)
        elif extended and parse(amount) != parse(limit):
            yield causes.invalid(f"{path}.requests", amount, f"must be equal to {name} limit of {limit}")
        elif parse(amount) > parse(limit):
            text = f"must be less than or equal to {name} limit of {limit}"
            yield causes.invalid(f"{path}.requests", amount, text)
    except ValueError:
        return  # named already


def _pages(name: str, amount: Any, path: str) -> Iterator[Cause]:
    """Yield an amount of huge pages that is none of whole pages."""
    if name.startswith(_HUGE) and not _is_multiple(amount, name.removeprefix(_HUGE)):
        yield causes.invalid(path, amount, f"{amount} is not positive integer multiple of {name}")


def _extended(name: str) -> bool:
    """Return whether a resource cannot be overcommitted: huge pages and everything from outside kubernetes.io."""
    if name.startswith(_HUGE):
        return True
    domain, slash, _ = name.partition("/")
    return bool(slash) and not (domain == "kubernetes.io" or domain.endswith(".kubernetes.io"))


def resource_name_causes(name: str, path: str, *, in_container: bool = False) -> Iterator[Cause]:
    """Yield what is wrong with the name of a resource, such as `cpu` or `example.com/device`."""
    if name in NATIVE_RESOURCES or name.startswith(_HUGE):
        return
    wrong = names.qualified_name(name)
    for why in wrong:
        yield causes.invalid_shown(path, name, why)
    if "/" not in name and name not in _STANDARD_RESOURCES and not wrong:
        yield causes.invalid_shown(path, name, "must be a standard resource type or fully qualified")
    elif in_container and wrong and "/" in name:
        yield causes.invalid_shown(path, name, "doesn't follow extended resource name standard")
    if "/" not in name and in_container:
        yield causes.invalid_shown(path, name, "must be a standard resource for containers")


def _amount(name: str, amount: Any, path: str) -> Iterator[Cause]:
    try:
        value = parse(amount)
    except ValueError as error:
        yield causes.invalid(path, amount, str(error))
        return
    if value < 0:
        yield causes.invalid(path, amount, NON_NEGATIVE)
    elif _extended(name) and not name.startswith(_HUGE) and value != value.to_integral_value():
        yield causes.invalid(path, amount, "must be an integer")


def _is_multiple(amount: Any, size: str) -> bool:
    """Return whether so many bytes are whole pages of this size; what is no amount is told elsewhere."""
    try:
        value = parse(amount)
    except ValueError:
        return True
    try:
        page = parse(size)
    except ValueError:
        return False
    return page > 0 and value % page == 0
