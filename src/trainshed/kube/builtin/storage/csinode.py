"""CSINodes: the drivers of volumes that a node has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.builtin.parts.csi import driver_name_causes
from trainshed.kube.meta import causes, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, section, spec_of
from trainshed.kube.meta.resources import Resource

_NODE_ID_MAX = 256
_PATH = "spec.drivers"


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a CSINode: drivers may come and go, but not change.

    Source of rules and texts: `pkg/apis/storage/validation/validation.go` of Kubernetes.
    """
    drivers = spec_of(obj).get("drivers") or ()
    seen: set[str] = set()
    for index, driver in enumerate(drivers):
        yield from _driver(driver, seen, f"{_PATH}[{index}]")
    before = {driver.get("name"): driver for driver in spec_of(old or {}).get("drivers") or ()}
    for driver in drivers:
        if driver != before.get(driver.get("name"), driver):
            yield causes.invalid(_PATH, driver, "field is immutable")


def _driver(driver: Object, seen: set[str], at: str) -> Iterator[Cause]:
    name, node = driver.get("name") or "", driver.get("nodeID") or ""
    yield from driver_name_causes(name, f"{at}.name")
    if not node:
        yield causes.required(f"{at}.nodeID")
    if len(node) > _NODE_ID_MAX:
        yield causes.invalid(f"{at}.nodeID", node, f"must be {_NODE_ID_MAX} characters or less")
    yield from causes.non_negative(section(driver, "allocatable"), f"{at}.allocatable", "count")
    if name in seen:
        yield causes.duplicate(f"{at}.name", name)
    seen.add(name)
    keys: set[str] = set()
    for key in driver.get("topologyKeys") or ():
        if not key:
            yield causes.required(at)
        if key in keys:
            yield causes.duplicate(at, key)
        keys.add(key)
        for why in names.qualified_name(key):
            yield causes.invalid(at, key, why)


def _row(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), len(spec_of(obj).get("drivers") or ()), age(obj, now)]


KIND = Builtin(
    info=row(
        Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False), unconditional_update=False
    ),
    check=_check,
    columns=Columns(define("Name, Drivers#, Age"), _row),
    returns_deleted=True,
)
