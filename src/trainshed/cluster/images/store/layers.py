"""Unpacked layers: a directory each, by the digest of the plain archive. Made once, shared by all who use it."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from trainshed.cluster.images.compression import decompressed
from trainshed.cluster.images.oci import Descriptor, InvalidImage, compression_of
from trainshed.cluster.images.store import confined
from trainshed.cluster.images.store.blobs import Blobs, MissingBlob
from trainshed.cluster.images.store.paths import StorePaths


class Layers:
    """The unpacked layers of a store."""

    def __init__(self, paths: StorePaths, blobs: Blobs) -> None:
        self._paths = paths
        self._blobs = blobs

    def path(self, diff_id: str) -> Path:
        """Return where the layer is, whether it is there or not."""
        return self._paths.layers / diff_id.removeprefix("sha256:")

    def sizes(self) -> dict[str, int]:
        """Return how many bytes of files each unpacked layer has, by the name of its directory."""
        found: dict[str, int] = {}
        if not self._paths.layers.is_dir():
            return found
        for place in self._paths.layers.iterdir():
            try:
                found[place.name] = int((self._paths.sizes / place.name).read_text())
            except (OSError, ValueError):
                found[place.name] = 0
        return found

    def ensure(self, layer: Descriptor, diff_id: str) -> Path:
        """Return the directory of the layer, unpacked if need be; waits for another that does.

        Raises:
            InvalidImage: the archive is refused, or is not the one of the configuration.
            MissingBlob: the store has no such layer.
            OSError: it cannot be written.
        """
        place = self.path(diff_id)
        if place.is_dir():
            return place
        with self._paths.locked(f"partial/{place.name}"):
            if not place.is_dir():
                self._unpack(layer, diff_id, place)
        return place

    def _unpack(self, layer: Descriptor, diff_id: str, place: Path) -> None:
        temporary = Path(tempfile.mkdtemp(dir=self._paths.partial, prefix="layer-"))
        try:
            temporary.chmod(0o755)
            digest = hashlib.sha256()
            try:
                with self._blobs.path(layer.digest).open("rb") as source:
                    found = confined.unpack(
                        temporary, _noting(decompressed(source, compression_of(layer.media_type)), digest)
                    )
            except FileNotFoundError:
                raise MissingBlob(layer.digest) from None
            if f"sha256:{digest.hexdigest()}" != diff_id:
                raise InvalidImage(
                    f"layer {layer.digest} unpacks to sha256:{digest.hexdigest()}; the configuration says {diff_id}"
                )
            (self._paths.sizes / place.name).write_text(str(found["bytes"]))
            temporary.rename(place)
        except BaseException:
            confined.remove(self._paths.partial, temporary.name)
            raise


def _noting(chunks: Iterable[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    for chunk in chunks:
        digest.update(chunk)
        yield chunk
