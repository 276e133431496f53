"""What a follow writes on a terminal and into a pipe: log lines as they are, and nothing that holds up the rest."""

from __future__ import annotations

import asyncio
import io
import os
import time

import pytest
from rich.console import Console

from trainshed.cli.output import Output
from trainshed.cli.view import LiveView, PlainView
from trainshed.sdk.follow import Snapshot
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


async def test_leaving_does_not_wait_for_a_reader_that_stands_still() -> None:
    reader, writer = os.pipe()
    stream = os.fdopen(writer, "w")
    view = PlainView(Console(file=stream), Console(file=io.StringIO()))
    with view:
        reading = asyncio.create_task(view.lines("worker-0", ["x" * 100] * 50_000))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reading, 0.2)
        view.detached, left = True, time.monotonic()
    assert time.monotonic() - left < 0.5
    os.close(reader)
    view._output.close(10)
    stream.close()


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
