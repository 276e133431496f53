"""What a follow writes on a terminal and into a pipe: log lines as they are, and nothing that holds up the rest."""

from __future__ import annotations

import asyncio
import io
import os
import time
from contextlib import suppress

import pytest
from rich.console import Console

from trainshed.cli.output import Output
from trainshed.cli.view import LiveView, PlainView
from trainshed.sdk.followview import Snapshot
from trainshed.sdk.progress import Progress
from trainshed.sdk.state import Replica
from trainshed.testing.builders import make_job

AWKWARD = ["iter:100:loss=0.5", "key:key:", "trail\\", "\ttab", "[bold]no markup[/]", "10%\r20%\r30%"]


def snapshot() -> Snapshot:
    job = make_job("j", namespace="ns")
    return Snapshot(job, [Replica("worker-0", "j-worker-0", "Running")], Progress(), time.time())


async def test_a_pipe_gets_every_line_as_it_is() -> None:
    stream = io.StringIO()
    with PlainView(Console(file=stream), Console(file=io.StringIO())) as view:
        await view.lines("worker-0", AWKWARD)
    assert stream.getvalue() == "".join(f"[worker-0] {line}\n" for line in AWKWARD)


async def test_a_terminal_gets_lines_as_they_are_and_of_a_bar_what_it_would_still_show() -> None:
    stream = io.StringIO()
    with LiveView(Console(file=stream, force_terminal=True, no_color=True, width=80)) as view:
        view.update(snapshot())
        await view.lines("worker-0", AWKWARD)
    text = stream.getvalue()
    for line in (*AWKWARD[:-1], "30%"):
        assert f"[worker-0] {line}\n" in text
    assert "10%" not in text


async def test_a_terminal_that_stands_still_gets_the_last_lines_and_the_command_for_the_others() -> None:
    reader, writer = os.pipe()
    total = 60_000
    with os.fdopen(writer, "w") as stream:
        view = LiveView(Console(file=stream, force_terminal=True, no_color=True, width=80))
        with view:
            view.update(snapshot())
            for start in range(0, total, 500):
                await view.lines("worker-0", [f"line {i}" for i in range(start, start + 500)])
            reading = asyncio.create_task(asyncio.to_thread(_read_all, reader))
            await asyncio.sleep(0)
    text = await asyncio.wait_for(reading, 20)
    shown = text.count("[worker-0] line ")
    assert 0 < shown < total and f"line {total - 1}\n" in text
    left_out = [line for line in text.splitlines() if "left out" in line]
    assert left_out and all("kubectl logs -n ns j-worker-0" in line for line in left_out)
    assert shown + sum(int(line.split("» ")[1].split()[0]) for line in left_out) == total


@pytest.mark.parametrize("terminal", [False, True])
async def test_once_it_is_left_nothing_more_is_written(terminal: bool) -> None:
    """A reader that stands still finds what was on its way, whole lines, and of a terminal the cursor."""
    reader, writer = os.pipe()
    stream = os.fdopen(writer, "w")
    console = Console(file=stream, force_terminal=terminal, no_color=True, width=80, legacy_windows=False)
    view = LiveView(console) if terminal else PlainView(console, Console(file=io.StringIO()))
    with view:
        view.update(snapshot())
        for _ in range(50):
            with suppress(TimeoutError):
                await asyncio.wait_for(view.lines("worker-0", ["x" * 99] * 1_000), 0.01)
        view.leave()
    shown = asyncio.create_task(asyncio.to_thread(_read_all, reader))
    await asyncio.to_thread(view._output.close)
    stream.close()
    text = await asyncio.wait_for(shown, 20)
    assert len(text) < 200_000  # what the pipe holds, and a piece; nothing if writing had not begun
    assert text.endswith("\x1b[?25h") if terminal else text.endswith("x\n") or not text


async def test_an_interrupted_view_writes_nothing_more() -> None:
    reader, writer = os.pipe()
    stream = os.fdopen(writer, "w")
    with suppress(KeyboardInterrupt), PlainView(Console(file=stream), None) as view:
        view._output.put("a line\n" * 1_000_000)
        raise KeyboardInterrupt
    shown = asyncio.create_task(asyncio.to_thread(_read_all, reader))
    await asyncio.to_thread(view._output.close)
    stream.close()
    assert len(await asyncio.wait_for(shown, 20)) < 200_000


def test_a_reader_that_leaves_ends_the_command() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        output = Output(stream)
        output.put("x" * (2 << 20))
        with pytest.raises(SystemExit):
            asyncio.run(output.drain())
        output.close(1)


def _read_all(descriptor: int) -> str:
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read().decode()
