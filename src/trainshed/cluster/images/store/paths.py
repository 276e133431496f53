"""Where the store keeps what."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from trainshed.cluster.sandbox.files import lock


class StorePaths(msgspec.Struct, frozen=True):
    """Names below `root`, a directory of one user. Nothing is created before `prepare`."""

    root: Path

    @property
    def index(self) -> Path:
        return self.root / "index.json"

    @property
    def blobs(self) -> Path:
        return self.root / "blobs" / "sha256"

    @property
    def layers(self) -> Path:
        return self.root / "layers"

    @property
    def partial(self) -> Path:
        """Blobs and layers that are not whole yet."""
        return self.root / "partial"

    @property
    def cache(self) -> Path:
        """What instructions of builds have led to."""
        return self.root / "cache"

    @property
    def sizes(self) -> Path:
        """What each unpacked layer takes, in bytes."""
        return self.root / "sizes"

    @property
    def used(self) -> Path:
        """When each image was used last: an empty file's time, named as its manifest."""
        return self.root / "used"

    def prepare(self) -> StorePaths:
        """Create the directories with mode 0700 and the mark of the layout; return self. Raises OSError."""
        for directory in (
            self.root,
            self.blobs,
            self.layers,
            self.partial,
            self.cache,
            self.sizes,
            self.used,
        ):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark = self.root / "oci-layout"
        if not mark.exists():
            mark.write_text('{"imageLayoutVersion": "1.0.0"}\n')
        return self

    @contextlib.contextmanager
    def locked(self, name: str, *, shared: bool = False, wait: bool = True) -> Iterator[None]:
        """Hold a lock for as long as the block runs. Raises BlockingIOError if it is held and `wait` is false."""
        self.prepare()
        descriptor = lock(self.root / f"{name}.lock", shared=shared, wait=wait)
        try:
            yield
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the collection of garbage away from what the block adds, until a name or a pod holds it."""
        with self.locked("garbage", shared=True):
            yield
