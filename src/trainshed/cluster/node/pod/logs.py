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
FOLLOWED = 112 * 1024
"""How much of a log is rendered at a time: what else this process does waits for it. From 128 KiB on the C library asks
the system for every buffer and gives it back, whose pages cost as much as all the rest."""
MAX_BEHIND = 100
"""How many files, 10 MiB each, a reader keeps that is slower than the container: with more, it misses the oldest."""
MAX_ROTATED = 64
LOOK_AGAIN_SECONDS = 1.0
"""How long a follower waits when nothing tells it of a change."""


class Entry(msgspec.Struct, frozen=True):
    """One record of the file. `text` ends with a newline unless the line goes on in the next record."""

    stamp: bytes
    text: bytes
    full: bool
    stream: bytes = b"stdout"


_HEAD, _TEXT = slice(30, 40), slice(40, None)
"""Where stream and tag are, and the text, in a line as our own runtime writes it."""
_WHOLE = {b" stdout F ", b" stderr F "}


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
        self._all = self._since is None and not self._timestamps and self._left is None

    def render_lines(self, lines: list[bytes]) -> bytes:
        """Return the bytes to show for lines of the file, each without its newline."""
        if self._all and self._line_start and {line[_HEAD] for line in lines} <= _WHOLE:
            # Nothing but whole lines, of which all is shown: a pod may print a hundred MB a second.
            self._stream = lines[-1][_HEAD][1:7]
            return b"\n".join([line[_TEXT] for line in lines]) + b"\n"
        return b"".join([self.render(entry) for line in lines if (entry := parse(line)) is not None])

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
    position = _Position(path)
    # What is put aside while the client takes its time is opened before it is deleted.
    watch = FileWatch(path, position.look_ahead) if options.follow else None
    told = listeners if listeners is not None else set()
    try:
        if watch is not None:
            told.add(watch.wake)
        for block in _existing(position, selection, options.tail_lines):
            yield block
            await asyncio.sleep(0)
        while watch is not None and not selection.done:
            # Asked before reading: what was written until the end is then read.
            last, more = ended(), False
            for block in position.blocks(selection):
                more = True
                yield block
                await asyncio.sleep(0)
            if last and not more:
                return
            if not more:
                await watch.changed(timeout=LOOK_AGAIN_SECONDS)
    finally:
        if watch is not None:
            told.discard(watch.wake)
            watch.close()


class _Position:
    """How far a log was read. Files that are put aside meanwhile stay open, so that none is missed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: deque[int] = deque()  # what is left to read, oldest first
        self._rest = b""

    def open_all(self) -> None:
        """Begin with the oldest file."""
        oldest, *_ = [*files_of(self._path), None]
        if oldest is not None:
            self._open(oldest)

    def open_newest(self) -> list[Path]:
        """Begin with the newest file; return the others, oldest first."""
        files = files_of(self._path)
        self._open(self._path)
        return [f for f in files if f != self._path]

    def skip_to_tail(self, lines: int) -> None:
        """Move on to a place of the newest file after which at least `lines` whole lines follow, or its start."""
        if not self._files:
            return
        file = self._files[-1]
        size = os.fstat(file).st_size
        window = CHUNK
        while window < size:
            # The first piece may be half a record: it is not counted, and skipped below.
            data = os.pread(file, window, size - window)
            records = data.split(b"\n")[1:]
            if sum(1 for r in records if (entry := parse(r)) is not None and entry.full) > lines:
                os.lseek(file, size - window + data.index(b"\n") + 1, os.SEEK_SET)
                return
            window *= 4

    def new_entries(self) -> Iterator[Entry]:
        """Yield complete records appended since the last call, older files first."""
        for lines in self._new_lines():
            for line in lines:
                entry = parse(line)
                if entry is not None:
                    yield entry

    def blocks(self, selection: Selection) -> Iterator[bytes]:
        """Yield what is to be shown of those records, until all was read or the selection is done."""
        for lines in self._new_lines():
            block = selection.render_lines(lines)
            if block:
                yield block
            if selection.done:
                return

    def _new_lines(self) -> Iterator[list[bytes]]:
        while True:
            self.look_ahead()
            if not self._files:
                return
            data = os.read(self._files[0], FOLLOWED)
            if data:
                lines = (self._rest + data).split(b"\n")
                self._rest = lines.pop()
                if lines:
                    yield lines
            elif len(self._files) > 1:
                self._close_oldest()
            else:
                return

    def look_ahead(self) -> None:
        """Open the files that have followed the newest one that is open."""
        while True:
            newest = os.fstat(self._files[-1]).st_ino if self._files else None
            if newest is not None and newest == _inode(self._path):
                return  # mostly: this is asked before every read
            found = _inodes(self._path)
            if not found or found[-1][1] == newest:
                return
            if found != _inodes(self._path):
                continue  # put aside while we looked
            inodes = [inode for _, inode in found]
            # One that is not among them has been deleted: all of them are newer.
            known = inodes.index(newest) + 1 if newest in inodes else 0
            for file, inode in found[known if newest is not None else -1 :]:
                if not self._open(file, inode):
                    break

    def _open(self, file: Path, inode: int | None = None) -> bool:
        """Open one more; return False when there is another of its name."""
        try:
            opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        if inode is not None and os.fstat(opened).st_ino != inode:
            os.close(opened)
            return False
        self._files.append(opened)
        while len(self._files) > MAX_BEHIND:
            self._close_oldest()
        return True

    def _close_oldest(self) -> None:
        os.close(self._files.popleft())
        self._rest = b""

    def close(self) -> None:
        """Close all files."""
        while self._files:
            self._close_oldest()

    def __del__(self) -> None:
        self.close()


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def _inodes(path: Path) -> list[tuple[Path, int]]:
    """Return the files of a log with what tells them apart, oldest first; nothing while there is no newest one."""
    found = []
    try:
        newest = path.stat().st_ino
        for file in files_of(path)[:-1]:
            found.append((file, file.stat().st_ino))
    except FileNotFoundError:
        return []
    return [*found, (path, newest)]


def _existing(position: _Position, selection: Selection, tail: int | None) -> Iterator[bytes]:
    """Yield what is in the files now, in blocks, leaving `position` at the end."""
    if tail is not None:
        older = position.open_newest()
        position.skip_to_tail(tail)
        newest = _last_lines(position.new_entries(), tail)
        for file in reversed(older):
            missing = tail - sum(1 for e in newest if e.full)
            if missing <= 0:
                break
            newest = _last_lines(_entries(file), missing) + newest
        yield b"".join(selection.render(e) for e in newest)
        return
    position.open_all()
    yield from position.blocks(selection)


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
