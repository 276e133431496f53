"""What a follow shows: on a terminal logs scroll and a panel stands below them; a pipe gets the lines alone.

Of several jobs, each has a `PartOf` the same view, and its name stands before those of its replicas.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.text import Text

from trainshed.cli.output import Output
from trainshed.cli.panel import panel, replica_colour
from trainshed.cli.terminal import harmless_lines
from trainshed.kube.meta.objects import name_of, namespace_of, uid_of
from trainshed.sdk.followview import Snapshot, View

_MANY = 1_000
"""So many log lines are written before it is time to look at the panel again."""
_MOST_PENDING = 20_000
"""How many log lines may wait for a slow terminal; of more, the last ones are shown."""
_BUSY = 1 << 18
"""With so many characters still to be written the terminal gets nothing new."""
_LEAVE_SECONDS = 0.2
"""How long the last piece of a view that is left may take to be written."""
_HIDE_CURSOR, _SHOW_CURSOR, _ERASE_BELOW = "\x1b[?25l", "\x1b[?25h", "\x1b[J"
_PLAIN = "\x1b[0m"


class _Shown:
    """What both views have in common: an `Output`, written to its end unless the view is left or interrupted.

    Names of replicas take `width` characters at least, so that lines begin in one column.
    """

    def __init__(self, console: Console, width: int = 0) -> None:
        self._console = console
        self._output = Output(console.file)
        self._width = width
        self._left = False

    def leave(self) -> None:
        """Show nothing more, not even what waits to be written."""
        if not self._left:
            self._left = True
            self._tidy(self._output.discard())

    def _finish(self) -> None:
        """Put what is kept."""

    def _tidy(self, unwritten: bool) -> None:
        """Put what a terminal needs after the last line, of which something may be `unwritten`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and issubclass(kind, (KeyboardInterrupt, asyncio.CancelledError)):
            self.leave()
        if not self._left:
            self._finish()
        self._output.close(_LEAVE_SECONDS if self._left else None)


