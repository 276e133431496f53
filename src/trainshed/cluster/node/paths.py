"""Where the node keeps its files below the state directory."""

from __future__ import annotations

from pathlib import Path

import msgspec


class NodePaths(msgspec.Struct, frozen=True):
    """`home` is the state directory: hidden from containers.

    pods/<uid>/      the runtime's `sandbox` and `containers`; here `volumes`, `logs`, `devices.json`
    images.json      registered images (`images.ImageRegistry`)
    """

    home: Path

    @property
    def images(self) -> Path:
        return self.home / "images" / "images.json"

    def pod(self, uid: str) -> Path:
        return self.home / "pods" / uid

    def volumes(self, uid: str) -> Path:
        return self.pod(uid) / "volumes"

    def devices(self, uid: str) -> Path:
        return self.pod(uid) / "devices.json"

    def log(self, uid: str, container: str, attempt: int) -> Path:
        return self.pod(uid) / "logs" / container / f"{attempt}.log"
