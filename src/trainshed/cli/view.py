"""The live view of a job: logs scroll, a panel at the bottom tells conditions, replicas, progress, loss, ETA."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trainshed.kube.meta.duration import elapsed
from trainshed.sdk import state as jobstate
from trainshed.sdk.follow import Snapshot
from trainshed.sdk.progress import sparkline

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_cyan", "bright_magenta", "bright_green")
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


class LiveView:
    """Shows a follow on a terminal. Use as a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._snapshot: Snapshot | None = None
        self._live = Live(get_renderable=self._render, console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def line(self, replica: str, line: str) -> None:
        self._console.print(f"[{replica_colour(replica)}]{escape(f'[{replica}]')}[/] {escape(line)}")

    def update(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def event(self, text: str) -> None:
        self._console.print(f"[bold]» {escape(text)}[/]")

    def _render(self) -> RenderableType:
        if self._snapshot is None:
            return Text("")
        return panel(self._snapshot, time.time(), self._console.width)


class PlainView:
    """Shows a follow where there is no terminal: lines, prefixed by replica, and what happens on stderr."""

    def __init__(self, out: Console, err: Console) -> None:
        self._out, self._err = out, err

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def line(self, replica: str, line: str) -> None:
        self._out.print(escape(f"[{replica}] {line}"))

    def update(self, snapshot: Snapshot) -> None:
        return

    def event(self, text: str) -> None:
        self._err.print(escape(f"» {text}"))
