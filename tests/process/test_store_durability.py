"""The store and other processes: what it acknowledged survives kill -9, and a second process is refused."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from trainshed.cluster.store import Store

_WRITER = """
import asyncio, sys
from pathlib import Path
from trainshed.cluster.store import Store

async def main():
    store = await Store.open(Path(sys.argv[1]))
    async def write(i):
        stored = await store.create(f"/core/things/ns/{i}", {"metadata": {"name": str(i)}, "data": "x" * 500})
        sys.stdout.write(f"{i} {stored.revision}\\n")
        sys.stdout.flush()
    i = len(store)
    while True:
        await asyncio.gather(*(write(i + n) for n in range(8)))
        i += 8

asyncio.run(main())
"""


def test_durable_every_acknowledged_write_survives_kill_9(tmp_path: Path) -> None:
    """A subprocess writes as fast as it can and is killed in the middle; three rounds on one file."""
    acknowledged: dict[str, int] = {}
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path / "s.db")], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n"):
                name, revision = line.split()
                acknowledged[name] = int(revision)
            if len(acknowledged) % 150 == 149:
                process.kill()
                break
        for line in process.stdout:  # what was acknowledged before the signal arrived
            if line.endswith("\n"):
                name, revision = line.split()
                acknowledged[name] = int(revision)
        process.stdout.close()
        process.wait(10)

        async def check() -> None:
            store = await Store.open(tmp_path / "s.db")
            for name, revision in acknowledged.items():
                found = store.get(f"/core/things/ns/{name}")
                assert found is not None, f"write {name} was acknowledged at {revision} and is gone"
                assert found.revision == revision
            assert store.revision >= max(acknowledged.values())
            await store.close()

        asyncio.run(check())
    assert len(acknowledged) > 300


async def test_a_second_process_is_refused(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "s.db")
    program = (
        "import asyncio, sys; from pathlib import Path\n"
        "from trainshed.cluster.store import Store, StoreError\n"
        "try: asyncio.run(Store.open(Path(sys.argv[1])))\n"
        "except StoreError as e: print(e)\n"
    )
    out = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", program, str(tmp_path / "s.db")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "in use by another process" in out.stdout, out.stderr
    await store.close()
