"""Where the node keeps its files, and removing those of a pod."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from trainshed.cluster.sandbox.api import Runtime, RuntimeLost

log = logging.getLogger(__name__)


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

    @property
    def image_space(self) -> Path:
        """How much of the disk images may take."""
        return self.home / "images" / "space.json"

    def pod(self, uid: str) -> Path:
        return self.home / "pods" / uid

    def volumes(self, uid: str) -> Path:
        return self.pod(uid) / "volumes"

    def volume(self, uid: str, name: str) -> Path:
        return self.volumes(uid) / name

    def container(self, uid: str, name: str) -> Path:
        """Return where the runtime keeps what the attempts of a container wrote."""
        return self.pod(uid) / "containers" / name

    def logs(self, uid: str, container: str) -> Path:
        return self.pod(uid) / "logs" / container

    def devices(self, uid: str) -> Path:
        return self.pod(uid) / "devices.json"

    def log(self, uid: str, container: str, attempt: int) -> Path:
        return self.logs(uid, container) / f"{attempt}.log"


async def remove_pod(runtime: Runtime, paths: NodePaths, uid: str) -> None:
    """Leave nothing of a pod on this machine. Raises RuntimeLost or OSError while its sandbox is there."""
    await runtime.remove_sandbox(uid)
    try:
        await runtime.remove_tree(paths.pod(uid))
    except (RuntimeLost, OSError) as error:
        log.warning("files of a pod not removed", extra={"pod": uid, "error": str(error)})
