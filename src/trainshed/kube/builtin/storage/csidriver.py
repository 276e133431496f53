"""CSIDrivers."""

from __future__ import annotations

from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import NONE, UNSET, Columns, age, define
from trainshed.kube.meta.objects import Object, name_of, spec_of
from trainshed.kube.meta.resources import Resource


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
    columns=Columns(
        define(
            "Name, AttachRequired?, PodInfoOnMount?, StorageCapacity?, TokenRequests, RequiresRepublish?, "
            "Modes, Age"
        ),
        _row,
    ),
    returns_deleted=True,
)
