"""Where the node keeps its files, and removing those of a pod."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import msgspec

from trainshed.cluster.sandbox.api import Runtime, RuntimeLost

log = logging.getLogger(__name__)

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the host's tmpfs, below a private directory


class NodePaths(msgspec.Struct, frozen=True):
    """`home` is the state directory: hidden from containers.

    pods/<uid>/      the runtime's `sandbox` and `containers`; here `volumes`, `logs`, `devices.json`
    images/          registered images (`images.ImageRegistry`), and the store of images
    """

    home: Path

    @property
    def images(self) -> Path:
        return self.home / "images" / "images.json"

    @property
    def image_store(self) -> Path:
        return self.home / "images" / "store"

    def pod(self, uid: str) -> Path:
        return self.home / "pods" / uid

    def volumes(self, uid: str) -> Path:
        return self.pod(uid) / "volumes"

    def memory(self, uid: str) -> Path:
        """Return where the pod's volumes in memory are; its parent is for all pods of this user."""
        return SHARED_MEMORY / f"trainshed-{os.getuid()}" / uid

    def all_memory(self) -> list[Path]:
        """Return the directories in memory of all pods that have files here."""
        pods = self.pod("")
        uids = sorted(entry.name for entry in pods.iterdir()) if pods.is_dir() else []
        return [path for uid in uids if (path := self.memory(uid)).is_dir()]

    def devices(self, uid: str) -> Path:
        return self.pod(uid) / "devices.json"

    def log(self, uid: str, container: str, attempt: int) -> Path:
        return self.pod(uid) / "logs" / container / f"{attempt}.log"


async def remove_pod(runtime: Runtime, paths: NodePaths, uid: str) -> None:
    """Leave nothing of a pod on this machine. Raises RuntimeLost or OSError while its sandbox is there."""
    await runtime.remove_sandbox(uid)
    for directory in (paths.memory(uid), paths.pod(uid)):
        try:
            await runtime.remove_tree(directory)
        except (RuntimeLost, OSError) as error:
            log.warning("files of a pod not removed", extra={"pod": uid, "error": str(error)})
