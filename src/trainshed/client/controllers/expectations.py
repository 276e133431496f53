"""What this process has written and its informers have not shown yet.

A reconcile that decides on a cache from before its own last writes repeats them. Names and preconditions
make the repetition harmless for the cluster, but events and counters would double, and a deleted pod would
still look like a failure. So a job with an outstanding write is left alone until its informers catch up;
the event they wait for is itself what triggers the next reconcile.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from trainshed.client.informer import Informer, Key
from trainshed.kube.meta.objects import Object, is_terminating, name_of, namespace_of, uid_of

PATIENCE_SECONDS = 30.0
"""An expectation that old is given up: the write was undone by someone else, or never became visible."""


class _Expectation(msgspec.Struct):
    met: Callable[[], bool]
    deadline: float


class Expectations:
    """By job key. `now` arguments are in seconds of any clock that only grows."""

    def __init__(self) -> None:
        self._pending: dict[Key, list[_Expectation]] = {}

    def unmet(self, key: Key, now: float) -> float | None:
        """Return for how many seconds `key` has to wait at most, or None when its caches are fresh."""
        pending = [e for e in self._pending.get(key, ()) if e.deadline > now and not e.met()]
        if not pending:
            self._pending.pop(key, None)
            return None
        self._pending[key] = pending
        return max(e.deadline for e in pending) - now

    def wrote(self, key: Key, informer: Informer, obj: Object, now: float) -> None:
        """`obj` is what the API answered to a create or an update."""
        where, uid = (namespace_of(obj), name_of(obj)), uid_of(obj)
        version = _number(obj["metadata"].get("resourceVersion"))

        def met() -> bool:
            cached = informer.get(*where)
            if cached is not None and uid_of(cached) == uid:
                return _number(cached["metadata"].get("resourceVersion")) >= version
            return _number(informer.resource_version) >= version  # seen and gone again

        self._add(key, met, now)

    def deleting(self, key: Key, informer: Informer, namespace: str, name: str, uid: str, now: float) -> None:
        """The API has accepted the deletion of the object with `uid`."""

        def met() -> bool:
            cached = informer.get(namespace, name)
            return cached is None or uid_of(cached) != uid or is_terminating(cached)

        self._add(key, met, now)

    def forget(self, key: Key) -> None:
        """The job is gone."""
        self._pending.pop(key, None)

    def _add(self, key: Key, met: Callable[[], bool], now: float) -> None:
        self._pending.setdefault(key, []).append(_Expectation(met, now + PATIENCE_SECONDS))


def _number(version: object) -> int:
    """Resource versions of one resource are ordered integers (KEP-5504); anything else is never awaited."""
    return int(version) if isinstance(version, str) and version.isdigit() else 0
