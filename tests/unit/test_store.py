"""The store's contract, one guarantee per test; `test_store_stateful.py` searches for counterexamples."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
from pathlib import Path

import pytest

from tests.fakes.virtual_time import run_virtual
from trainshed.cluster.store import (
    ADDED,
    Compacted,
    FutureRevision,
    KeyExists,
    KeyMissing,
    RevisionMismatch,
    Store,
    Stored,
    StoreError,
    StoreEvent,
)
from trainshed.cluster.store.model import KEPT_DECODED_BYTES
from trainshed.cluster.store.window import Window


def make_object(name: str, **fields: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": name}, **fields}


async def collect(watch: object, count: int) -> list[StoreEvent]:
    """Return the next `count` events, within 10 s."""
    out: list[StoreEvent] = []

    async def read() -> None:
        async for event in watch:  # type: ignore[attr-defined]
            out.append(event)
            if len(out) == count:
                return

    try:
        await asyncio.wait_for(read(), 10)
    except TimeoutError:
        raise AssertionError(f"got {len(out)} of {count} events: {out}") from None
    return out


async def test_a_write_sets_the_resource_version_and_leaves_the_input_alone(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.db")
    obj = make_object("a")
    stored = await store.create("/core/things/ns/a", obj)
    assert stored.obj["metadata"]["resourceVersion"] == str(stored.revision) == str(store.revision)
    assert "resourceVersion" not in obj["metadata"]  # type: ignore[operator]
    assert store.get("/core/things/ns/a") is stored
    await store.close()


async def test_checks_name_what_is_there(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.db")
    first = await store.create("/core/things/ns/a", make_object("a"))
    with pytest.raises(KeyExists) as exists:
        await store.create("/core/things/ns/a", make_object("a"))
    assert exists.value.current is first
    second = await store.update("/core/things/ns/a", make_object("a", spec=1), first.revision)
    with pytest.raises(RevisionMismatch) as mismatch:
        await store.update("/core/things/ns/a", make_object("a", spec=2), first.revision)
    assert mismatch.value.current is second
    with pytest.raises(KeyMissing):
        await store.update("/core/things/ns/b", make_object("b"), 1)
    with pytest.raises(KeyMissing):
        await store.delete("/core/things/ns/b", 1)
    assert store.revision == second.revision, "a refused write uses no revision"
    await store.close()


async def test_writers_racing_for_one_key_are_serialised(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.db")
    base = await store.create("/core/things/ns/a", make_object("a"))
    outcomes = await asyncio.gather(
        *(store.update("/core/things/ns/a", make_object("a", spec=i), base.revision) for i in range(20)),
        return_exceptions=True,
    )
    won = [o for o in outcomes if not isinstance(o, BaseException)]
    assert len(won) == 1
    assert all(isinstance(o, RevisionMismatch) for o in outcomes if isinstance(o, BaseException))
    await store.close()


@pytest.mark.parametrize("count", [1, 64, 65, 200])
async def test_writes_of_one_turn_share_a_commit(tmp_path: Path, count: int) -> None:
    store = await Store.open(tmp_path / "s.db")
    await asyncio.gather(*(store.create(f"/core/things/ns/{i}", make_object(str(i))) for i in range(count)))
    assert store.commits == 1
    await store.close()
    again = await Store.open(tmp_path / "s.db")
    assert (len(again), again.revision) == (count, count + 1)
    await again.close()


async def test_list_is_sorted_and_scoped(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.db")
    for key in ("/core/things/b/x", "/core/things/a/z", "/core/things/a/y", "/core/thing/a/q", "/apps/d/a/r"):
        await store.create(key, make_object(key))
    items, revision = store.list("/core/things/")
    assert [s.key for s in items] == ["/core/things/a/y", "/core/things/a/z", "/core/things/b/x"]
    assert revision == store.revision
    assert [s.key for s in store.list("/core/things/a/")[0]] == ["/core/things/a/y", "/core/things/a/z"]
    assert len(store.list("/")[0]) == 5
    assert store.list("/core/nothing/")[0] == []
    await store.close()


async def test_resumable_list_then_watch_misses_nothing(tmp_path: Path) -> None:
    """Writes before the list, between list and watch, and while watching."""
    store = await Store.open(tmp_path / "s.db")

    async def write(first: int) -> None:
        names = [str(first + i) for i in range(100)]
        await asyncio.gather(*(store.create(f"/core/things/ns/{n}", make_object(n)) for n in names))

    await write(0)
    items, revision = store.list("/core/things/")
    await write(100)
    watch = store.watch("/core/things/ns/", revision)
    live = asyncio.ensure_future(write(200))
    events = await collect(watch, 200)
    await live
    assert [e.revision for e in events] == list(range(revision + 1, revision + 201))
    assert {s.key for s in items} | {e.key for e in events} == {f"/core/things/ns/{i}" for i in range(300)}
    await store.close()


async def test_a_watch_from_the_future_waits_for_it(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.db")
    watch = store.watch("/core/things/", store.revision + 2)
    made = [await store.create(f"/core/things/ns/{i}", make_object(str(i))) for i in range(3)]
    (event,) = await collect(watch, 1)
    assert event.revision == made[2].revision
    await store.close()


async def test_a_deletion_carries_the_last_state_at_a_new_revision(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.db")
    made = await store.create("/core/things/ns/a", make_object("a", spec=1))
    watch = store.watch("/core/things/", made.revision)
    gone = await store.delete("/core/things/ns/a", made.revision)
    assert store.get("/core/things/ns/a") is None
    (event,) = await collect(watch, 1)
    assert event.type == "DELETED"
    assert event.stored is gone
    assert gone.obj["spec"] == 1
    assert gone.obj["metadata"]["resourceVersion"] == str(gone.revision) == str(made.revision + 1)
    assert event.previous is made
    await store.close()


async def test_a_watcher_sees_only_its_prefix(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.db")
    watch = store.watch("/core/things/a/", store.revision)
    await store.create("/core/things/ab/1", make_object("1"))
    await store.create("/core/things/a/2", make_object("2"))
    assert [e.key for e in await collect(watch, 1)] == ["/core/things/a/2"]
    await store.close()


def test_a_watch_is_waited_for_until_a_time() -> None:
    """It is told at that time, whether or not something came before; what waits is handed out first."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        window = Window(10, 1)
        watch = window.watch("/", 1, 10)
        end = loop.time() + 5
        for number in (2, 3):
            loop.call_later(number, window.publish, StoreEvent(ADDED, Stored("/a", number, 2, b"{}"), None))
            assert [event.revision for event in await watch.batch(end)] == [number]
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await watch.batch(end)
            assert loop.time() == end
        loop.call_later(1, watch.close)
        assert await watch.batch(end + 5) == []
        assert loop.time() == end + 1

    run_virtual(main())


