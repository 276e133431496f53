"""What a store refuses, and why.

StoreError          the file cannot be used: no permission, corrupt; `hint` says what to do
├─ StoreFull        there is no room for the write
└─ StoreReadOnly    the disk, or who runs this, may only read
Damaged             the object is there and cannot be read: the disk has changed it
KeyExists           create of a key that is there
KeyMissing          update or delete of a key that is not
RevisionMismatch    update or delete that expected another revision
Compacted           a revision older than what is retained, or a watcher that fell behind: list again
FutureRevision      a revision that was never handed out
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainshed.cluster.store.model import Stored


class StoreError(Exception):
    """The file behind the store failed. Nothing of the failed write is visible; later writes may work."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class StoreFull(StoreError):
    """There is no room for the write. Reads go on."""


class StoreReadOnly(StoreError):
    """The file may only be read, by this user or by anybody. Reads go on, and writes work again once it may be
    written."""


class Damaged(Exception):
    """The stored object is not what was written at `revision`. It can only be discarded."""

    def __init__(self, key: str, revision: int) -> None:
        super().__init__(f"{key}, written at revision {revision}, is damaged")
        self.key = key
        self.revision = revision


class KeyExists(Exception):
    """The key is taken by `current`."""

    def __init__(self, current: Stored) -> None:
        super().__init__(f"{current.key} exists")
        self.current = current


class KeyMissing(Exception):
    """There is no such key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} does not exist")
        self.key = key


class RevisionMismatch(Exception):
    """The object changed since it was read; `current` is what is there now."""

    def __init__(self, current: Stored) -> None:
        super().__init__(f"{current.key} is at revision {current.revision}")
        self.current = current


class Compacted(Exception):
    """Events after `since` are no longer retained; the oldest usable position is `floor`."""

    def __init__(self, since: int, floor: int) -> None:
        super().__init__(f"revision {since} is compacted, {floor} is the oldest")
        self.since = since
        self.floor = floor


class FutureRevision(Exception):
    """Revision `wanted` was not handed out yet; the store is at `current`."""

    def __init__(self, wanted: int, current: int) -> None:
        super().__init__(f"revision {wanted} is in the future, the store is at {current}")
        self.wanted = wanted
        self.current = current
