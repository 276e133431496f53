"""Kills a process that writes to a store, at random and at every boundary of a commit, and checks the guarantees.

    python -m tests.hostile.crash_store [CRASHES] [--seed N]        # 2,000

The child says what it is about to write and what was acknowledged; the parent opens the file that is left, and holds it
against that:
    durable        what was acknowledged is there, or what a later write made of it
    whole          what was not acknowledged is there as it was meant, or not at all
    ordered        no revision is handed out twice or goes back, in this life or a later one
    serialisable   each write replaced the version that it said it had read
    resumable      a watch from a revision of an earlier life gets every change since, once and in order, or 410
Prints one line of figures; exit code 1 with the seed at the first violation.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from trainshed.cluster.store import Compacted, KeyExists, KeyMissing, RevisionMismatch, Store
from trainshed.cluster.store.log import Log
from trainshed.cluster.store.watermark import Watermark
from trainshed.cluster.store.writer import LARGE_BYTES

RETAIN = 40
KEYS = tuple(f"/core/things/ns/{name}" for name in "abcdefgh")
BOUNDARIES = (
    "before commit",
    "in commit",
    "after commit",
    "after watermark",
    "before compaction",
    "after compaction",
)


class Violation(Exception):
    """A guarantee was broken."""


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_at(boundary: str, countdown: int) -> None:
    """Make the n-th passing of a boundary the last thing that this process does."""
    left = [countdown]

    def passed() -> None:
        left[0] -= 1
        if left[0] <= 0:
            _die()

    append, compact, write = Log.append, Log.compact, Watermark.write

    def appending(self: Log, rows: Any, forget: Any = ()) -> None:
        if boundary == "before commit":
            passed()
        if boundary == "in commit" and left[0] == 1:
            self._db.set_progress_handler(_die, 8)  # steps of a statement: less than a row takes
        append(self, rows, forget)
        if boundary in ("after commit", "in commit"):
            passed()

    def compacting(self: Log, after: int, upto: int) -> None:
        if boundary == "before compaction":
            passed()
        compact(self, after, upto)
        if boundary == "after compaction":
            passed()

    def writing(self: Watermark, revision: int) -> None:
        write(self, revision)
        if boundary == "after watermark":
            passed()

    Log.append, Log.compact, Watermark.write = appending, compacting, writing  # type: ignore[method-assign]


def _padding(chance: random.Random) -> int:
    """Return how long an object is: now and then such that it is committed by itself."""
    return chance.choice((0, 500, 5000)) if chance.random() < 0.95 else 2 * LARGE_BYTES


async def _live(path: Path, out: int, seed: int) -> None:
    """Write until killed."""
    chance = random.Random(seed)
    store = await Store.open(path, retain=RETAIN)

    def say(*words: object) -> None:
        os.write(out, (json.dumps(words) + "\n").encode())

    async def writer(number: int) -> None:
        count = 0
        while True:
            count += 1
            key, value = chance.choice(KEYS), f"{seed}-{number}-{count}"
            current = store.get(key)
            body = {"metadata": {}, "value": value, "padding": "x" * _padding(chance)}
            read = current.revision if current else 0
            delete = current is not None and chance.random() < 0.2
            say("intends", key, None if delete else value, read)
            try:
                if current is None:
                    made = await store.create(key, body)
                elif delete:
                    made = await store.delete(key, read)
                else:
                    made = await store.update(key, body, read)
            except (KeyExists, KeyMissing, RevisionMismatch):
                continue
            say("acknowledged", key, None if delete else value, read, made.revision)

    await asyncio.gather(*(writer(number) for number in range(6)))


class History:
    """Everything that the children said, over all their lives."""

    def __init__(self) -> None:
        self.acknowledged: dict[int, tuple[str, str | None, int]] = {}
        self.intended: set[tuple[str, str | None]] = set()
        self.last = 1

    def hear(self, line: str) -> None:
        kind, key, value, read, *rest = json.loads(line)
        if kind == "intends":
            self.intended.add((key, value))
            return
        revision = rest[0]
        if revision in self.acknowledged or revision <= self.last:
            raise Violation(f"ordered: revision {revision} was handed out, the store had been at {self.last}")
        self.acknowledged[revision] = (key, value, read)

    async def check(self, path: Path) -> int:
        """Hold the file against the history; return how many events were compared."""
        store = await Store.open(path, retain=RETAIN)
        try:
            newest = max(self.acknowledged, default=1)
            if store.revision < newest:
                raise Violation(f"durable: the store is at {store.revision}, {newest} was acknowledged")
            heads: dict[str, tuple[int, str | None]] = {}
            for revision, (key, value, read) in sorted(self.acknowledged.items()):
                before, _ = heads.get(key, (0, None))
                if read and read < before:
                    raise Violation(
                        f"serialisable: {key}@{revision} replaced {read}, which {before} had replaced"
                    )
                heads[key] = (revision, value)
            for key in KEYS:
                self._compare(store, key, *heads.get(key, (0, None)))
            count = self._watch(store)
            self.last = store.revision
            return count
        finally:
            await store.close()

    def _compare(self, store: Store, key: str, revision: int, value: str | None) -> None:
        found = store.get(key)
        seen = found.obj["value"] if found is not None else None
        if found is not None and found.revision < revision:
            raise Violation(f"durable: {key} is at {found.revision}, {revision} was acknowledged")
        if (found is None and value is None) or (
            found is not None and found.revision == revision and seen == value
        ):
            return
        if (key, seen) not in self.intended:
            raise Violation(
                f"whole: {key} is {seen!r}, which nobody wrote; acknowledged was {value!r}@{revision}"
            )
        if found is not None and found.revision == revision:
            raise Violation(f"durable: {key}@{revision} is {seen!r}, acknowledged was {value!r}")

    def _watch(self, store: Store) -> int:
        since = max(store.revision - 30, 1)
        try:
            events = store.watch("/core/things/", since).drain()
        except Compacted:
            if store.revision - since <= RETAIN and store.floor > since and self.last > since:
                raise Violation(
                    f"resumable: {since} is compacted at {store.revision}, floor {store.floor}"
                ) from None
            return 0
        if [event.revision for event in events] != list(range(since + 1, store.revision + 1)):
            raise Violation(f"resumable: the watch from {since} gets {[event.revision for event in events]}")
        for event in events:
            said = self.acknowledged.get(event.revision)
            value = None if event.type == "DELETED" else event.stored.obj["value"]
            if said is not None and (said[0], said[1]) != (event.key, value):
                raise Violation(
                    f"resumable: the event {event.revision} is {event.key}={value!r}, not {said[:2]}"
                )
        return len(events)


def _crash(path: Path, history: History, chance: random.Random, number: int) -> None:
    """Let a child write, and kill it; take in what it said."""
    boundary = BOUNDARIES[number // 2 % len(BOUNDARIES)] if number % 2 else ""
    reader, writer = os.pipe()
    seed, countdown = chance.randrange(2**31), chance.randrange(1, 12)
    child = os.fork()
    if not child:
        try:
            os.close(reader)
            if boundary:
                _die_at(boundary, 2 if "compaction" in boundary else countdown)
            asyncio.run(_live(path, writer, seed))
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader) as lines:
        wanted = 400 if boundary else chance.randrange(2, 200)
        for heard, line in enumerate(lines, 1):
            if heard == wanted:
                os.kill(child, signal.SIGKILL)
            if line.endswith("\n"):
                history.hear(line)
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
        raise Violation(f"the writer ended by itself: {os.waitstatus_to_exitcode(status)}")


def crash_store(crashes: int, seed: int) -> str:
    """Return the line of figures. Raises Violation."""
    chance, history, events = random.Random(seed), History(), 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ts-store-") as home:
        path = Path(home) / "store.db"
        for number in range(crashes):
            try:
                _crash(path, history, chance, number)
                events += asyncio.run(history.check(path))
            except Violation as violation:
                raise Violation(f"{violation}\n(seed {seed}, crash {number})") from None
    return (
        f"crash_store: {crashes} crashes in {time.monotonic() - began:.0f} s, {len(history.acknowledged)} acknowledged"
        f" writes up to revision {history.last}, {events} events compared, 0 violations"
    )


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("crashes", type=int, nargs="?", default=2_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    arguments = parser.parse_args()
    try:
        print(crash_store(arguments.crashes, arguments.seed))
    except Violation as violation:
        print(f"crash_store: VIOLATION: {violation}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