class LiveView(_Shown):
    """Shows a follow on a terminal: log lines with their colours, a panel below. Use as a context manager.

    Lines are kept until the next `update`. A terminal that is too slow for them gets the last ones, and the command
    that shows the others. A line that is drawn over itself has a row of the panel until it is complete.
    """

    def __init__(self, console: Console, width: int = 0) -> None:
        super().__init__(console, width)
        self._snapshots: dict[str, Snapshot] = {}
        self._pending: list[tuple[str, Sequence[str]]] = []
        self._pending_lines = 0
        self._left_out: Counter[str] = Counter()
        self._prefixes: dict[str, str] = {}
        self._frames: dict[str, str] = {}
        self._rows: list[int] = []
        self._panel = not console.is_dumb_terminal

    def __enter__(self) -> Self:
        if self._panel:
            self._output.put(_HIDE_CURSOR)
        return self

    def _finish(self) -> None:
        self._output.put(self._erased() + self._scrolled() + (_SHOW_CURSOR if self._panel else ""))

    def _tidy(self, unwritten: bool) -> None:
        # Of a panel that is not written to its end, nobody knows how many rows there are.
        erased = _PLAIN + _ERASE_BELOW if unwritten else self._erased()
        self._output.put(erased + _SHOW_CURSOR if self._panel else "")

    async def lines(self, replica: str, lines: Sequence[str]) -> None:
        """Keep the lines for the next update."""
        if self._left:
            return
        self._frames.pop(replica, None)
        self._pending.append((replica, lines))
        self._pending_lines += len(lines)
        if self._pending_lines > _MANY and self._snapshots:
            self._draw()
        while self._pending_lines > _MOST_PENDING and len(self._pending) > 1:
            oldest, dropped = self._pending.pop(0)
            self._pending_lines -= len(dropped)
            if oldest:
                self._left_out[oldest] += len(dropped)

    def frame(self, replica: str, text: str) -> None:
        """Keep what is there of a line for the next update."""
        self._frames[replica] = text

    def update(self, snapshot: Snapshot) -> None:
        """Write what is kept, and the panel anew, unless the terminal is still busy."""
        self._snapshots[uid_of(snapshot.job)] = snapshot
        self._draw()

    def event(self, text: str) -> None:
        """Keep the event for the next update."""
        self._pending.append(("", [self._styled(Text(f"» {text}", "bold"))]))

    def _draw(self) -> None:
        if not self._left and self._output.waiting < _BUSY:
            self._output.put(self._erased() + self._scrolled() + self._drawn())

    def _erased(self) -> str:
        """Return what takes the panel off the screen, also one that wraps since the window was narrowed."""
        width = max(self._console.width, 1)
        height = sum(max(-(-cells // width), 1) for cells in self._rows)
        self._rows = []
        return f"\r\x1b[{height}A{_ERASE_BELOW}" if height else ""

    def _scrolled(self) -> str:
        """Return everything that was kept, and what was left out before it."""
        parts = [self._styled(Text(f"» {text}", "bold")) + "\n" for text in self._said_of_left_out()]
        for replica, lines in self._pending:
            prefix = self._prefix(replica) if replica else ""
            parts += [f"{prefix}{line}\n" for line in (harmless_lines(lines) if replica else lines)]
        self._pending, self._pending_lines = [], 0
        self._left_out.clear()
        return "".join(parts)

    def _said_of_left_out(self) -> list[str]:
        pods = {}
        for snapshot in self._snapshots.values() if self._left_out else ():
            for replica in snapshot.replicas:
                where = f": kubectl logs -n {namespace_of(snapshot.job)} {replica.pod}"
                pods[replica.name] = pods[f"{name_of(snapshot.job)}/{replica.name}"] = where
        return [
            f"{count} lines of {name} left out, the terminal is too slow{pods.get(name, '')}"
            for name, count in self._left_out.items()
        ]

    def _drawn(self) -> str:
        if not self._panel or not self._snapshots:
            return ""
        rows = panel(
            list(self._snapshots.values()),
            self._frames,
            time.time(),
            self._console.width,
            self._console.height,
        )
        self._rows = [row.cell_len for row in rows]
        return "".join(f"{self._styled(row)}\n" for row in rows)

    def _prefix(self, replica: str) -> str:
        if replica not in self._prefixes:
            name = self._styled(Text(f"[{replica}]", replica_colour(replica)))
            self._prefixes[replica] = name + " " * (max(self._width - len(replica), 0) + 1)
        return self._prefixes[replica]

    def _styled(self, text: Text) -> str:
        with self._console.capture() as capture:
            self._console.print(text, end="", soft_wrap=True)
        return capture.get()


class PlainView(_Shown):
    """Shows lines alone, prefixed by replica: as they are, but harmless on a terminal; what happens on `err`.

    Without `prefixes` the lines alone; without `err` nothing but lines.
    """

    def __init__(self, out: Console, err: Console | None, width: int = 0, *, prefixes: bool = True) -> None:
        super().__init__(out, width)
        self._err = err
        self._prefixes = prefixes

    async def lines(self, replica: str, lines: Sequence[str]) -> None:
        """Write the lines; wait while the reader is far behind."""
        if self._left:
            return
        if self._console.is_terminal:
            lines = list(harmless_lines(lines))
        prefix = f"[{replica}]".ljust(self._width + 2) + " " if self._prefixes else ""
        self._output.put(prefix + f"\n{prefix}".join(lines) + "\n")
        await self._output.drain()

    def frame(self, replica: str, text: str) -> None:
        """The line is written when it is complete."""

    def update(self, snapshot: Snapshot) -> None:
        """There is no panel."""

    def event(self, text: str) -> None:
        """Say it on stderr."""
        if self._err is not None and not self._left:
            self._err.out(f"» {text}", highlight=False)


class PartOf:
    """One job's part of a view that shows several: its name stands before everything."""

    def __init__(self, view: View, job: str) -> None:
        self._view = view
        self._job = job

    async def lines(self, replica: str, lines: Sequence[str]) -> None:
        """Show the lines under the names of job and replica."""
        await self._view.lines(f"{self._job}/{replica}", lines)

    def frame(self, replica: str, text: str) -> None:
        """Show the beginning of a line likewise."""
        self._view.frame(f"{self._job}/{replica}", text)

    def update(self, snapshot: Snapshot) -> None:
        """Show the job beside the others."""
        self._view.update(snapshot)

    def event(self, text: str) -> None:
        """Say which job it is about."""
        self._view.event(f"{self._job}: {text}")
