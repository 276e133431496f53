"""A kernel runs the blocks of a step: output as it comes, and a stop at the first error."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat.notebooknode import from_dict

from trainshed.pipelines.runner.kernel import fork
from trainshed.pipelines.runner.program import Block, Job

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LINE = re.compile(r"Cell In\[\d+\], line (\d+)|File .*<ipython-input.*>.*line (\d+)")
_INSIDE = "trainshed.pipelines.runner.inside"
_STARTUP_SECONDS = 120
_node: Callable[[dict[str, Any]], Any] = from_dict


class Ran(msgspec.Struct, frozen=True):
    """A block that ran, with what it put out, in the notebook format."""

    block: Block | None
    outputs: list[dict[str, Any]]


class Outcome(msgspec.Struct, frozen=True):
    """How it went. `error` is the message for the user, None when all blocks ran."""

    ran: tuple[Ran, ...]
    error: str | None = None


class _Client(NotebookClient):
    """Copies output to this process's own as it comes."""

    def output(self, outs: Any, msg: Any, display_id: str | None, cell_index: int) -> Any:
        content = msg["content"]
        if msg["msg_type"] == "stream":
            stream = sys.stderr if content["name"] == "stderr" else sys.stdout
            stream.write(content["text"])
            stream.flush()
            hooked = self.output_hook_stack[msg["parent_header"].get("msg_id")]
            if not hooked and not self.clear_before_next_output:
                return _joined(outs, content)
        elif msg["msg_type"] in ("display_data", "execute_result"):
            text = content["data"].get("text/plain")
            if text:
                print(text, flush=True)  # noqa: T201
        return super().output(outs, msg, display_id, cell_index)


def _joined(outs: list[Any], content: dict[str, Any]) -> Any:
    """Add what was written to the last output if that is the same stream's, as Jupyter shows it.

    The base class checks each message against a schema, which takes 60 ms to load.
    """
    if outs and outs[-1].output_type == "stream" and outs[-1].name == content["name"]:
        outs[-1].text += content["text"]
    else:
        outs.append(_node({"output_type": "stream", "name": content["name"], "text": content["text"]}))
    return outs[-1]


def execute(job: Job, alongside: Callable[[], Awaitable[str]] | None = None, started_in: str = "") -> Outcome:
    """Run a step's program in a kernel of its own. The process has no event loop and no thread yet.

    The kernel imports nothing from the directory `started_in`, unless it is the current one.

    `alongside` runs beside it and returns only when the step must stop, with the reason.
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
            *((b.source, b) for b in before),
            (f"{call}.load()", None),
            *((b.source, b) for b in own),
            (f"{call}.finish()", None),
        ]
        # Not by `nbformat.v4`, which checks each cell against a schema that takes 40 ms to load.
        notebook = _node({"metadata": {}, "cells": [_cell(source) for source, _ in plan]})
        error = asyncio.run(_run(notebook, manager, plan, program.step, alongside))
    ran = tuple(
        Ran(block, [dict(o) for o in cell.outputs])
        for (_, block), cell in zip(plan, notebook.cells, strict=True)
        if block is not None or cell.outputs
    )
    return Outcome(ran, error)


def _cell(source: str) -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": None}


async def _run(
    notebook: Any,
    manager: AsyncKernelManager,
    plan: list[tuple[str, Block | None]],
    step: str,
    alongside: Callable[[], Awaitable[str]] | None,
) -> str | None:
    client = _Client(
        notebook, km=manager, timeout=None, startup_timeout=_STARTUP_SECONDS, store_widget_state=False
    )
    index = 0
    async with client.async_setup_kernel(cleanup_kc=True):
        watching = asyncio.ensure_future(alongside()) if alongside is not None else None
        try:
            for index, cell in enumerate(client.nb.cells):
                running = asyncio.ensure_future(client.async_execute_cell(cell, index))
                waiting = {running} | ({watching} if watching is not None else set())
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if not running.done() and watching is not None:
                    running.cancel()
                    await asyncio.gather(running, return_exceptions=True)  # says that the kernel died
                    return f"step {step} stops: {watching.result()}"
                await running
        except CellExecutionError as error:
            shown = [o for o in client.nb.cells[index].outputs if o.output_type == "error"]
            traceback = "\n".join(shown[-1].traceback) if shown else error.traceback
            return _message(error, traceback, plan[index][1], step)
        except DeadKernelError:
            return f"step {step}{_place(plan[index][1])}: the kernel died; out of memory is a frequent reason"
        finally:
            if watching is not None:
                watching.cancel()
    return None


def _place(block: Block | None, line: str | None = None) -> str:
    if block is None or block.cell is None:
        return ""
    return f", cell {block.cell}" + (f", line {line}" if line else "")


def _message(error: CellExecutionError, shown: str, block: Block | None, step: str) -> str:
    traceback = _ANSI.sub("", shown)
    if block is None:
        # Our own call: what it says is meant for the user as it stands.
        return f"step {step}: {_ANSI.sub('', error.evalue)}"
    found = _LINE.search(traceback)
    line = next((g for g in found.groups() if g), None) if found else None
    return f"step {step}{_place(block, line)}: {error.ename}: {error.evalue}\n\n{traceback.strip()}"
