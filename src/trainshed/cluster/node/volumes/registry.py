"""The types of volumes that this node has, and what all of a pod's volumes need together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from trainshed.cluster.node.references import Reference
from trainshed.cluster.node.volumes.claim import ClaimVolume
from trainshed.cluster.node.volumes.configmap import ConfigMapVolume
from trainshed.cluster.node.volumes.downward_api import DownwardApiVolume
from trainshed.cluster.node.volumes.empty_dir import EmptyDirVolume
from trainshed.cluster.node.volumes.ephemeral import EphemeralVolume
from trainshed.cluster.node.volumes.host_path import HostPathVolume
from trainshed.cluster.node.volumes.image import ImageVolume
from trainshed.cluster.node.volumes.projected import ProjectedVolume
from trainshed.cluster.node.volumes.secret import SecretVolume
from trainshed.cluster.node.volumes.tokens import TokenRequest
from trainshed.cluster.node.volumes.volume import (
    DirectoryVolume,
    MountError,
    Setup,
    Source,
    Volume,
    VolumeType,
)
from trainshed.kube.meta.objects import Object, section, spec_of

_EMPTY_DIR = EmptyDirVolume()
TYPES: dict[str, VolumeType] = {
    known.field: known
    for known in (
        _EMPTY_DIR,
        HostPathVolume(),
        ClaimVolume(),
        EphemeralVolume(),
        ConfigMapVolume(),
        SecretVolume(),
        DownwardApiVolume(),
        ProjectedVolume(),
        ImageVolume(),
    )
}
"""By the field's name."""


class Declared(msgspec.Struct, frozen=True):
    """One volume as a pod declares it."""

    type: VolumeType
    name: str
    source: Source


class _Unknown(DirectoryVolume):
    """A type that needs a driver, a network file system, or what else this node has not."""

    def __init__(self, field: str) -> None:
        self.field = field

    def unsupported(self, source: Source) -> Iterable[tuple[str, str]]:
        yield "", "volumes of this type cannot be mounted: the pod waits"

    def directory(self, setup: Setup) -> Volume:
        raise MountError(f"volume type {self.field} is not supported by this node")


def declared(pod: Object) -> Iterator[Declared]:
    """Yield the volumes of a pod in order."""
    for volume in spec_of(pod).get("volumes") or ():
        fields = [field for field in volume if field != "name"]
        field = next((f for f in fields if f in TYPES), fields[0] if fields else _EMPTY_DIR.field)
        yield Declared(TYPES.get(field) or _Unknown(field), volume.get("name", ""), section(volume, field))


def referenced(pod: Object) -> set[Reference]:
    """Return every object that the pod's volumes name."""
    return {r for volume in declared(pod) for r in volume.type.referenced(pod, volume.name, volume.source)}


def token_requests(pod: Object) -> set[TokenRequest]:
    """Return the tokens that the pod's volumes hold."""
    return {r for volume in declared(pod) for r in volume.type.token_requests(volume.source)}


def unsupported_volumes(pod: Object) -> Iterator[tuple[str, str]]:
    """Yield (field path, why) of what this node does not honour, in the order of the volumes."""
    for index, volume in enumerate(declared(pod)):
        for path, why in volume.type.unsupported(volume.source):
            yield f"spec.volumes[{index}].{volume.type.field}" + (f".{path}" if path else ""), why
