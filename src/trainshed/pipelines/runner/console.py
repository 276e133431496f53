"""A console in which a step's imports, functions and inputs are there, and its own code is not run yet."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec

from trainshed.pipelines.runner.program import Job

_INSIDE = "trainshed.pipelines.runner.inside"


def console(job: Job) -> int:
    """Open IPython with the step's inputs loaded; return the exit code. What was done there is not saved."""
    from IPython.terminal.interactiveshell import TerminalInteractiveShell

    shell: Any = TerminalInteractiveShell.instance()
    with tempfile.TemporaryDirectory(prefix="trainshed-step-") as folder:
        file = Path(folder) / "job.json"
        file.write_bytes(msgspec.json.encode(job))
        call = f"__import__({_INSIDE!r}, fromlist=['inside'])"
        before = [job.program.statement(b, call) for b in job.program.blocks if b.role != "step"]
        for source in (f"{call}.begin({str(file)!r})", *before, f"{call}.load()"):
            if not shell.run_cell(source, store_history=False).success:
                return 1
    loaded = ", ".join(i.name for i in job.program.inputs) or "nothing"
    print(f"step {job.program.step}: loaded {loaded}; its code:\n")  # noqa: T201
    for block in job.program.blocks:
        if block.role == "step":
            print(block.source + "\n")  # noqa: T201
    shell.mainloop()
    return 0
