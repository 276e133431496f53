"""Container logs: from CRI files to what `kubectl logs` shows.

A line of the file is `<RFC 3339 time with nanoseconds> <stdout|stderr> <F|P> <text>`; P marks a part of a
line, continued by the next of its stream. What another stream writes in between has lines of its own. A full
file becomes `<path>.1`, the one before it `.2` and so on: readers go from the highest number to the file itself.

Following waits for the kernel to say that the file changed (inotify), not in a loop.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import msgspec

from trainshed.cluster.backend import LogRequest
from trainshed.cluster.node.filewatch import FileWatch
from trainshed.kube.meta.times import parse_time

CHUNK = 64 * 1024
MAX_ROTATED = 64
LOOK_AGAIN_SECONDS = 1.0
"""How long a follower waits when nothing tells it of a change."""


class Entry(msgspec.Struct, frozen=True):
    """One record of the file. `text` ends with a newline unless the line goes on in the next record."""

    stamp: bytes
    text: bytes
    full: bool
    stream: bytes = b"stdout"


def parse(line: bytes) -> Entry | None:
    """Return the record of one line without its newline; None for what no runtime wrote."""
    stamp, _, rest = line.partition(b" ")
    stream, _, rest = rest.partition(b" ")
    tag, separator, text = rest.partition(b" ")
    if stream not in (b"stdout", b"stderr") or (not separator and not tag):
        return None
    full = not tag.startswith(b"P")
    return Entry(stamp, text + b"\n" if full else text, full, stream)


def files_of(path: Path) -> list[Path]:
    """Return the existing files of a log, oldest first."""
    rotated = []
    for number in range(1, MAX_ROTATED):
        candidate = path.with_name(f"{path.name}.{number}")
        if not candidate.exists():
            break
        rotated.append(candidate)
    return [*reversed(rotated), *([path] if path.exists() else [])]


class Selection:
    """Applies since, timestamps and limitBytes to records, in order. `done` when the limit is reached."""

    def __init__(self, options: LogRequest) -> None:
        self._since = options.since
        self._timestamps = options.timestamps
        self._left = options.limit_bytes
        self._line_start = True
        self._stream = b""
        self.done = self._left is not None and self._left <= 0

    def render(self, entry: Entry) -> bytes:
        """Return the bytes to show for one record; empty when it is left out."""
        if self.done or (self._since is not None and _instant(entry.stamp) < self._since):
            return b""
        out = entry.text
        interrupted = not self._line_start and entry.stream != self._stream
        if self._timestamps and (self._line_start or interrupted):
            out = entry.stamp + b" " + out
        if interrupted:
            out = b"\n" + out
        self._line_start, self._stream = entry.full, entry.stream
        if self._left is not None:
            out = out[: self._left]
            self._left -= len(out)
            self.done = self._left <= 0
        return out


async def read_logs(
    path: Path,
    options: LogRequest,
    *,
    ended: Callable[[], bool] = lambda: True,
    listeners: set[Callable[[], None]] | None = None,
) -> AsyncIterator[bytes]:
    """Yield the log from its start or its tail; with `follow`, until `ended()` and all of it was read.

    `ended` must be true only when the file is complete. `listeners` are called once that may have become true: the file
    itself changes for the last time a moment before.
    """
    selection = Selection(options)
    watch = FileWatch(path) if options.follow else None
    told = listeners if listeners is not None else set()
    try:
        if watch is not None:
            told.add(watch.wake)
        position = _Position(path)
        for block in _existing(position, selection, options.tail_lines):
            yield block
            await asyncio.sleep(0)
        while watch is not None and not selection.done:
            # Asked before reading: what was written until the end is then read.
            last = ended()
            block = b"".join(selection.render(e) for e in position.new_entries())
            if block:
                yield block
            elif last:
                return
            else:
                await watch.changed(timeout=LOOK_AGAIN_SECONDS)
    finally:
        if watch is not None:
            told.discard(watch.wake)
            watch.close()


class _Position:
    """How far the newest file was read; notices that it was rotated away."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._rest = b""

    def older_files(self) -> list[Path]:
        """Open the newest file and return the rotated ones, oldest first."""
        files = files_of(self._path)
        self._open()
        return [f for f in files if f != self._path]

    def skip_to_tail(self, lines: int) -> None:
        """Move on to a place of the newest file after which at least `lines` whole lines follow, or its start."""
        if self._file is None:
            return
        size = os.fstat(self._file).st_size
        window = CHUNK
        while window < size:
            # The first piece may be half a record: it is not counted, and skipped below.
            data = os.pread(self._file, window, size - window)
            records = data.split(b"\n")[1:]
            if sum(1 for r in records if (entry := parse(r)) is not None and entry.full) > lines:
                os.lseek(self._file, size - window + data.index(b"\n") + 1, os.SEEK_SET)
                return
            window *= 4

    def new_entries(self) -> Iterator[Entry]:
        """Yield complete records appended since the last call, of the rotated file first."""
        while True:
            if self._file is None and not self._open():
                return
            yield from self._read()
            if not self._rotated():
                return
            yield from self._read()
            self._close()

    def _read(self) -> Iterator[Entry]:
        assert self._file is not None
        while data := os.read(self._file, CHUNK):
            lines = (self._rest + data).split(b"\n")
            self._rest = lines.pop()
            for line in lines:
                entry = parse(line)
                if entry is not None:
                    yield entry

    def _rotated(self) -> bool:
        assert self._file is not None
        try:
            return self._path.stat().st_ino != os.fstat(self._file).st_ino
        except FileNotFoundError:
            return False

    def _open(self) -> bool:
        try:
            self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        self._rest = b""
        return True

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        self._close()


