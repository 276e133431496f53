"""The latest version of every object, in memory, in key order and by those labels that lists have asked for."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections.abc import Collection, Mapping

from trainshed.cluster.store.model import DELETED, Stored, StoreEvent
from trainshed.kube.meta.sparse import give_back

INDEXED_LABELS = 4
"""Labels of a resource whose values are indexed: those asked for last. Each takes some 100 bytes an object."""
INDEXED_FROM = 256
"""How many objects of a resource make an index worth while; fewer are looked through."""

Values = Mapping[str, Collection[str]]
"""Labels, and of each the values that an object may have. It has to have all the labels."""


_Keys = dict[str, set[str]]
"""Of one label, the keys of the objects by the value that they have."""
_SLICE = 500


class _Bucket:
    """The objects of one resource: by key, the keys in order, and the keys by the values of some labels."""

    __slots__ = ("begun", "by_label", "items", "keys")

    def __init__(self) -> None:
        self.items: dict[str, Stored] = {}
        self.keys: list[str] = []
        self.by_label: dict[str, _Keys] = {}
        self.begun: dict[str, _Keys] = {}
        """Labels whose objects are being looked at."""

    async def prepare(self, wanted: Values) -> None:
        """Index one of the wanted labels, unless one is; others have their turn meanwhile."""
        if len(self.items) < INDEXED_FROM or not wanted or any(label in self.by_label for label in wanted):
            return
        label = next(iter(wanted))
        if label in self.begun:
            return  # who waits for it is another request; this one looks at all
        held = self.begun[label] = {}
        try:
            keys = list(self.keys)
            for start in range(0, len(keys), _SLICE):
                if start:
                    await asyncio.sleep(0)
                for key in keys[start : start + _SLICE]:
                    if (stored := self.items.get(key)) is not None:
                        _enter(held, label, stored)
            while len(self.by_label) >= INDEXED_LABELS:
                del self.by_label[next(iter(self.by_label))]
            self.by_label[label] = held
        finally:
            del self.begun[label]

    def labelled(self, wanted: Values) -> set[str] | None:
        """Return the keys of the objects that have one of the wanted labels, and more when that is enough to look at;
        None to look at all."""
        label = next((label for label in wanted if label in self.by_label), None)
        if label is None:
            return None
        held = self.by_label[label] = self.by_label.pop(label)  # as the last: the first goes next
        return set().union(*(held.get(value, ()) for value in wanted[label]))

    def relabel(self, old: Stored | None, new: Stored | None) -> None:
        """Keep the labels true when an object comes, changes or goes."""
        if not self.by_label and not self.begun:
            return
        before = old.labels or {} if old is not None else {}
        after = new.labels or {} if new is not None else {}
        for label, held in (*self.by_label.items(), *self.begun.items()):
            had, has = before.get(label), after.get(label)
            if had == has:
                continue
            if old is not None and had in held:
                held[had].discard(old.key)
                if not held[had]:
                    del held[had]
            if new is not None and has is not None:
                held.setdefault(has, set()).add(new.key)


def _enter(held: _Keys, label: str, stored: Stored) -> None:
    labels = stored.labels
    if labels is not None and label in labels:
        held.setdefault(labels[label], set()).add(stored.key)


class Index:
    """Current objects. Buckets are the first two path segments (`/<group>/<plural>/`)."""

    def __init__(self) -> None:
        self._buckets: dict[str, _Bucket] = {}

    def __len__(self) -> int:
        return sum(len(b.keys) for b in self._buckets.values())

    def get(self, key: str) -> Stored | None:
        bucket = self._buckets.get(bucket_of(key))
        return bucket.items.get(key) if bucket else None

    async def prepare(self, prefix: str, wanted: Values) -> None:
        """Have `labelled` look at few objects, where that takes time to arrange."""
        bucket = self._buckets.get(bucket_of(prefix))
        if bucket is not None:
            await bucket.prepare(wanted)

    def labelled(self, prefix: str, wanted: Values) -> list[Stored]:
        """Return the objects under a prefix that may have the wanted labels: all that have, sorted bytewise by key."""
        bucket = self._buckets.get(bucket_of(prefix))
        found = bucket.labelled(wanted) if bucket is not None else None
        if bucket is None or found is None:
            return self.list(prefix)
        return [bucket.items[key] for key in sorted(found) if key.startswith(prefix)]

    def list(self, prefix: str) -> list[Stored]:
        """Return the objects whose key starts with `prefix`, sorted bytewise by key."""
        name = bucket_of(prefix)
        if prefix.count("/") < 3:
            # Shorter than a resource: everything of a group, or of the store.
            out: list[Stored] = []
            for each in sorted(b for b in self._buckets if b.startswith(prefix)):
                out.extend(self.list(each))
            return out
        bucket = self._buckets.get(name)
        if bucket is None:
            return []
        if prefix == name:
            return [bucket.items[k] for k in bucket.keys]
        start = bisect_left(bucket.keys, prefix)
        out = []
        for i in range(start, len(bucket.keys)):
            key = bucket.keys[i]
            if not key.startswith(prefix):
                break
            out.append(bucket.items[key])
        return out

    def load(self, objects: dict[str, Stored]) -> None:
        """Fill an empty index at once."""
        for key in sorted(objects):
            bucket = self._buckets.setdefault(bucket_of(key), _Bucket())
            bucket.items[key] = objects[key]
            bucket.keys.append(key)

    async def move(self) -> None:
        """Move all objects closer together in memory; others have their turn meanwhile."""
        for prefix in list(self._buckets):
            for number, stored in enumerate(self.list(prefix), 1):
                stored.move()
                if not number % _SLICE:
                    await asyncio.sleep(0)

    def apply(self, event: StoreEvent) -> None:
        """Take in a committed change; the replaced version keeps its bytes only."""
        bucket = self._buckets.setdefault(bucket_of(event.key), _Bucket())
        bucket.relabel(bucket.items.get(event.key), None if event.type == DELETED else event.stored)
        if event.previous is not None:
            event.previous.release()
        if event.type == DELETED:
            event.stored.release()
            if bucket.items.pop(event.key, None) is not None:  # a damaged object was not in it
                del bucket.keys[bisect_left(bucket.keys, event.key)]
                give_back(bucket.items)
            return
        if event.key not in bucket.items:
            insort(bucket.keys, event.key)
        bucket.items[event.key] = event.stored


def bucket_of(key: str) -> str:
    """Return `/<group>/<plural>/` of a key or prefix; what is shorter comes back unchanged."""
    at = key.find("/", key.find("/", 1) + 1)
    return key[: at + 1] if at > 0 else key
