"""A volume's files change together, as seen by a reader beside the writer."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from trainshed.cluster.node.volumes import atomic
from trainshed.cluster.node.volumes.files import File
from trainshed.pipelines.runner.turn import filled


def test_a_reader_never_sees_half_an_update(tmp_path):
    """Two files that always carry the same number, read while they change 300 times."""
    volume = tmp_path / "v"
    atomic.write(volume, {"x": File(b"0"), "y": File(b"0")})
    stop, torn = threading.Event(), []

    def look():
        while not stop.is_set():
            if not (volume / "..data").is_symlink():
                torn.append("no ..data")
            try:
                descriptor = os.open(volume / "..data", os.O_RDONLY)
            except FileNotFoundError:
                continue  # the generation that the link named was replaced in between: look again
            try:
                values = set()
                for name in ("x", "y"):
                    fd = os.open(name, os.O_RDONLY, dir_fd=descriptor)
                    values.add(os.read(fd, 20))
                    os.close(fd)
                if len(values) != 1:
                    torn.append(values)
            except FileNotFoundError:
                pass  # this generation was removed meanwhile: look again
            finally:
                os.close(descriptor)

    reader = threading.Thread(target=look)
    reader.start()
    for number in range(300):
        data = str(number).encode()
        atomic.write(volume, {"x": File(data), "y": File(data)})
    stop.set()
    reader.join()
    assert torn == []


@pytest.mark.parametrize("updates", [1, 3])
async def test_who_waits_for_a_file_to_be_filled_is_told(updates: int, tmp_path: Path) -> None:
    """Whatever updates come before and how many at once; again and again, since they come at any moment of the wait."""

    def write(volume: Path) -> None:
        for number in range(1, updates):
            atomic.write(volume, {"ready": File(b""), "x": File(str(number).encode())})
        atomic.write(volume, {"ready": File(b"READY")})

    for number in range(100):
        volume = tmp_path / str(number)
        atomic.write(volume, {"ready": File(b"")})
        waiting = asyncio.ensure_future(filled(volume / "ready"))
        await asyncio.gather(asyncio.to_thread(write, volume), asyncio.wait_for(waiting, 20))
