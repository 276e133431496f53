"""A blob that comes in pieces: written and digested in a thread while more of it comes."""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

_BATCH = 2 << 20
"""Bytes that go to the thread at once: to change threads for each piece of a socket costs more than its digest."""
_CHUNK = 1 << 20


class Arrival:
    """What has come of a blob, in a file that is appended to. `size` in bytes, those that are being written included.

    Made from what the file has already, which is read: not for the thread of an event loop.
    """

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.size = 0
        with open(file.name, "rb", buffering=0) as before:
            while data := before.read(_CHUNK):
                self._hash.update(data)
                self.size += len(data)

    @property
    def digest(self) -> str:
        """The digest of all that has come, while nothing is being written."""
        return f"sha256:{self._hash.hexdigest()}"

    def begin_anew(self) -> None:
        """Forget what has come."""
        self._file.truncate(0)
        self._hash = hashlib.sha256()
        self.size = 0

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Callable[[bytes], Awaitable[None]]]:
        """Yield what takes a piece. Two batches are in memory at most; at the end, also one in error, all is written.

        Raises OSError where the file cannot be written.
        """
        loop = asyncio.get_running_loop()
        batch: list[bytes] = []
        written: asyncio.Future[None] | None = None

        async def flush() -> None:
            nonlocal batch, written
            if written is not None:
                await written
            full, batch = batch, []
            written = loop.run_in_executor(None, self._write, full)

        async def put(data: bytes) -> None:
            batch.append(data)
            self.size += len(data)
            if sum(map(len, batch)) >= _BATCH:
                await flush()

        try:
            yield put
        finally:
            await flush()
            assert written is not None
            await written

    def _write(self, batch: Sequence[bytes]) -> None:
        for data in batch:
            self._hash.update(data)
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) :]
