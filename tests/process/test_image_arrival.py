"""Blobs that come in pieces: what is written, what its digest is, and what an error leaves."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from trainshed.cluster.images.registry.arrival import Arrival

PIECES = [os.urandom(700_000) for _ in range(9)]
"""More than two batches, none of which ends where a batch does."""


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


async def test_pieces_are_appended_to_what_had_come(tmp_path: Path) -> None:
    place = tmp_path / "blob"
    place.write_bytes(b"before")
    with place.open("ab", buffering=0) as file:
        arrival = Arrival(file)
        assert (arrival.size, arrival.digest) == (6, _digest(b"before"))
        async with arrival.writing() as put:
            for piece in PIECES:
                await put(piece)
    whole = b"before" + b"".join(PIECES)
    assert place.read_bytes() == whole
    assert (arrival.size, arrival.digest) == (len(whole), _digest(whole))


async def test_what_came_before_an_error_is_kept(tmp_path: Path) -> None:
    place = tmp_path / "blob"
    with place.open("ab", buffering=0) as file:
        arrival = Arrival(file)
        with pytest.raises(ConnectionResetError):
            async with arrival.writing() as put:
                await put(b"half")
                raise ConnectionResetError
    assert place.read_bytes() == b"half"
    assert arrival.digest == _digest(b"half")


async def test_what_had_come_can_be_forgotten(tmp_path: Path) -> None:
    place = tmp_path / "blob"
    place.write_bytes(b"before")
    with place.open("ab", buffering=0) as file:
        arrival = Arrival(file)
        arrival.begin_anew()
        async with arrival.writing() as put:
            await put(b"anew")
    assert place.read_bytes() == b"anew"
    assert arrival.digest == _digest(b"anew")


async def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    place = tmp_path / "blob"
    place.touch()
    with place.open("rb", buffering=0) as file:
        arrival = Arrival(file)
        with pytest.raises(OSError, match=r"not writable|not open for writing"):
            async with arrival.writing() as put:
                for piece in PIECES:
                    await put(piece)
