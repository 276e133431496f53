"""What steps of builds have led to, by all that they depend on."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import msgspec

from trainshed.cluster.images.oci import Descriptor
from trainshed.cluster.images.store.store import ImageStore

_VERSION = 1


class Layer(msgspec.Struct, frozen=True):
    """A layer of a stage, as it is stored."""

    descriptor: Descriptor
    diff_id: str


class Record(msgspec.Struct, frozen=True):
    """What a step came to: a layer, or nothing. `digests` are what the collection of garbage keeps."""

    layer: Layer | None
    digests: tuple[str, ...] = ()


def key(kind: str, *parts: Any) -> str:
    """Return the name of what a step of that kind depends on: values that JSON can hold."""
    return hashlib.sha256(msgspec.json.encode([_VERSION, kind, *parts], order="sorted")).hexdigest()


class Cache:
    """Records in files of the store. What is gone from the store is not remembered."""

    def __init__(self, store: ImageStore) -> None:
        self._store = store

    def find(self, name: str) -> Record | None:
        """Return what a step came to, None where it is to be done."""
        file = self._store.paths.cache / name
        try:
            record = msgspec.json.decode(file.read_bytes(), type=Record)
        except (OSError, msgspec.DecodeError):
            return None
        if record.layer is not None and not self._store.blobs.has(record.layer.descriptor):
            return None
        os.utime(file)
        return record

    def remember(self, name: str, layer: Layer | None) -> None:
        """Note what a step came to."""
        digests = (layer.descriptor.digest, layer.diff_id) if layer else ()
        place = self._store.paths.prepare().cache / name
        temporary = place.with_name(f".{name}.{os.getpid()}")
        temporary.write_bytes(msgspec.json.encode(Record(layer, digests)))
        temporary.replace(place)
