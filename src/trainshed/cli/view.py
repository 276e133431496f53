"""The live view of a job: logs scroll, a panel at the bottom tells conditions, replicas, progress, loss, ETA."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trainshed.cli.output import Output
from trainshed.kube.meta.duration import elapsed
from trainshed.sdk import state as jobstate
from trainshed.sdk.follow import Snapshot
from trainshed.sdk.progress import sparkline

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_cyan", "bright_magenta", "bright_green")
_MANY = 1_000
"""So many log lines are written before it is time to look at the panel again."""
_MOST_PENDING = 20_000
"""How many log lines may wait for a slow terminal; of more, the last ones are shown."""
_BUSY = 1 << 18
"""With so many characters still to be written the terminal gets nothing new."""
_DETACH_SECONDS = 0.2
"""How long a view that is left early goes on writing what it has."""
_HIDE_CURSOR, _SHOW_CURSOR, _ERASE_BELOW = "\x1b[?25l", "\x1b[?25h", "\x1b[J"
_STATE_STYLES = {"Running": "green", "Succeeded": "bold green", "Failed": "bold red", "Restarting": "yellow"}


def replica_colour(replica: str) -> str:
    """Return the colour of a replica's prefix; the same name has the same colour in every run."""
    return _COLOURS[sum(replica.encode()) % len(_COLOURS)]


def panel(snapshot: Snapshot, now: float, width: int) -> RenderableType:
    """Return what stands below the log lines."""
    state = jobstate.true_condition(snapshot.job).get("type", "Pending")
    metadata = snapshot.job["metadata"]
    head = Text.assemble(
        (f"{snapshot.job['kind']} ", "bold"),
        f"{metadata['namespace']}/{metadata['name']}  ",
        (state, _STATE_STYLES.get(state, "yellow")),
        f"  {elapsed(now - snapshot.started_at)}",
    )
    replicas = Table.grid(padding=(0, 2))
    for replica in snapshot.replicas:
        restarts = f"{replica.restarts} restarts" if replica.restarts else ""
        replicas.add_row(
            Text(replica.name, replica_colour(replica.name)),
            replica.state,
            restarts,
            replica.detail[: max(width - 50, 20)],
        )
    parts: list[RenderableType] = [Text("─" * width, "dim"), head, replicas]
    progress = snapshot.progress
    if progress.total:
        eta = progress.eta_seconds(now)
        line = Table.grid(padding=(0, 1))
        line.add_row(
            f"epoch {progress.epoch}",
            ProgressBar(total=1.0, completed=progress.fraction, width=30),
            f"{progress.fraction * 100:3.0f}%",
            f"ETA {elapsed(eta)}" if eta is not None else "",
        )
        parts.append(line)
    if progress.losses:
        chart = sparkline(progress.losses, min(width - 30, 60))
        parts.append(Text.assemble("loss ", (f"{progress.losses[-1]:.4f} ", "bold"), (chart, "cyan")))
    if progress.accuracy is not None:
        parts.append(Text.assemble("accuracy ", (f"{progress.accuracy:.4f}", "bold green")))
    return Group(*parts)


def last_frame(line: str) -> str:
    """Return what a terminal would still show of a line that was drawn over itself, as progress bars are."""
    return line.rstrip("\r").rpartition("\r")[2] if "\r" in line else line


