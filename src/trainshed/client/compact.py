"""Many objects in little room: as JSON, but for those that were used last.

A decoded pod is some hundred small objects in eight times the bytes of its JSON. Worse, when most of ten thousand pods
are gone, what was made at the same time and stays keeps their pages from going back to the system.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, MutableMapping
from typing import TypeVar

import msgspec

from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.sparse import give_back

DECODED_BYTES = 256 * 1024
"""JSON of objects that stay decoded."""

K = TypeVar("K", bound=Hashable)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Object).decode


class CompactObjects(MutableMapping[K, Object]):
    """A mapping to objects that nobody changes. One handed out twice need not be the same one, but is equal."""

    def __init__(self, decoded_bytes: int = DECODED_BYTES) -> None:
        self._limit = decoded_bytes
        self._encoded: dict[K, bytes] = {}
        self._decoded: dict[K, Object] = {}
        self._bytes = 0

    def __getitem__(self, key: K) -> Object:
        obj = self._decoded.get(key)
        if obj is None:
            obj = _decode(self._encoded[key])
            self._keep(key, obj)
        return obj

    def __setitem__(self, key: K, obj: Object) -> None:
        self._release(key)
        self._encoded[key] = _encode(obj)
        self._keep(key, obj)

    def __delitem__(self, key: K) -> None:
        self._release(key)
        del self._encoded[key]
        give_back(self._encoded)

    def __contains__(self, key: object) -> bool:
        return key in self._encoded

    def __iter__(self) -> Iterator[K]:
        return iter(self._encoded)

    def __len__(self) -> int:
        return len(self._encoded)

    @property
    def decoded(self) -> int:
        """How many are decoded."""
        return len(self._decoded)

    def _keep(self, key: K, obj: Object) -> None:
        self._decoded[key] = obj
        self._bytes += len(self._encoded[key])
        while self._bytes > self._limit and len(self._decoded) > 1:
            self._release(next(iter(self._decoded)))

    def _release(self, key: K) -> None:
        if self._decoded.pop(key, None) is not None:
            self._bytes -= len(self._encoded[key])
