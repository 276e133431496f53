"""Bytes by digest: written beside their place, renamed to it when they are what they should be."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from trainshed.cluster.images.oci import MAX_DOCUMENT, Descriptor, InvalidImage
from trainshed.cluster.images.store.paths import StorePaths


class MissingBlob(Exception):
    """The store does not have the content of a digest."""

    def __init__(self, digest: str) -> None:
        super().__init__(f"the store has no content of {digest}")
        self.digest = digest


class Blobs:
    """The blobs of a store."""

    def __init__(self, paths: StorePaths) -> None:
        self._paths = paths

    def path(self, digest: str) -> Path:
        """Return where the content of a digest is, whether it is there or not."""
        return self._paths.blobs / digest.removeprefix("sha256:")

    def has(self, one: Descriptor) -> bool:
        """Return whether the content is here, whole."""
        try:
            return self.path(one.digest).stat().st_size == one.size
        except FileNotFoundError:
            return False

    def read(self, digest: str) -> bytes:
        """Return a manifest or configuration. Raises MissingBlob, or InvalidImage where it is neither."""
        try:
            with self.path(digest).open("rb") as file:
                data = file.read(MAX_DOCUMENT + 1)
        except FileNotFoundError:
            raise MissingBlob(digest) from None
        if len(data) > MAX_DOCUMENT or f"sha256:{hashlib.sha256(data).hexdigest()}" != digest:
            raise InvalidImage(
                f"{digest} in the store is not what its digest says: remove the image and get it again"
            )
        return data

    def add(self, data: bytes, media_type: str) -> Descriptor:
        """Store bytes; return what refers to them."""
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        one = Descriptor(media_type=media_type, digest=digest, size=len(data))
        if not self.has(one):
            with self.writer(one) as writer:
                writer.write(data)
        return one

    def add_stream(self, one: Descriptor, chunks: Iterable[bytes]) -> None:
        """Store what `one` describes. Raises InvalidImage where the bytes are others."""
        with self.writer(one) as writer:
            for chunk in chunks:
                writer.write(chunk)

    def writer(self, expected: Descriptor | None = None) -> BlobWriter:
        """Return a writer of content; of `expected`, where digest and size are known before."""
        return BlobWriter(self._paths.prepare(), expected)


class BlobWriter:
    """Writes one blob. Left without an error, it is in the store; `digest` and `size` are then known."""

    def __init__(self, paths: StorePaths, expected: Descriptor | None) -> None:
        self.digest = ""
        self.size = 0
        self._paths = paths
        self._expected = expected
        self._hash = hashlib.sha256()

    def __enter__(self) -> BlobWriter:
        descriptor, self._temporary = tempfile.mkstemp(dir=self._paths.partial, prefix="blob-")
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        return self

    def write(self, data: bytes) -> int:
        """Append. Raises InvalidImage once there is more than there should be."""
        self.size += len(data)
        if self._expected is not None and self.size > self._expected.size:
            raise InvalidImage(f"{self._expected.digest} has more than its {self._expected.size} bytes")
        self._hash.update(data)
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        return len(data)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._commit()
        finally:
            self._file.close()
            Path(self._temporary).unlink(missing_ok=True)

    def _commit(self) -> None:
        self.digest = f"sha256:{self._hash.hexdigest()}"
        expected = self._expected
        if expected is not None and (self.digest, self.size) != (expected.digest, expected.size):
            raise InvalidImage(
                f"{expected.digest} of {expected.size} bytes was expected; what came is {self.digest} of {self.size}"
            )
        os.fsync(self._file.fileno())
        Path(self._temporary).replace(self._paths.blobs / self.digest.removeprefix("sha256:"))
