"""Where objects live: a revisioned, durable key-value store with watches.

Knows keys, JSON objects and revisions; nothing of Kubernetes beyond `metadata.resourceVersion`, and in `keys` how
the objects of a resource are found.
"""

from trainshed.cluster.store import keys
from trainshed.cluster.store.damage import Damage, read_report
from trainshed.cluster.store.errors import (
    Compacted,
    Damaged,
    FutureRevision,
    KeyExists,
    KeyMissing,
    RevisionMismatch,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from trainshed.cluster.store.model import ADDED, DELETED, MODIFIED, Stored, StoreEvent
from trainshed.cluster.store.store import RETAIN, Store
from trainshed.cluster.store.window import Watch

__all__ = [
    "ADDED",
    "DELETED",
    "MODIFIED",
    "RETAIN",
    "Compacted",
    "Damage",
    "Damaged",
    "FutureRevision",
    "KeyExists",
    "KeyMissing",
    "RevisionMismatch",
    "Store",
    "StoreError",
    "StoreEvent",
    "StoreFull",
    "StoreReadOnly",
    "Stored",
    "Watch",
    "keys",
    "read_report",
]
