"""Bytes on their way from a client into a pod, as many as may wait there."""

from __future__ import annotations

import asyncio

MAX_WAITING_BYTES = 1024 * 1024
_PIECE_COST = 64
"""What a piece takes besides its bytes: many small ones are as dear as a few large ones."""


class Inbox:
    """Pieces in order. Who puts more than `limit` bytes, one piece aside, waits until some are taken.

    An empty piece is the end of the client's input.
    """

    def __init__(self, limit: int = MAX_WAITING_BYTES) -> None:
        self._limit = limit
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._waiting = 0
        self._room = asyncio.Event()

    async def put(self, piece: bytes) -> None:
        """Add a piece, once there is room."""
        while self._waiting >= self._limit:
            self._room.clear()
            await self._room.wait()
        self._add(piece)

    def end(self) -> None:
        """Add the end at once: the client has gone, or has said so."""
        self._add(b"")

    def _add(self, piece: bytes) -> None:
        self._waiting += len(piece) + _PIECE_COST
        self._pieces.put_nowait(piece)

    async def get(self) -> bytes:
        """Return the next piece; empty at the end."""
        return self._taken(await self._pieces.get())

    def clear(self) -> None:
        """Drop what waits."""
        while not self._pieces.empty():
            self._taken(self._pieces.get_nowait())

    def _taken(self, piece: bytes) -> bytes:
        self._waiting -= len(piece) + _PIECE_COST
        self._room.set()
        return piece
