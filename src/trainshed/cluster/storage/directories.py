"""Directories that stand for provisioned volumes."""

from __future__ import annotations

from pathlib import Path

from trainshed.kube.meta.objects import Object, section

PROVISIONER = "trainshed.dev/hostdir"
"""Provisioner name of the default StorageClass; also the value of `pv.kubernetes.io/provisioned-by`."""


def create(root: Path, claim: Object) -> Path:
    """Create and return the claim's directory, which any user of a pod may write to; nobody else gets to `root`.

    The name starts with what people look for and ends with the uid, so that a claim that is made again
    never sees the data of the one before.
    """
    metadata = claim["metadata"]
    directory = root / f"{metadata['namespace']}-{metadata['name']}-{metadata['uid']}"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)
    directory.chmod(0o777)
    return directory


def is_inside(root: Path, path: str) -> bool:
    """Return whether `path` is a directory entry of `root`, as `create` makes them."""
    return Path(path).parent == root and Path(path).name not in ("", "..")


def volume_for(claim: Object, storage_class: Object, directory: Path) -> Object:
    """Return the PersistentVolume that stands for the directory, reserved for the claim."""
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": f"pvc-{metadata['uid']}",
            "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER},
        },
        "spec": {
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "accessModes": claim["spec"].get("accessModes") or ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "storageClassName": storage_class["metadata"]["name"],
            "volumeMode": "Filesystem",
            "claimRef": claim_reference(claim),
            "hostPath": {"path": str(directory), "type": "DirectoryOrCreate"},
        },
    }


def is_provisioned(volume: Object) -> bool:
    """Return whether the volume was made by `volume_for`."""
    annotations = section(volume["metadata"], "annotations")
    return bool(annotations.get("pv.kubernetes.io/provisioned-by") == PROVISIONER)


def claim_reference(claim: Object) -> Object:
    """Return the `claimRef` that binds a volume to the claim."""
    metadata = claim["metadata"]
    return {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata.get("resourceVersion", ""),
    }
