"""The live view of a pipeline's run: logs scroll, below them the steps as a graph with their state and time."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from trainshed.cli.panel import replica_colour
from trainshed.cli.terminal import harmless
from trainshed.kube.meta.duration import elapsed
from trainshed.sdk.pipelineruns.steps import StepState

_SETTLE_SECONDS = 1.5
_DEVICE = re.compile(r"Insufficient [\w.-]+/")
"""What is missing has a vendor's domain: no node has such a device, or all are taken."""
_SIGNS = {
    "waiting": ("·", "dim"),
    "pending": ("◌", "yellow"),
    "running": ("●", "cyan"),
    "succeeded": ("✓", "green"),
    "failed": ("✗", "bold red"),
    "cancelled": ("⊘", "yellow"),
    "skipped": ("-", "dim"),
}


def graph(steps: Sequence[StepState], now: float) -> RenderableType:
    """Return a row for each step, indented by what it waits for."""
    table = Table.grid(padding=(0, 2))
    for step in steps:
        sign, style = _SIGNS[step.state]
        seconds = step.seconds(now)
        table.add_row(
            Text("  " * step.level) + Text(f"{sign} ", style) + Text(step.name, replica_colour(step.name)),
            Text(step.state, style),
            elapsed(seconds) if seconds is not None else "",
            Text(f"after {', '.join(step.previous)}" if step.previous else "", "dim"),
            harmless(step.detail[:80]),
        )
    return table


class LiveRun:
    """On a terminal. Use as a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=False)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    async def lines(self, step: str, lines: Sequence[str]) -> None:
        """Print the lines above the graph."""
        prefix = Text(f"[{step}] ", replica_colour(step))
        for line in lines:
            self._console.print(prefix + Text.from_ansi(line), soft_wrap=True)

    def update(self, steps: Sequence[StepState]) -> None:
        """Draw the graph anew."""
        self._live.update(graph(steps, time.time()), refresh=True)

    def event(self, text: str) -> None:
        """Print it above the graph."""
        self._console.print(Text(f"» {text}", "bold"), soft_wrap=True)


class PlainRun:
    """Where there is no terminal: lines prefixed by their step on stdout, what happens on stderr."""

    def __init__(self, out: Console | None, err: Console) -> None:
        """Args:
        out: where logs go; None where they are not wanted.
        """
        self._out, self._err = out, err
        self._states: dict[str, str] = {}
        self._waits: dict[str, tuple[str, float]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """There is nothing to put away."""

    async def lines(self, step: str, lines: Sequence[str]) -> None:
        """Write the lines."""
        if self._out is not None:
            for line in lines:
                self._out.out(f"[{step}] {line}", highlight=False)

    def update(self, steps: Sequence[StepState]) -> None:
        """Say which steps have come to another state."""
        for step in steps:
            self._say_why(step)
            if self._states.get(step.name, "waiting") != step.state and step.state != "pending":
                self._states[step.name] = step.state
                seconds = step.seconds(time.time())
                took = f" in {elapsed(seconds)}" if step.ended is not None and seconds is not None else ""
                self._err.out(f"» {step.name} {step.state}{took}", highlight=False)

    def _say_why(self, step: StepState) -> None:
        """Say what a step waits for, once, when it does so for a while: most reasons are over at once."""
        if step.state != "pending" or not step.detail:
            self._waits.pop(step.name, None)
            return
        reason, since = self._waits.get(step.name, ("", 0.0))
        if reason != step.detail:
            self._waits[step.name] = (step.detail, time.monotonic())
        elif 0.0 < since < time.monotonic() - _SETTLE_SECONDS:
            self._waits[step.name] = (reason, -1.0)
            self._err.out(f"» {step.name} waits: {reason}", highlight=False)
            if _DEVICE.search(reason):
                self._err.out("  --cpu runs it without", highlight=False)

    def event(self, text: str) -> None:
        """Say it on stderr."""
        self._err.out(f"» {text}", highlight=False)
