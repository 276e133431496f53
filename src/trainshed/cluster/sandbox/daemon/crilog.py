"""Log files of containers, in the format of the Container Runtime Interface.

    2024-05-01T12:00:00.123456789Z stdout F a whole line
    2024-05-01T12:00:00.123456789Z stderr P the first part of a line, or a last line without its end

Format: kubernetes/design-proposals, node/kubelet-cri-logging.md. As in containerd, a line above 16 KiB is
cut into parts, and text without a newline at the end of the stream is a part. So is, at once, the beginning of a line
that is drawn over itself with carriage returns, as progress bars are: readers see it while it lasts.
"""

from __future__ import annotations

import os
import time

MAX_PART = 16384
ROTATE_BYTES = 10 << 20
FILES = 5


class CriLog:
    """Appends to one log file. After `ROTATE_BYTES` it becomes `<path>.1`, and so on up to `.4`.

    A full disk loses nothing: `write` keeps what did not fit and `blocked` is true until `flush` works.
    """

    def __init__(self, path: str, limit: int = ROTATE_BYTES, files: int = FILES) -> None:
        self._path = path
        self._limit = limit
        self._files = files
        self._unfinished: dict[bytes, bytes] = {}
        self._backlog = b""
        self._fd = -1
        self._size = 0
        self._open()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(self._path, flags, 0o640)
        self._size = os.fstat(self._fd).st_size

    @property
    def blocked(self) -> bool:
        """Whether output waits for space on the disk; read no more from the container until it went."""
        return bool(self._backlog)

    def write(self, stream: bytes, data: bytes, now: int) -> None:
        """Log output of `stream` (stdout or stderr) read at `now`, in nanoseconds since the epoch."""
        data = self._unfinished.pop(stream, b"") + data
        stamp = timestamp(now)
        full = stamp + b" " + stream + b" F "
        part = stamp + b" " + stream + b" P "
        lines = data.split(b"\n")
        last = lines.pop()
        out = []
        if lines and max(map(len, lines)) <= MAX_PART:
            # Mostly all are: a pod may print a hundred MB a second.
            out = [full, data[: len(data) - len(last) - 1].replace(b"\n", b"\n" + full), b"\n"]
            lines = []
        for line in lines:
            while len(line) > MAX_PART:
                out += [part, line[:MAX_PART], b"\n"]
                line = line[MAX_PART:]
            out += [full, line, b"\n"]
        while len(last) >= MAX_PART:
            out += [part, last[:MAX_PART], b"\n"]
            last = last[MAX_PART:]
        if b"\r" in last:
            out += [part, last, b"\n"]
        elif last:
            self._unfinished[stream] = last
        self._append(b"".join(out))

    def end(self, now: int) -> None:
        """Write what has no newline, as parts."""
        stamp = timestamp(now)
        for stream, rest in sorted(self._unfinished.items()):
            self._append(stamp + b" " + stream + b" P " + rest + b"\n")
        self._unfinished = {}

    def _append(self, data: bytes) -> None:
        if not data:
            return
        if not self._backlog and self._size and self._size + len(data) > self._limit:
            self._rotate()  # between whole lines only
        self._backlog += data
        self.flush()

    def flush(self) -> None:
        """Write the backlog as far as the disk takes it."""
        try:
            while self._backlog:
                written = os.write(self._fd, self._backlog)
                self._size += written
                self._backlog = self._backlog[written:]
        except OSError:
            return  # no space or quota: the caller sees `blocked` and tries again

    def _rotate(self) -> None:
        try:
            self._shift()
            old = self._fd
            self._open()
            os.close(old)
        except OSError:
            return  # the log goes on growing where it is

    def _shift(self) -> None:
        for number in range(self._files - 2, 0, -1):
            try:
                os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
            except FileNotFoundError:
                pass
        try:
            os.replace(self._path, f"{self._path}.1")
        except FileNotFoundError:
            pass  # deleted under us: a new file is what is wanted

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def timestamp(now: int) -> bytes:
    """Return RFC 3339 with nanoseconds, UTC."""
    seconds, nanoseconds = divmod(now, 1_000_000_000)
    return b"%s.%09dZ" % (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode(), nanoseconds)
