"""The latest version of every object, in memory, in key order and by those labels that lists have asked for."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping

from trainshed.cluster.store.model import DELETED, Stored, StoreEvent

INDEXED_LABELS = 4
"""Labels of a resource whose values are indexed: those asked for last. Each takes some 100 bytes an object."""
INDEXED_FROM = 256
"""How many objects of a resource make an index worth while; fewer are looked through."""

Values = Mapping[str, Collection[str]]
"""Labels, and of each the values that an object may have. It has to have all the labels."""


class _Bucket:
    """The objects of one resource: by key, the keys in order, and the keys by the values of some labels."""

    __slots__ = ("by_label", "items", "keys")

    def __init__(self) -> None:
        self.items: dict[str, Stored] = {}
        self.keys: list[str] = []
        self.by_label: dict[str, dict[str, set[str]]] = {}

    def labelled(self, wanted: Values) -> set[str] | None:
        """Return the keys of the objects that have one of the wanted labels, and more when that is enough to look at;
        None to look at all."""
        if len(self.items) < INDEXED_FROM or not wanted:
            return None
        label = next((label for label in wanted if label in self.by_label), next(iter(wanted)))
        held = self.by_label.pop(label, None)
        if held is None:
            held = {}
            for stored in self.items.values():
                _enter(held, label, stored)
            while len(self.by_label) >= INDEXED_LABELS:
                del self.by_label[next(iter(self.by_label))]
        self.by_label[label] = held  # as the last: the first goes next
        return set().union(*(held.get(value, ()) for value in wanted[label]))

    def relabel(self, old: Stored | None, new: Stored | None) -> None:
        """Keep the labels true when an object comes, changes or goes."""
        if not self.by_label:
            return
        before = old.labels or {} if old is not None else {}
        after = new.labels or {} if new is not None else {}
        for label, held in self.by_label.items():
            had, has = before.get(label), after.get(label)
            if had == has:
                continue
            if old is not None and had is not None:
                held[had].discard(old.key)
                if not held[had]:
                    del held[had]
            if new is not None and has is not None:
                held.setdefault(has, set()).add(new.key)


def _enter(held: dict[str, set[str]], label: str, stored: Stored) -> None:
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
            return
        if event.key not in bucket.items:
            insort(bucket.keys, event.key)
        bucket.items[event.key] = event.stored


def bucket_of(key: str) -> str:
    """Return `/<group>/<plural>/` of a key or prefix; what is shorter comes back unchanged."""
    at = key.find("/", key.find("/", 1) + 1)
    return key[: at + 1] if at > 0 else key
