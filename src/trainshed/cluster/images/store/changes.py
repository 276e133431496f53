"""Layers that are made here: of what a step of a build wrote."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from pathlib import Path

from trainshed.cluster.images import oci
from trainshed.cluster.images.oci import Descriptor
from trainshed.cluster.images.store import confined
from trainshed.cluster.images.store.store import ImageStore

_LEVEL = 1
"""Of compression: a layer is mostly written once and read once."""


def pack(store: ImageStore, private: Path, stubs: Iterable[str] = ()) -> tuple[Descriptor, str] | None:
    """Store what was written to the root that was built in `private`; return the layer and its diff id, None for
    nothing.

    `stubs` are paths at which something was mounted.

    Raises:
        InvalidImage: it cannot be a layer.
        OSError: it cannot be read or written.
    """
    plain = hashlib.sha256()
    machine = zlib.compressobj(_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    with store.blobs.writer() as writer:

        def sink(data: bytes) -> None:
            plain.update(data)
            writer.write(machine.compress(data))

        answer = confined.pack(private, {"left_out": [], "stubs": sorted(stubs)}, sink)
        writer.write(machine.flush())
    if not answer["entries"]:
        return None
    media_type = f"{oci.OCI_LAYER}+gzip"
    return Descriptor(media_type, writer.digest, writer.size), f"sha256:{plain.hexdigest()}"
