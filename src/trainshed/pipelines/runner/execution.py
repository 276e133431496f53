"""A kernel runs the blocks of a step: output as it comes, and a stop at the first error."""

from __future__ import annotations

import asyncio
import re
import signal
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager

from trainshed.pipelines.runner.kernel import ended, fork, listens
from trainshed.pipelines.runner.outputs import Output, Outputs
from trainshed.pipelines.runner.program import Block, Job, Program
from trainshed.pipelines.runner.turn import filled

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LINE = re.compile(r"Cell In\[\d+\], line (\d+)|File .*<ipython-input.*>.*line (\d+)")
_INSIDE = "trainshed.pipelines.runner.inside"
_STARTUP_SECONDS = 120
_LAST_WORDS_SECONDS = 0.2
"""How long to read on when the kernel has died."""


class Ran(msgspec.Struct, frozen=True):
    """A block that ran, with what it put out, in the notebook format."""

    block: Block | None
    outputs: list[Output]


class Outcome(msgspec.Struct, frozen=True):
    """How it went. `error` is the message for the user, None when all blocks ran.

    A step that was told to end before its turn has not `begun`, and its message is empty: nobody's fault.
    """

    ran: tuple[Ran, ...]
    error: str | None = None
    begun: bool = True


def execute(
    job: Job,
    alongside: Callable[[], Awaitable[str]] | None = None,
    started_in: str = "",
    ready: Path | None = None,
) -> Outcome:
    """Run a step's program in a kernel of its own. The process has no event loop and no thread yet.

    The kernel imports nothing from the directory `started_in`, unless it is the current one.

    `alongside` runs beside it and returns only when the step must stop, with the reason. Nothing of the program is run
    before the file `ready` has something in it.
    """
    program = job.program
    before = [b for b in program.blocks if b.role != "step"]
    own = [b for b in program.blocks if b.role == "step"]
    with tempfile.TemporaryDirectory(prefix="trainshed-step-") as folder:
        manager = fork(Path(folder), started_in)
        file = Path(folder) / "job.json"
        file.write_bytes(msgspec.json.encode(job))
        call = f"__import__({_INSIDE!r}, fromlist=['inside'])"
        plan: list[tuple[str, Block | None]] = [
            (f"{call}.begin({str(file)!r})", None),
            *((program.statement(b, call), b) for b in before),
            (f"{call}.load()", None),
            *((program.statement(b, call), b) for b in own),
            (f"{call}.finish()", None),
        ]
        kept: list[list[Output]] = []
        error = asyncio.run(_run(plan, kept, manager, program, alongside, ready))
    begun = bool(kept)
    kept += [[] for _ in plan[len(kept) :]]
    ran = tuple(
        Ran(block, outputs)
        for (_, block), outputs in zip(plan, kept, strict=True)
        if block is not None or outputs
    )
    return Outcome(ran, error, begun)


async def _run(
    plan: list[tuple[str, Block | None]],
    kept: list[list[Output]],
    manager: AsyncKernelManager,
    program: Program,
    alongside: Callable[[], Awaitable[str]] | None,
    ready: Path | None,
) -> str | None:
    """Run the plan; add what each block put out to `kept`, and return the message for the user if one failed."""
    step = program.step
    await listens(manager)
    client: AsyncKernelClient = manager.client()
    client.start_channels()
    outputs = Outputs()
    leaving = asyncio.ensure_future(_told_to_end())
    over = asyncio.ensure_future(ended(manager))
    watching = asyncio.ensure_future(alongside()) if alongside is not None else None
    reasons = {leaving, over, *({watching} if watching is not None else ())}
    try:
        await client.wait_for_ready(_STARTUP_SECONDS)
        if ready is not None:
            turn = asyncio.ensure_future(filled(ready))
            await asyncio.wait({turn, *reasons}, return_when=asyncio.FIRST_COMPLETED)
            if not turn.done():
                turn.cancel()
                return "" if leaving.done() else f"step {step}: the kernel died before its turn"
        for source, block in plan:
            kept.append(outputs.begin())
            running = asyncio.ensure_future(client.execute_interactive(source, output_hook=outputs.take))
            await asyncio.wait({running, *reasons}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                if over.done():
                    await asyncio.wait({running}, timeout=_LAST_WORDS_SECONDS)
                running.cancel()
                await asyncio.wait({running})
                for reason in (watching, leaving):
                    if reason is not None and reason.done():
                        return f"step {step} stops: {reason.result()}"
                return f"step {step}{_place(block)}: the kernel died; out of memory is a frequent reason"
            reply = running.result()["content"]
            if reply["status"] != "ok":
                return _message(reply, block, program)
    finally:
        for reason in reasons:
            reason.cancel()
        if await manager.is_alive():
            await manager.shutdown_kernel()
        await manager.cleanup_resources()
        client.stop_channels()
    return None


async def _told_to_end() -> str:
    """Return once this process is told to end, and say so."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    await told.wait()
    return "it was told to end"


def _place(block: Block | None, line: str | None = None) -> str:
    if block is None or block.cell is None:
        return ""
    return f", cell {block.cell}" + (f", line {line}" if line else "")


def _message(reply: dict[str, Any], block: Block | None, program: Program) -> str:
    """Return the message of a block that failed, or was not run since one before it had."""
    name, value = str(reply.get("ename", reply["status"])), _ANSI.sub("", str(reply.get("evalue", "")))
    step = program.step
    if block is None:
        return f"step {step}: {value}"  # our own call: what it says is meant for the user as it stands
    traceback = _ANSI.sub("", "\n".join(reply.get("traceback", ())))
    place = _place_in_file(traceback, program)
    if not place:
        found = _LINE.search(traceback)
        place = _place(block, next((g for g in found.groups() if g), None) if found else None)
    return f"step {step}{place}: {name}: {value}\n\n{traceback.strip()}"


def _place_in_file(traceback: str, program: Program) -> str:
    """Return the innermost place in the file that the step's functions come from, empty when they come from none."""
    files = {re.escape(block.file) for block in program.blocks if block.file is not None}
    if not files:
        return ""
    found = re.findall(rf"^\s*File .*?({'|'.join(files)}):(\d+)", traceback, re.MULTILINE)
    return f", file {found[-1][0]}, line {found[-1][1]}" if found else ""
