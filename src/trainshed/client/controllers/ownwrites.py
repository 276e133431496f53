"""Reading one's own writes: a key waits until its mirrors show what was last written for it.

A reconcile that decides on a mirror from before its own last writes repeats them. With deterministic names and
preconditions that is harmless for the cluster, but events and counters would double, a deleted pod would still look
like a failure, and children with random names would be made again.

    created, changed   the mirror has reached the resourceVersion of the answer; those of one resource are ordered
                       integers (KEP-5504). What came and went unseen in between holds nothing up.
    deleted            the mirror shows the object terminating or gone, or another one of that name: the answer to
                       a deletion is a Status without a version when the object goes at once.
    neither in time    given up after `PATIENCE_SECONDS`: the write is outside of the mirror's selector, or the
                       server's history has started anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar

import msgspec

from trainshed.client.informer import Informer
from trainshed.kube.meta.objects import Object, is_terminating, metadata_of, uid_of

K = TypeVar("K", bound=Hashable)

PATIENCE_SECONDS = 30.0
LOOK_AGAIN_SECONDS = 1.0
"""The event that ends a wait brings its key back by itself, unless a relist has swallowed that event."""


class _Deletion(msgspec.Struct, frozen=True):
    informer: Informer
    namespace: str
    name: str
    uid: str

    def is_shown(self) -> bool:
        cached = self.informer.get(self.namespace, self.name)
        return cached is None or uid_of(cached) != self.uid or is_terminating(cached)


class _Outstanding(msgspec.Struct):
    """What one key waits for, until `deadline` on the event loop's clock."""

    deadline: float = 0.0
    versions: dict[Informer, int] = msgspec.field(default_factory=dict)
    deletions: list[_Deletion] = msgspec.field(default_factory=list)

    def is_shown(self) -> bool:
        return all(_number(i.resource_version) >= version for i, version in self.versions.items()) and all(
            deletion.is_shown() for deletion in self.deletions
        )


class OwnWrites(Generic[K]):
    """The last writes of each key. Belongs to one event loop."""

    def __init__(self) -> None:
        self._outstanding: dict[K, _Outstanding] = {}

    def wrote(self, key: K, informer: Informer, answer: Object) -> None:
        """Note what the API answered to a create, an update, a patch or a deletion.

        `informer` mirrors the resource. A `Status` has no version and is no reason to wait.
        """
        version = _number(metadata_of(answer).get("resourceVersion"))
        if version:
            versions = self._of(key).versions
            versions[informer] = max(version, versions.get(informer, 0))

    def deleting(self, key: K, informer: Informer, namespace: str, name: str, uid: str) -> None:
        """Note that the API has accepted the deletion of the object with `uid`, or that it is gone."""
        self._of(key).deletions.append(_Deletion(informer, namespace, name, uid))

    def wait(self, key: K) -> float | None:
        """Return in how many seconds to look again, or None when the mirrors show all that was written."""
        outstanding = self._outstanding.get(key)
        if outstanding is None:
            return None
        left = outstanding.deadline - asyncio.get_running_loop().time()
        if left > 0 and not outstanding.is_shown():
            return min(left, LOOK_AGAIN_SECONDS)
        del self._outstanding[key]
        return None

    def _of(self, key: K) -> _Outstanding:
        outstanding = self._outstanding.setdefault(key, _Outstanding())
        outstanding.deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        return outstanding


def _number(version: object) -> int:
    """Return a resourceVersion as a number; anything that is none is never waited for."""
    return int(version) if isinstance(version, str) and version.isdigit() else 0
