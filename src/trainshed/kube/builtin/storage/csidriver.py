"""CSIDrivers: what a driver of volumes needs of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import NONE, UNSET, Columns, age, define
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, spec_of
from trainshed.kube.meta.resources import Resource

_MODES = ("Persistent", "Ephemeral")
_FS_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_SHORTEST_TOKEN = 600
_LONGEST_TOKEN = 2**32


def _defaults(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("attachRequired", True)
    spec.setdefault("podInfoOnMount", False)
    spec.setdefault("storageCapacity", False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    setdefault(spec, "volumeLifecycleModes", ["Persistent"])
    spec.setdefault("requiresRepublish", False)
    spec.setdefault("seLinuxMount", False)
    spec.pop("nodeAllocatableUpdatePeriodSeconds", None)  # behind a gate that is off in 1.33


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a CSIDriver.

    Source of rules and texts: `pkg/apis/storage/validation/validation.go` of Kubernetes.
    """
    spec = spec_of(obj)
    policy = spec.get("fsGroupPolicy")
    if policy not in _FS_GROUP_POLICIES:
        yield causes.unsupported("spec.fsGroupPolicy", policy, _FS_GROUP_POLICIES)
    yield from _tokens(spec.get("tokenRequests") or ())
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in _MODES:
            yield causes.unsupported("spec.volumeLifecycleModes", mode, _MODES)
    if old is not None:
        for field, told in (("attachRequired", "attachedRequired"), ("volumeLifecycleModes",) * 2):
            if spec.get(field) != spec_of(old).get(field):
                yield causes.invalid(f"spec.{told}", spec.get(field), "field is immutable")


def _tokens(requests: Any) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, request in enumerate(requests):
        at, audience = f"spec.tokenRequests[{index}]", request.get("audience") or ""
        if audience in seen:
            yield causes.duplicate(f"{at}.audience", audience)
            continue
        seen.add(audience)
        seconds = request.get("expirationSeconds")
        if seconds is not None and seconds < _SHORTEST_TOKEN:
            text = "may not specify a duration less than 10 minutes"
            yield causes.invalid(f"{at}.expirationSeconds", seconds, text)
        elif seconds is not None and seconds > _LONGEST_TOKEN:
            text = "may not specify a duration larger than 2^32 seconds"
            yield causes.invalid(f"{at}.expirationSeconds", seconds, text)


def _row(obj: Object, now: float) -> list[Any]:
    driver = spec_of(obj)
    audiences = [item.get("audience", "") for item in driver.get("tokenRequests") or ()]
    return [
        name_of(obj),
        bool(driver.get("attachRequired", True)),
        bool(driver.get("podInfoOnMount")),
        bool(driver.get("storageCapacity")),
        ",".join(audiences) or UNSET,
        bool(driver.get("requiresRepublish")),
        ",".join(driver.get("volumeLifecycleModes") or ()) or NONE,
        age(obj, now),
    ]


KIND = Builtin(
    info=row(
        Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False),
        unconditional_update=False,
    ),
    defaults=_defaults,
    check=_check,
    columns=Columns(
        define(
            "Name, AttachRequired?, PodInfoOnMount?, StorageCapacity?, TokenRequests, RequiresRepublish?, "
            "Modes, Age"
        ),
        _row,
    ),
    returns_deleted=True,
)