def _existing(position: _Position, selection: Selection, tail: int | None) -> Iterator[bytes]:
    """Yield what is in the files now, in blocks, leaving `position` at the end."""
    older = position.older_files()
    if tail is not None:
        position.skip_to_tail(tail)
        newest = _last_lines(position.new_entries(), tail)
        for file in reversed(older):
            missing = tail - sum(1 for e in newest if e.full)
            if missing <= 0:
                break
            newest = _last_lines(_entries(file), missing) + newest
        yield b"".join(selection.render(e) for e in newest)
        return
    for file in older:
        yield from _blocks(_entries(file), selection)
    yield from _blocks(position.new_entries(), selection)


def _blocks(entries: Iterator[Entry], selection: Selection) -> Iterator[bytes]:
    block = bytearray()
    for entry in entries:
        block += selection.render(entry)
        if selection.done:
            break
        if len(block) >= CHUNK:
            yield bytes(block)
            block.clear()
    if block:
        yield bytes(block)


def _last_lines(entries: Iterator[Entry], count: int) -> list[Entry]:
    """Return the records of the last `count` lines, an unfinished one at the end included."""
    lines: deque[list[Entry]] = deque(maxlen=max(count, 1))
    current: list[Entry] = []
    for entry in entries:
        if current and current[-1].stream != entry.stream:
            lines.append(current)
            current = []
        current.append(entry)
        if entry.full:
            lines.append(current)
            current = []
    if current:
        lines.append(current)
    return [entry for line in lines for entry in line] if count > 0 else []


def _entries(path: Path) -> Iterator[Entry]:
    try:
        with path.open("rb") as file:
            for line in file:
                entry = parse(line.rstrip(b"\n"))
                if entry is not None:
                    yield entry
    except FileNotFoundError:
        return


def _instant(stamp: bytes) -> float:
    """Return seconds since the epoch; nanoseconds are cut to what a float holds."""
    text = stamp.decode("ascii", errors="replace")
    head, dot, fraction = text.partition(".")
    digits = fraction.rstrip("Z").split("+")[0]
    try:
        whole = parse_time(head if head.endswith("Z") else head + "Z")
    except ValueError:
        return 0.0
    return whole + (float(f"0.{digits}") if dot and digits.isdigit() else 0.0)


def tail_text(path: Path, lines: int, limit: int) -> str:
    """Return the end of a log: at most `lines` lines and `limit` bytes (FallbackToLogsOnError)."""
    position = _Position(path)
    options = LogRequest(container="", tail_lines=lines)
    data = b"".join(_existing(position, Selection(options), lines))
    return data[-limit:].decode(errors="replace")