async def test_a_watcher_that_falls_behind_is_told_to_list_again(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.db")
    watch = store.watch("/core/things/", store.revision, limit=5)
    other = store.watch("/core/things/", store.revision)
    for i in range(6):
        await store.create(f"/core/things/ns/{i}", make_object(str(i)))
    with pytest.raises(Compacted):
        await collect(watch, 1)
    assert len(await collect(other, 6)) == 6, "others are not affected"
    await store.close()


async def test_closing_the_store_ends_watches_and_refuses_writes(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.db")
    watch = store.watch("/core/things/", store.revision)
    reading = asyncio.ensure_future(watch.batch())
    await store.close()
    await store.close()
    assert await asyncio.wait_for(reading, 5) == []
    with pytest.raises(StoreError):
        await store.create("/core/things/ns/a", make_object("a"))


async def test_reopening_gives_the_same_objects_revisions_and_history(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.db")
    one = await store.create("/core/things/ns/1", make_object("1"))
    two = await store.create("/core/things/ns/2", make_object("2"))
    one = await store.update(one.key, make_object("1", spec=1), one.revision)
    await store.delete(two.key, two.revision)
    revision = store.revision
    await store.close()

    store = await Store.open(tmp_path / "s.db")
    assert store.revision == revision
    found = store.get(one.key)
    assert found is not None
    assert (found.revision, found.create_revision, found.encoded) == (
        one.revision,
        one.create_revision,
        one.encoded,
    )
    events = await collect(store.watch("/core/things/", 1), 4)
    assert [(e.type, e.revision) for e in events] == [
        ("ADDED", 2),
        ("ADDED", 3),
        ("MODIFIED", 4),
        ("DELETED", 5),
    ]
    assert events[3].previous is not None
    assert events[3].previous.revision == two.revision
    assert (await store.create(two.key, make_object("2"))).revision == revision + 1
    await store.close()


async def test_compaction_keeps_the_window_and_never_moves_the_revision_back(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = await Store.open(path, retain=50)
    made = await store.create("/core/things/ns/a", make_object("a"))
    for i in range(400):
        made = await store.update(made.key, make_object("a", spec=i), made.revision)
    await store.delete(made.key, made.revision)
    revision = store.revision
    with pytest.raises(Compacted):
        store.watch("/core/things/", revision - 51)
    assert len(await collect(store.watch("/core/things/", revision - 50), 50)) == 50
    await store.close()
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM log").fetchone()[0] < 110
    db.close()

    store = await Store.open(path, retain=50)
    assert store.revision == revision
    assert len(store) == 0
    assert len(await collect(store.watch("/core/things/", revision - 50), 50)) == 50
    await store.close()


async def test_the_revision_survives_when_every_row_was_compacted(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.db", retain=1)
    for i in range(5):
        made = await store.create(f"/core/things/ns/{i}", make_object(str(i)))
        await store.delete(made.key, made.revision)
    revision = store.revision
    await store.close()
    for _ in range(3):
        store = await Store.open(tmp_path / "s.db", retain=1)
        assert store.revision == revision
        await store.close()


async def test_a_snapshot_is_the_state_at_its_revision(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.db")
    a = await store.create("/core/things/ns/a", make_object("a"))
    b = await store.create("/core/things/ns/b", make_object("b"))
    at = store.revision
    await store.update(a.key, make_object("a", spec=1), a.revision)
    await store.delete(b.key, b.revision)
    await store.create("/core/things/ns/c", make_object("c"))
    assert [(s.key, s.revision) for s in store.snapshot("/core/things/", at)] == [
        (a.key, a.revision),
        (b.key, b.revision),
    ]
    with pytest.raises(FutureRevision):
        store.snapshot("/core/things/", store.revision + 1)
    await store.close()


async def test_a_full_disk_fails_every_waiting_writer_and_harms_nothing(tmp_path: Path) -> None:
    """RLIMIT_FSIZE plays the full disk: every write beyond the limit fails."""
    store = await Store.open(tmp_path / "s.db")
    kept = await store.create("/core/things/ns/kept", make_object("kept"))
    revision = store.revision
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "s.db-wal").stat().st_size, hard))
    try:
        outcomes = await asyncio.wait_for(
            asyncio.gather(
                *(
                    store.create(f"/core/things/ns/{i}", make_object(str(i), data="x" * 8000))
                    for i in range(10)
                ),
                return_exceptions=True,
            ),
            20,
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert all(isinstance(o, StoreError) for o in outcomes), outcomes
    assert "space" in outcomes[0].hint  # type: ignore[union-attr]
    assert store.revision == revision
    assert [s.key for s in store.list("/core/things/")[0]] == [kept.key]

    after = await store.create("/core/things/ns/0", make_object("0"))
    assert after.revision == revision + 1
    await store.close()
    store = await Store.open(tmp_path / "s.db")
    assert [s.key for s in store.list("/core/things/")[0]] == ["/core/things/ns/0", kept.key]
    await store.close()


async def test_a_file_that_is_not_a_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(b"this is not a database, it is a text" * 100)
    with pytest.raises(StoreError, match="damaged") as error:
        await Store.open(path)
    assert "move" in error.value.hint
    assert path.read_bytes().startswith(b"this is not a database")


async def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = await Store.open(path)
    for i in range(50):
        await store.create(f"/core/things/ns/{i}", make_object(str(i), data="x" * 2000))
    await store.close()
    data = bytearray(path.read_bytes())
    data[8192:16384] = b"\xff" * 8192
    path.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        await Store.open(path)


async def test_a_missing_directory_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as error:
        await Store.open(tmp_path / "no" / "such" / "s.db")
    assert "TRAINSHED_HOME" in error.value.hint


async def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "s.db")
    db.execute("PRAGMA user_version=999")
    db.close()
    with pytest.raises(StoreError, match="newer release"):
        await Store.open(tmp_path / "s.db")


async def test_the_file_is_private(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.db")
    await store.create("/core/secrets/ns/a", make_object("a"))
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path
    await store.close()


def test_few_objects_stay_decoded() -> None:
    """Decoded they take six times their bytes. Whatever was decoded before, by whichever test, counts alike."""
    kept = [Stored(f"/a/b/{n}", n, n, b'{"a": "%s"}' % (b"x" * 1024)) for n in range(2, 2002)]
    for stored in kept:
        assert stored.obj["a"]
    held = sum(len(stored.encoded) for stored in kept if stored._obj)
    assert 0 < held <= KEPT_DECODED_BYTES
    assert kept[-1]._obj and not kept[0]._obj
    assert kept[0].obj["a"] == "x" * 1024
