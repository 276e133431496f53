"""What a durable write costs, for 0001: `python docs/decisions/measure/store.py [directory]`.

One object is the JSON of a pod (4 KiB). Every case acknowledges a write only when it is on the disk, except those
marked "not durable". Rounds alternate between the cases. `lmdb` is measured when it is installed.
"""
# ruff: noqa: T201

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from figures import in_fresh_process, median, p99, print_table, print_versions

from trainshed.cluster.store import Store

POD = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"text": "x" * 4000}}
BODY = json.dumps(POD).encode()
WRITES = 100
ROUNDS = 6
OPEN = """
import asyncio, sys, time
from pathlib import Path
from trainshed.cluster.store import Store
sys.path.insert(0, sys.argv[2])
from figures import memory_mib
async def main():
    before = memory_mib()
    started = time.perf_counter()
    store = await Store.open(Path(sys.argv[1]))
    print((time.perf_counter() - started) * 1e3, memory_mib() - before)
    await store.close()
asyncio.run(main())
"""


def timed(write: Callable[[int], None]) -> list[float]:
    """Return the seconds of each of WRITES calls."""
    out = []
    for number in range(WRITES):
        started = time.perf_counter()
        write(number)
        out.append(time.perf_counter() - started)
    return out


def one_fsync(folder: Path) -> list[float]:
    with (folder / "plain").open("wb", buffering=0) as file:

        def write(number: int) -> None:
            file.write(BODY)
            os.fdatasync(file.fileno())

        return timed(write)


def file_per_object(folder: Path) -> list[float]:
    (folder / "objects").mkdir()
    directory = os.open(folder / "objects", os.O_RDONLY)

    def write(number: int) -> None:
        temporary = folder / "objects" / "tmp"
        with temporary.open("wb") as file:
            file.write(BODY)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(folder / "objects" / str(number))
        os.fsync(directory)

    try:
        return timed(write)
    finally:
        os.close(directory)


def sqlite(folder: Path, journal: str, synchronous: str) -> list[float]:
    db = sqlite3.connect(folder / "plain.db", isolation_level=None)
    db.execute(f"PRAGMA journal_mode={journal}")
    db.execute(f"PRAGMA synchronous={synchronous}")
    db.execute("CREATE TABLE log (revision INTEGER PRIMARY KEY, value BLOB)")
    out = timed(lambda number: void(db.execute("INSERT INTO log VALUES (?, ?)", (number, BODY))))
    db.close()
    return out


def lmdb(folder: Path) -> list[float]:
    import lmdb as library

    with library.open(str(folder / "lmdb"), map_size=1 << 28) as environment:

        def write(number: int) -> None:
            with environment.begin(write=True) as transaction:
                transaction.put(b"%020d" % number, BODY)

        return timed(write)


def void(value: object) -> None:
    """Drop a result."""


def the_store(folder: Path, writers: int) -> list[float]:
    """Return seconds per write with `writers` tasks that each write one object after another."""

    async def main() -> list[float]:
        store = await Store.open(folder / "store.db")
        out: list[float] = []

        async def writer(name: int) -> None:
            for number in range(max(WRITES // 4, WRITES // writers)):
                started = time.perf_counter()
                await store.create(f"/core/pods/default/{name}-{number}", POD)
                out.append(time.perf_counter() - started)

        started = time.perf_counter()
        await asyncio.gather(*(writer(name) for name in range(writers)))
        rates.setdefault(writers, []).append(len(out) / (time.perf_counter() - started))
        grouping.setdefault(writers, []).append(len(out) / store.commits)
        await store.close()
        return out

    return asyncio.run(main())


rates: dict[int, list[float]] = {}
grouping: dict[int, list[float]] = {}


def main() -> None:
    parent = sys.argv[1] if len(sys.argv) > 1 else None
    cases: dict[str, Callable[[Path], list[float]]] = {
        "write + fdatasync of a plain file": one_fsync,
        "a file per object: write, fsync, rename, fsync": file_per_object,
        "SQLite, rollback journal, FULL": lambda f: sqlite(f, "DELETE", "FULL"),
        "SQLite, WAL, FULL": lambda f: sqlite(f, "WAL", "FULL"),
        "SQLite, WAL, NORMAL (not durable)": lambda f: sqlite(f, "WAL", "NORMAL"),
        "the store, 1 writer": lambda f: the_store(f, 1),
        "the store, 16 writers": lambda f: the_store(f, 16),
        "the store, 64 writers": lambda f: the_store(f, 64),
    }
    try:
        import lmdb as _  # noqa: F401

        cases["LMDB"] = lmdb
    except ImportError:
        pass
    samples: dict[str, list[float]] = {name: [] for name in cases}
    for _round in range(ROUNDS):
        for name, case in cases.items():
            with tempfile.TemporaryDirectory(dir=parent) as folder:
                samples[name] += case(Path(folder))
    print_versions("msgspec")
    print(f"SQLite {sqlite3.sqlite_version}\n")
    rows = [[n, f"{median(v) * 1e3:.2f} ms", f"{p99(v) * 1e3:.2f} ms"] for n, v in samples.items()]
    print_table(["", "median", "p99"], rows)
    print()
    rows = [[str(w), f"{median(rates[w]):,.0f}", f"{median(grouping[w]):.1f}"] for w in sorted(rates)]
    print_table(["concurrent writers", "writes/s", "writes per commit"], rows)
    print()
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        fill(Path(folder) / "store.db", 10_000)
        size = (Path(folder) / "store.db").stat().st_size / 2**20
        milliseconds, mebibytes = in_fresh_process(OPEN, f"{folder}/store.db", str(Path(__file__).parent))
        print(f"open with 10,000 such objects ({size:.0f} MiB): {milliseconds:.0f} ms, {mebibytes:.0f} MiB")


def fill(path: Path, count: int) -> None:
    async def main() -> None:
        store = await Store.open(path)
        await asyncio.gather(*(store.create(f"/core/pods/default/p{n}", POD) for n in range(count)))
        await store.close()

    asyncio.run(main())


if __name__ == "__main__":
    main()
