"""Searches for a sequence of calls that breaks a guarantee of the store.

The model is a dict and a list of every change ever made; after each step the store must agree with it.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from trainshed.cluster.store import Compacted, KeyExists, KeyMissing, RevisionMismatch, Store, Watch
from trainshed.cluster.store.writer import LARGE_BYTES

RETAIN = 12
LIMIT = 5
READERS = 3
KEYS = st.sampled_from([f"/core/things/{ns}/{name}" for ns in ("a", "b") for name in ("x", "y")])
PREFIXES = st.sampled_from(["/core/things/", "/core/things/a/", "/core/things/b/"])


class Reader:
    """A client that follows a prefix: it reads now and then, a little at a time, and comes back when it was cut off."""

    def __init__(self, prefix: str, at: int) -> None:
        self.prefix = prefix
        self.at = at
        self.watch: Watch | None = None


class StoreMachine(RuleBasedStateMachine):
    """Creates, updates, deletes, lists, watches and restarts, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "s.db"
        self.loop = asyncio.new_event_loop()
        self.state: dict[str, tuple[int, int]] = {}  # key -> (revision, value)
        self.history: list[tuple[int, str, str, int]] = []  # (revision, type, key, value)
        self.revision = 1
        self.counter = 0
        self.readers: list[Reader] = []
        self.restarted = False

    def run(self, coroutine: Any) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, 20))

    @initialize()
    def open(self) -> None:
        self.store = self.run(Store.open(self.path, retain=RETAIN))

    def _record(self, type_: str, key: str, value: int, stored: Any) -> None:
        assert stored.revision == self.revision + 1, "Ordered: one revision per write, no gaps"
        self.revision = stored.revision
        self.history.append((stored.revision, type_, key, value))

    @rule(key=KEYS)
    def create(self, key: str) -> None:
        self.counter += 1
        try:
            stored = self.run(self.store.create(key, {"metadata": {}, "value": self.counter}))
        except KeyExists:
            assert key in self.state
            return
        assert key not in self.state
        self._record("ADDED", key, self.counter, stored)
        self.state[key] = (stored.revision, self.counter)

    @rule(key=KEYS, stale=st.booleans())
    def update(self, key: str, stale: bool) -> None:
        self.counter += 1
        current = self.state.get(key)
        expected = (current[0] if current else 1) - (1 if stale and current else 0)
        try:
            stored = self.run(
                self.store.update(key, {"metadata": {}, "value": self.counter}, max(expected, 1))
            )
        except KeyMissing:
            assert current is None
            return
        except RevisionMismatch:
            assert stale
            return
        assert current is not None and not stale
        self._record("MODIFIED", key, self.counter, stored)
        self.state[key] = (stored.revision, self.counter)

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        current = self.state.get(key)
        try:
            stored = self.run(self.store.delete(key, current[0] if current else 1))
        except KeyMissing:
            assert current is None
            return
        assert current is not None
        self._record("DELETED", key, current[1], stored)
        del self.state[key]

    @rule(key=KEYS, number=st.integers(LIMIT, 2 * LIMIT))
    def busy(self, key: str, number: int) -> None:
        """Many writes before anybody reads."""
        for _ in range(number):
            self.update(key, stale=False) if key in self.state else self.create(key)

    @rule(
        calls=st.lists(st.tuples(KEYS, st.sampled_from(("write", "large", "delete"))), min_size=2, max_size=6)
    )
    def together(self, calls: list[tuple[str, str]]) -> None:
        """Calls at the same time, each for the version that it sees now; large objects may go after later ones."""
        started = []
        for key, what in calls:
            self.counter += 1
            value, read = self.counter, self.state.get(key, (0, 0))[0]
            obj = {"metadata": {}, "value": value, "padding": "x" * (LARGE_BYTES if what == "large" else 0)}
            size = len(obj["padding"])
            call = (
                self.store.delete(key, max(read, 1))
                if what == "delete"
                else self.store.update(key, obj, read)
                if read
                else self.store.create(key, obj, size)
            )
            started.append((call, key, what, value, read))

        async def all_of_them() -> list[Any]:
            return await asyncio.gather(*(call for call, *_ in started), return_exceptions=True)

        outcomes = list(zip(self.run(all_of_them()), started, strict=True))
        taken = [(o.revision, o, *call[1:]) for o, call in outcomes if not isinstance(o, Exception)]
        for revision, stored, key, what, value, read in sorted(taken, key=lambda one: one[0]):
            current = self.state.get(key)
            assert read == (current[0] if current else 0), "Serialisable: a write replaces what it has read"
            if what == "delete":
                assert current is not None
                self._record("DELETED", key, current[1], stored)
                del self.state[key]
            else:
                self._record("MODIFIED" if current else "ADDED", key, value, stored)
                self.state[key] = (revision, value)
        written = {key for _, _, key, *_ in taken}
        for outcome, (_, key, what, _, read) in outcomes:
            if isinstance(outcome, Exception):
                assert isinstance(outcome, (KeyExists, KeyMissing, RevisionMismatch)), outcome
                assert key in written or (what == "delete" and not read), "nobody else wrote this key"

    @rule()
    def restart(self) -> None:
        self.run(self.store.close())
        self.store = self.run(Store.open(self.path, retain=RETAIN))
        self.restarted = True

    @rule(prefix=PREFIXES, back=st.integers(0, 3 * RETAIN))
    def watch(self, prefix: str, back: int) -> None:
        since = max(1, self.revision - back)
        expected = [h for h in self.history if h[0] > since and h[2].startswith(prefix)]
        try:
            watch = self.store.watch(prefix, since)
        except Compacted:
            assert self.revision - since > RETAIN, "Reliable: what is retained can be replayed"
            return
        got = self.run(watch.batch()) if expected else []
        watch.close()
        seen = [(e.revision, e.type, e.key, e.stored.obj["value"]) for e in got]
        assert seen == expected, "Ordered, Unique, Reliable: every change after `since`, once, in order"

    @rule(prefix=PREFIXES)
    def follow(self, prefix: str) -> None:
        if len(self.readers) < READERS:
            reader = Reader(prefix, self.revision)
            reader.watch = self.store.watch(prefix, reader.at, limit=LIMIT)
            self.readers.append(reader)

    @rule(index=st.integers(0, READERS - 1), most=st.integers(1, 6))
    def read_some(self, index: int, most: int) -> None:
        """Slowly: what is not read waits, up to `LIMIT` events, after which the reader is told to list again."""
        if not self.readers:
            self.follow("/core/things/")
        reader = self.readers[index % len(self.readers)]
        due = [h for h in self.history if h[0] > reader.at and h[2].startswith(reader.prefix)]
        try:
            if reader.watch is None:
                reader.watch = self.store.watch(reader.prefix, reader.at, limit=LIMIT)
            for revision, type_, key, value in due[:most]:
                event = self.run(anext(reader.watch))
                got = (event.revision, event.type, event.key, event.stored.obj["value"])
                assert got == (revision, type_, key, value), (
                    "Ordered, Unique, Reliable, however slowly it is read"
                )
                reader.at = revision
        except StopAsyncIteration:
            assert self.restarted, "only a store that closes ends a watch"
            reader.watch = None  # and comes back from where it was
        except Compacted:
            missed = self.revision - reader.at
            assert len(due) >= LIMIT or missed > RETAIN, (
                "Reliable: told to list again only when events are gone"
            )
            if reader.watch is not None:
                reader.watch.close()
            reader.watch, reader.at = None, self.revision

    @rule(index=st.integers(0, READERS - 1))
    def cut_off(self, index: int) -> None:
        """A connection ends: the reader comes back from the last event that it has seen."""
        for reader in self.readers[index : index + 1]:
            if reader.watch is not None:
                reader.watch.close()
            reader.watch = None

    @invariant()
    def what_waits_for_readers_is_bounded(self) -> None:
        for reader in self.readers:
            assert reader.watch is None or len(reader.watch._pending) <= max(LIMIT, RETAIN)

    @rule(prefix=PREFIXES, back=st.integers(0, 2 * RETAIN))
    def snapshot_is_resumable(self, prefix: str, back: int) -> None:
        at = max(1, self.revision - back)
        try:
            state = {s.key: s.obj["value"] for s in self.store.snapshot(prefix, at)}
        except Compacted:
            assert self.revision - at > RETAIN
            return
        for _, type_, key, value in (h for h in self.history if h[0] > at and h[2].startswith(prefix)):
            if type_ == "DELETED":
                del state[key]
            else:
                state[key] = value
        now = {k: v for k, (_, v) in self.state.items() if k.startswith(prefix)}
        assert state == now, "Resumable: list at N and the changes after N give the list now"

    @invariant()
    def agrees_with_the_model(self) -> None:
        if not hasattr(self, "store"):
            return
        items, revision = self.store.list("/core/things/")
        assert revision == self.revision
        found = {s.key: (s.revision, s.obj["value"]) for s in items}
        assert found == self.state
        assert [s.key for s in items] == sorted(self.state)
        assert all(s.obj["metadata"]["resourceVersion"] == str(s.revision) for s in items)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.run(self.store.close())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        self.directory.cleanup()


TestStore = StoreMachine.TestCase
TestStore.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
