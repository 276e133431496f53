"""The latest version of every object, in memory and in key order."""

from __future__ import annotations

from bisect import bisect_left, insort

from trainshed.cluster.store.model import DELETED, Stored, StoreEvent


class _Bucket:
    """The objects of one resource: by key, and the keys in order."""

    __slots__ = ("items", "keys")

    def __init__(self) -> None:
        self.items: dict[str, Stored] = {}
        self.keys: list[str] = []


class Index:
    """Current objects. Buckets are the first two path segments (`/<group>/<plural>/`)."""

    def __init__(self) -> None:
        self._buckets: dict[str, _Bucket] = {}

    def __len__(self) -> int:
        return sum(len(b.keys) for b in self._buckets.values())

    def get(self, key: str) -> Stored | None:
        bucket = self._buckets.get(bucket_of(key))
        return bucket.items.get(key) if bucket else None

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
