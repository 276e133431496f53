"""persistentVolumeClaim volumes: the directory behind the PersistentVolume that the claim is bound to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from trainshed.cluster.node.references import Reference, References
from trainshed.cluster.node.volumes.host_path import host_path
from trainshed.cluster.node.volumes.volume import (
    ClaimPending,
    DirectoryVolume,
    MountError,
    Setup,
    Source,
    Volume,
)
from trainshed.kube.meta.objects import Object, section, status_of

REMOTE_KINDS = frozenset(
    {
        *("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume"),
        *("flocker", "gcePersistentDisk", "glusterfs", "iscsi", "nfs", "photonPersistentDisk"),
        *("portworxVolume", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume"),
    }
)
"""Volume sources that need a driver or a network file system."""


class ClaimVolume(DirectoryVolume):
    """A claim of the pod's namespace."""

    field = "persistentVolumeClaim"

    def referenced(self, pod: Object, name: str, source: Source) -> Iterable[Reference]:
        yield "persistentvolumeclaims", source.get("claimName", "")

    def directory(self, setup: Setup) -> Volume:
        claimed = claimed_directory(setup.source.get("claimName", ""), setup.references)
        read_only = claimed.read_only or bool(setup.source.get("readOnly"))
        return msgspec.structs.replace(claimed, read_only=read_only)


def claimed_directory(name: str, references: References) -> Volume:
    """Return the directory behind a claim. Raises MountError while the claim is not bound."""
    claim = references.get("persistentvolumeclaims", name)
    if claim is None:
        raise MountError(f'persistentvolumeclaim "{name}" not found')
    if claim["metadata"].get("deletionTimestamp"):
        raise MountError(f'persistentvolumeclaim "{name}" is being deleted')
    volume_name = claim["spec"].get("volumeName")
    if not volume_name or status_of(claim).get("phase") != "Bound":
        raise ClaimPending(f'persistentvolumeclaim "{name}" is not bound')
    volume = references.get("persistentvolumes", volume_name)
    if volume is None:
        raise MountError(f'persistentvolume "{volume_name}" not found')
    bound_to = section(volume["spec"], "claimRef")
    if bound_to.get("uid") and bound_to["uid"] != claim["metadata"].get("uid"):
        raise MountError(f'persistentvolume "{volume_name}" is bound to another claim')
    if claim["spec"].get("volumeMode") == "Block":
        raise MountError(f'persistentvolumeclaim "{name}" has volumeMode Block, which this node cannot offer')
    modes = claim["spec"].get("accessModes") or []
    # As with drivers: the node owns what was provisioned and disks of its own, not every path of the machine.
    owned = is_provisioned(volume) or bool(volume["spec"].get("local"))
    return Volume(backing_path(volume), read_only=modes == ["ReadOnlyMany"], owned=owned, lasting=True)


def is_provisioned(volume: Object) -> bool:
    """Return whether a PersistentVolume was made for a claim."""
    return "pv.kubernetes.io/provisioned-by" in section(volume["metadata"], "annotations")


def backing_path(volume: Object) -> Path:
    """Return the host directory of a PersistentVolume of kind hostPath or local. Raises MountError."""
    spec: Mapping[str, Any] = volume["spec"]
    if spec.get("hostPath"):
        return host_path(spec["hostPath"])
    if spec.get("local"):
        return host_path({"path": spec["local"]["path"], "type": "Directory"})
    name = volume["metadata"]["name"]
    kinds = [k for k in spec if k in REMOTE_KINDS]
    kind = kinds[0] if kinds else "without a known source"
    raise MountError(
        f'persistentvolume "{name}": spec.{kind} is not supported by this node: use hostPath or local'
    )
