"""A stream that is written in a thread of its own: one that is slow, or stands still, holds up nothing else.

Text goes out as it is: no markup, no emoji, no tabs expanded.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from typing import IO

_AHEAD = 1 << 20
"""How many characters may wait to be written before `drain` waits."""
_PIECE = 4096
"""How many bytes are written at once: what has begun cannot be called back."""


class Output:
    """Writes texts to `stream` in order."""

    def __init__(self, stream: IO[str]) -> None:
        stream.flush()
        self._stream = stream
        self._descriptor = _descriptor(stream)
        self._texts: deque[str] = deque()
        self._waiting = 0
        self._changed = threading.Condition()
        self._error: OSError | None = None
        self._closed = False
        self._discards = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._drained: asyncio.Event | None = None
        # A daemon: a stream that nobody reads must not hold up the end of the process.
        self._thread = threading.Thread(target=self._write_all, name="output", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many characters are not written yet."""
        return self._waiting

    def put(self, text: str) -> None:
        """Have the text written after those before it; SystemExit 1 when the reader has left, as of `| head`.

        Raises OSError when the stream cannot be written.
        """
        with self._changed:
            self._check()
            self._texts.append(text)
            self._waiting += len(text)
            self._changed.notify()

    async def drain(self) -> None:
        """Return when little enough is waiting. Raises as `put`."""
        while self._error is None and self._waiting > _AHEAD:
            self._loop, self._drained = asyncio.get_running_loop(), asyncio.Event()
            if self._waiting > _AHEAD:
                await self._drained.wait()
        self._check()

    def _check(self) -> None:
        if isinstance(self._error, BrokenPipeError):
            raise SystemExit(1)
        if self._error is not None:
            raise self._error

    def discard(self) -> bool:
        """Drop what is not written yet, but for the piece that is being written; return whether there was anything."""
        with self._changed:
            unwritten = self._waiting > 0
            self._waiting -= sum(map(len, self._texts))
            self._texts.clear()
            self._discards += 1
            return unwritten

    def close(self, seconds: float | None = None) -> None:
        """Write what is left, for at most so many seconds."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(seconds)

    def _write_all(self) -> None:
        while True:
            with self._changed:
                while not self._texts and not self._closed:
                    self._changed.wait()
                if not self._texts:
                    return
                text, discards = "".join(self._texts), self._discards
                self._texts.clear()
            try:
                self._write(text, discards)
            except OSError as error:
                self._error = error
            with self._changed:
                self._waiting -= len(text)
            self._tell()

    def _write(self, text: str, discards: int) -> None:
        if self._descriptor is None:
            self._stream.write(text)
            self._stream.flush()
            return
        # Past the stream's buffer, whose lock would be held at the end of the process.
        data, start = text.encode("utf-8", "replace"), 0
        while start < len(data) and self._discards == discards:
            whole_lines = data.rfind(b"\n", start, start + _PIECE) + 1
            start += os.write(self._descriptor, data[start : whole_lines or start + _PIECE])

    def _tell(self) -> None:
        if self._loop is not None and self._drained is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._drained.set)


def _descriptor(stream: IO[str]) -> int | None:
    """Return the file descriptor of a stream, None for one in memory."""
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None
