"""What a build does, as lines on stderr: numbered like BuildKit's, or as a list that moves on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from trainshed.cluster.images.building.progress import Outcome

SHOWN_LINES = 6
"""How many lines of the command that runs a terminal shows."""
_REFRESH_PER_SECOND = 10


class PlainProgress:
    """A line for each thing that happens: `#4 [2/5] RUN …`, `#4 0.31 what it printed`, `#4 DONE 0.4s`."""

    def __init__(self, console: Console, now: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._now = now
        self._count = 0

    def begin(self, title: str) -> PlainTask:
        """Say that something begins."""
        self._count += 1
        self.say(f"#{self._count} {title}")
        return PlainTask(self, self._count, self._now)

    def say(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)

    def close(self) -> None:
        """Nothing is held."""


class PlainTask:
    """One thing."""

    def __init__(self, progress: PlainProgress, number: int, now: Callable[[], float]) -> None:
        self._progress = progress
        self._number = number
        self._now = now
        self._began = now()
        self._rest = b""

    def output(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line)

    def status(self, text: str) -> None:
        self._progress.say(f"#{self._number} {text}")

    def end(self, outcome: Outcome) -> None:
        if self._rest:
            self._line(self._rest)
        if outcome == "cached":
            text = "CACHED"
        else:
            text = f"{'DONE' if outcome == 'done' else 'ERROR'} {self._now() - self._began:.1f}s"
        self._progress.say(f"#{self._number} {text}\n")

    def _line(self, line: bytes) -> None:
        text = printable(line)
        self._progress.say(f"#{self._number} {self._now() - self._began:.3f} {text}")


class QuietProgress:
    """Says nothing."""

    def begin(self, title: str) -> QuietProgress:
        return self

    def output(self, data: bytes) -> None:
        """Nothing."""

    def status(self, text: str) -> None:
        """Nothing."""

    def end(self, outcome: Outcome) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing is held."""


class LiveProgress:
    """What was done, what is being done with its last lines, how long it took."""

    def __init__(self, console: Console, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._tasks: list[LiveTask] = []
        self._live = Live(
            console=console,
            refresh_per_second=_REFRESH_PER_SECOND,
            get_renderable=self._view,
            transient=False,
        )
        self._live.start()

    def begin(self, title: str) -> LiveTask:
        """Show that something begins."""
        task = LiveTask(title, self._now)
        self._tasks.append(task)
        return task

    def close(self) -> None:
        """Leave the list as it is."""
        self._live.stop()

    def _view(self) -> Group:
        lines: list[Text] = []
        for task in self._tasks:
            lines += task.view()
        return Group(*lines)


class LiveTask:
    """One row, and while it lasts the lines below it."""

    def __init__(self, title: str, now: Callable[[], float]) -> None:
        self._title = title
        self._now = now
        self._began = now()
        self._took: float | None = None
        self._outcome: Outcome | None = None
        self._lines: list[str] = []
        self._rest = b""
        self._status = ""

    def output(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines = [*self._lines, *(printable(line) for line in lines[-SHOWN_LINES:])][-SHOWN_LINES:]

    def status(self, text: str) -> None:
        self._status = text

    def end(self, outcome: Outcome) -> None:
        self._outcome, self._took = outcome, self._now() - self._began

    def view(self) -> list[Text]:
        seconds = self._took if self._took is not None else self._now() - self._began
        word = {"cached": "CACHED ", "failed": "ERROR "}.get(self._outcome or "", "")
        style = {"failed": "red", None: "cyan"}.get(self._outcome, "blue")
        row = Text(f" => {word}{self._title}", style=style, no_wrap=True, overflow="ellipsis")
        row.append(f"  {seconds:.1f}s")
        if self._outcome is not None:
            return [row]
        shown = [*self._lines, *([self._status] if self._status else [])]
        return [
            row,
            *(Text(f" => => # {line}", style="dim", no_wrap=True, overflow="ellipsis") for line in shown),
        ]


def printable(line: bytes) -> str:
    """Return a line without what would move a terminal; of what was written over itself, the last."""
    text = line.decode(errors="replace").rstrip("\r").rpartition("\r")[2]
    return "".join(character if character.isprintable() or character == "\t" else "�" for character in text)