class _Shown:
    """What both views have in common: an `Output`, written to its end unless the follow was `detached`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._output = Output(console.file)
        self.detached = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._output.close(_DETACH_SECONDS if self.detached else None)


class LiveView(_Shown):
    """Shows a follow on a terminal: log lines as they are, a panel below. Use as a context manager.

    Lines are kept until the next `update`. A terminal that is too slow for them gets the last ones, and the command
    that shows the others.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._snapshot: Snapshot | None = None
        self._pending: list[tuple[str, Sequence[str]]] = []
        self._pending_lines = 0
        self._left_out: Counter[str] = Counter()
        self._prefixes: dict[str, str] = {}
        self._height = 0
        self._panel = not console.is_dumb_terminal

    def __enter__(self) -> Self:
        if self._panel:
            self._output.put(_HIDE_CURSOR)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._output.put(self._erased() + self._scrolled() + (_SHOW_CURSOR if self._panel else ""))
        super().__exit__(kind, error, trace)

    async def lines(self, replica: str, lines: Sequence[str]) -> None:
        """Keep the lines for the next update."""
        self._pending.append((replica, lines))
        self._pending_lines += len(lines)
        if self._pending_lines > _MANY and self._snapshot is not None:
            self.update(self._snapshot)
        while self._pending_lines > _MOST_PENDING and len(self._pending) > 1:
            oldest, dropped = self._pending.pop(0)
            self._pending_lines -= len(dropped)
            if oldest:
                self._left_out[oldest] += len(dropped)

    def update(self, snapshot: Snapshot) -> None:
        """Write what is kept, and the panel anew, unless the terminal is still busy."""
        self._snapshot = snapshot
        if self._output.waiting < _BUSY:
            self._output.put(self._erased() + self._scrolled() + self._drawn(snapshot))

    def event(self, text: str) -> None:
        """Keep the event for the next update."""
        self._pending.append(("", [self._styled(Text(f"» {text}", "bold"))]))

    def _erased(self) -> str:
        """Return what takes the panel off the screen."""
        height, self._height = self._height, 0
        return f"\r\x1b[{height}A{_ERASE_BELOW}" if height else ""

    def _scrolled(self) -> str:
        """Return everything that was kept, and what was left out before it."""
        parts = [self._styled(Text(f"» {text}", "bold")) + "\n" for text in self._said_of_left_out()]
        for replica, lines in self._pending:
            prefix = self._prefix(replica) if replica else ""
            parts += [f"{prefix}{last_frame(line)}\n" for line in lines]
        self._pending, self._pending_lines = [], 0
        self._left_out.clear()
        return "".join(parts)

    def _said_of_left_out(self) -> list[str]:
        said = []
        for name, count in self._left_out.items():
            snapshot = self._snapshot
            pods = [r.pod for r in snapshot.replicas if r.name == name] if snapshot is not None else []
            where = (
                f": kubectl logs -n {snapshot.job['metadata']['namespace']} {pods[0]}"
                if snapshot and pods
                else ""
            )
            said.append(f"{count} lines of {name} left out, the terminal is too slow{where}")
        return said

    def _drawn(self, snapshot: Snapshot) -> str:
        if not self._panel:
            return ""
        width, most = self._console.width, max(self._console.height - 1, 1)
        with self._console.capture() as capture:
            self._console.print(
                panel(snapshot, time.time(), width), soft_wrap=False, no_wrap=True, overflow="crop", crop=True
            )
        rows = capture.get().splitlines()[:most]
        self._height = len(rows)
        return "".join(f"{row}\n" for row in rows)

    def _prefix(self, replica: str) -> str:
        if replica not in self._prefixes:
            self._prefixes[replica] = self._styled(Text(f"[{replica}]", replica_colour(replica))) + " "
        return self._prefixes[replica]

    def _styled(self, text: Text) -> str:
        with self._console.capture() as capture:
            self._console.print(text, end="", soft_wrap=True)
        return capture.get()


class PlainView(_Shown):
    """Shows a follow where there is no terminal: lines as they are, prefixed by replica; what happens on stderr."""

    def __init__(self, out: Console, err: Console) -> None:
        super().__init__(out)
        self._err = err

    async def lines(self, replica: str, lines: Sequence[str]) -> None:
        """Write the lines; wait while the reader is far behind."""
        prefix = f"[{replica}] "
        self._output.put(prefix + f"\n{prefix}".join(lines) + "\n")
        await self._output.drain()

    def update(self, snapshot: Snapshot) -> None:
        """There is no panel."""

    def event(self, text: str) -> None:
        """Say it on stderr."""
        self._err.out(f"» {text}", highlight=False)
