"""CSIStorageCapacities: how much a CSI driver has left for a class of volumes at some nodes."""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts import nodelabels
from trainshed.kube.builtin.parts.pod.volumes import size_causes
from trainshed.kube.meta import causes, golang, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.resources import Resource
from trainshed.kube.schema.metadata import selector_causes


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a CSIStorageCapacity.

    Source of rules and texts: `pkg/apis/storage/validation/validation.go` of Kubernetes.
    """
    topology, name = obj.get("nodeTopology"), obj.get("storageClassName") or ""
    yield from selector_causes(topology, "nodeTopology")
    for why in names.dns_subdomain(name):
        yield causes.invalid("storageClassName", name, why)
    if obj.get("capacity") is not None:
        yield from size_causes(obj["capacity"], "capacity", positive=False)
    if old is not None:
        if topology != old.get("nodeTopology"):
            text = golang.label_selector(topology) if topology else '"null"'
            yield causes.invalid_shown("nodeTopology", text, "field is immutable")
        if name != (old.get("storageClassName") or ""):
            yield causes.invalid("storageClassName", name, "field is immutable")


def _warns(obj: Object, old: Object | None) -> Iterator[str]:
    yield from nodelabels.selector_warnings(section(obj, "nodeTopology"), "nodeTopology")


KIND = Builtin(
    info=row(
        Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity"),
        unconditional_update=False,
    ),
    check=_check,
    warns=_warns,
)
