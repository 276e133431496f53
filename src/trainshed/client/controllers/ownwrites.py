"""Reading one's own writes: a key waits until an informer shows what was last written for it.

A controller that creates objects with random names must not look at a mirror older than its own last create,
or it makes them again. The API server's resourceVersions are one increasing number over all kinds, so "the
mirror has got there" is a comparison; nothing has to be remembered about single objects, and an object that
came and went unseen holds nothing up.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from trainshed.client.informer import Informer
from trainshed.kube.meta.objects import Object

K = TypeVar("K", bound=Hashable)

LOOK_AGAIN_SECONDS = 0.2
"""When a key that waits is looked at again, should the event that it waits for belong to another key."""


class OwnWrites(Generic[K]):
    """The latest revision written for each key, of the kinds that `informer` mirrors."""

    def __init__(self, informer: Informer) -> None:
        self._informer = informer
        self._revisions: dict[K, int] = {}

    def record(self, key: K, written: Object) -> None:
        """Note the server's answer to a write. A `Status` has no version and is no reason to wait."""
        version = (written.get("metadata") or {}).get("resourceVersion")
        if version:
            self._revisions[key] = max(int(version), self._revisions.get(key, 0))

    def pending(self, key: K) -> bool:
        """Return whether the mirror is older than what was written for the key."""
        revision = self._revisions.get(key)
        if revision is None:
            return False
        if int(self._informer.resource_version or 0) < revision:
            return True
        del self._revisions[key]
        return False
