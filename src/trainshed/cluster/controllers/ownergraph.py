"""Who owns whom, over all kinds: the part of the garbage collector that only remembers. No I/O."""

from __future__ import annotations

from collections import OrderedDict, defaultdict

from trainshed.cluster.store import Stored
from trainshed.kube.meta.sparse import give_back

REMEMBERED = 10_000
"""How many deleted owners are known to be gone; an older one has to be verified by its kind."""
REMEMBERED_ALONE = 1_000
"""The same for objects that owned nothing when they went: only what named one just then asks."""


class OwnerGraph:
    """Objects by uid and dependents by owner, fed with the store's events in order."""

    def __init__(self) -> None:
        self._keys: dict[str, str] = {}
        self._dependents: defaultdict[str, set[str]] = defaultdict(set)
        self._owners: dict[str, frozenset[str]] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._gone_alone: OrderedDict[str, None] = OrderedDict()

    def clear(self) -> None:
        """Forget everything, before starting over from a list."""
        self._keys.clear()
        self._dependents.clear()
        self._owners.clear()

    def key(self, uid: str) -> str | None:
        """Return the key of the object with this uid."""
        return self._keys.get(uid)

    def is_gone(self, uid: str) -> bool:
        """Return whether the object with this uid was seen to go."""
        return uid in self._gone or uid in self._gone_alone

    def dependents(self, uid: str) -> list[str]:
        """Return the keys of the objects that name `uid` as an owner."""
        return sorted(self._dependents.get(uid, ()))

    def seen(self, stored: Stored) -> set[str]:
        """Take in an object; return the keys to look at: itself and former owners, when its owners changed."""
        metadata = stored.identity
        self._keys[metadata["uid"]] = stored.key
        owners = frozenset(reference["uid"] for reference in metadata.get("ownerReferences") or ())
        before = self._owners.get(stored.key, frozenset())
        if owners == before:
            return set()
        self._unlink(stored.key, before - owners)
        for uid in owners:
            self._dependents[uid].add(stored.key)
        if owners:
            self._owners[stored.key] = owners
        else:
            del self._owners[stored.key]
        return {stored.key, *self._present(before - owners)}

    def gone(self, stored: Stored) -> set[str]:
        """Take in a deletion; return the keys to look at: dependents, and owners that may have waited for it.

        Nobody knows the uid, and so the dependents, of what was damaged: everything that has an owner is looked at.
        """
        uid = stored.identity["uid"]
        if not uid:
            self._owners.pop(stored.key, None)
            return set(self._owners)
        self._keys.pop(uid, None)
        give_back(self._keys)
        if uid in self._dependents:
            _remember(self._gone, uid, REMEMBERED)
        else:
            _remember(self._gone_alone, uid, REMEMBERED_ALONE)
        owners = self._owners.pop(stored.key, frozenset())
        self._unlink(stored.key, owners)
        return {*self._dependents.get(uid, ()), *self._present(owners)}

    def _unlink(self, key: str, owners: frozenset[str]) -> None:
        for uid in owners:
            self._dependents[uid].discard(key)
            if not self._dependents[uid]:
                del self._dependents[uid]

    def _present(self, uids: frozenset[str]) -> set[str]:
        return {self._keys[uid] for uid in uids if uid in self._keys}


def _remember(uids: OrderedDict[str, None], uid: str, limit: int) -> None:
    uids[uid] = None
    if len(uids) > limit:
        uids.popitem(last=False)
