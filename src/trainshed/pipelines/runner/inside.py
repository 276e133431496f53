"""The part of the runner that runs in the step's kernel, between the user's blocks."""

from __future__ import annotations

import json
import linecache
import math
import numbers
import os
from pathlib import Path
from typing import Any

import msgspec

from trainshed.pipelines.runner import store
from trainshed.pipelines.runner.program import Block, Job, MetricsArtifact, parameter_value
from trainshed.pipelines.runner.values import backends


class Session:
    """A step on its way: `begin`, the imports and functions, `load`, the step's own code, `finish`."""

    def __init__(self, job: Job, names: dict[str, Any]) -> None:
        self._program, self._circumstances, self._names = job.program, job.circumstances, names
        self._everywhere: frozenset[str] = frozenset()

    def begin(self) -> None:
        """Go to the working directory, which may be another since the kernel started, and set the parameters."""
        if self._circumstances.work is not None:
            Path(self._circumstances.work).mkdir(parents=True, exist_ok=True)
            os.chdir(self._circumstances.work)
        for parameter in self._program.parameters:
            text = self._circumstances.parameters.get(parameter.name)
            self._names[parameter.name] = parameter_value(parameter, text)

    def define(self, number: int) -> None:
        """Run a block that comes from a file, as lines of that file."""
        block = self._program.blocks[number]
        assert block.file is not None
        text = "\n" * (block.line - 1) + block.source
        # No time of the last change: so it is not looked for on the disk, where it need not be.
        linecache.cache[block.file] = (len(text), None, text.splitlines(keepends=True), block.file)
        exec(compile(text, block.file, "exec", dont_inherit=True), self._names)  # noqa: S102 - the step's own program

    def load(self) -> None:
        """Load the inputs, after the imports and functions have run. Raises DataError."""
        self._everywhere = frozenset(name for name, value in self._names.items() if isinstance(value, type))
        known = backends(self._names)
        where, failures = self._circumstances, []
        for wanted in self._program.inputs:
            folder = Path(where.input_folders.get(wanted.name) or Path(where.data) / wanted.step)
            try:
                is_set, value = store.load(
                    folder,
                    wanted.output,
                    backends=known,
                    step=wanted.step,
                    run=where.run,
                    trusted=where.trusted,
                )
            except store.DataError as error:
                failures.append(str(error))
                continue
            if is_set:
                self._names[wanted.name] = value
        if failures:
            raise store.DataError("\n".join(failures))

    def finish(self) -> None:
        """Write the metrics and save the outputs. Raises DataError."""
        if not self._circumstances.saves:
            return
        numbers_ = self._write_metrics()
        self._save()
        where = self._circumstances
        if where.executor_output is not None:
            _describe(where.executor_output, where.artifacts, where.metrics_artifact, numbers_)

    def _save(self) -> None:
        where, outputs = self._circumstances, self._program.outputs
        if not outputs:
            return
        known = backends(self._names, self._everywhere)
        cells = {output.name: output.cell for output in outputs}
        folders: dict[Path, list[str]] = {}
        for output in outputs:
            folder = Path(where.output_folders.get(output.name) or Path(where.data) / self._program.step)
            folders.setdefault(folder, []).append(output.name)
        for folder, names in folders.items():
            store.save(
                folder,
                self._names,
                names=names,
                backends=known,
                step=self._program.step,
                run=where.run,
                attempt=where.attempt,
                cells=cells,
                fallbacks=[output.name for output in outputs if output.fallback],
            )

    def _write_metrics(self) -> dict[str, float | int]:
        where = self._circumstances
        words = []
        numbers_: dict[str, float | int] = {}
        for metric in self._program.metrics:
            value = self._names.get(metric.variable)
            number = _number(value)
            if number is None:
                raise store.DataError(
                    f"metric {metric.key}: {metric.variable} must be a number, not {store.type_name(value)}"
                )
            text = json.dumps(number)
            files = [where.results[metric.key]] if metric.key in where.results else []
            if where.results_folder is not None:
                files.append(str(Path(where.results_folder) / metric.key))
            for file in files:
                Path(file).parent.mkdir(parents=True, exist_ok=True)
                Path(file).write_text(text)
            numbers_[metric.key] = number
            words.append({"key": metric.key, "value": text, "type": 1})
        if where.metrics_artifact is not None:
            _write(where.metrics_artifact.path, numbers_)
        if where.message is not None and words:
            Path(where.message).write_text(json.dumps(words))
        return numbers_


def _describe(
    file: str, artifacts: dict[str, str], metrics: MetricsArtifact | None, numbers_: dict[str, float | int]
) -> None:
    """Write what the step has made in the form of KFP's ExecutorOutput."""
    made: dict[str, Any] = {name: {"name": name, "uri": uri} for name, uri in artifacts.items()}
    if metrics is not None:
        made[metrics.name] = {"name": metrics.name, "uri": metrics.uri, "metadata": numbers_}
    _write(file, {"artifacts": {name: {"artifacts": [one]} for name, one in made.items()}})


def _write(file: str, content: object) -> None:
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(json.dumps(content))


def _number(value: Any) -> float | int | None:
    """Return a metric as a finite number; arrays and tensors of one element count."""
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real) and math.isfinite(value):
        return float(value)
    return None


_session: Session | None = None


def begin(file: str) -> None:
    """Start the session of this kernel; `file` holds the Job as JSON."""
    global _session
    from IPython import get_ipython

    shell = get_ipython()
    job = msgspec.json.decode(Path(file).read_bytes(), type=Job)
    _session = Session(job, shell.user_ns)
    _session.begin()
    _number_cells(shell, job)


def define(number: int) -> None:
    """Run a block that comes from a file, so that tracebacks show the lines of that file."""
    assert _session is not None
    _session.define(number)


def load() -> None:
    """Load the inputs."""
    assert _session is not None
    _session.load()


def finish() -> None:
    """Save the outputs."""
    assert _session is not None
    _session.finish()


def _number_cells(shell: Any, job: Job) -> None:
    """Make tracebacks say `In[6]` of the notebook's cell 6, and not of the order in which blocks run here.

    The counter is read before a cell's own events, so each cell's end sets it for the one that follows.
    """
    prelude = [b for b in job.program.blocks if b.role != "step"]
    own = [b for b in job.program.blocks if b.role == "step"]

    def told(blocks: list[Block]) -> list[tuple[str | None, int | None]]:
        return [(b.source if b.file is None else None, b.cell) for b in blocks]

    following = [*told(prelude), (None, None), *told(own)]
    running: list[str | None] = [None]

    def after(result: Any) -> None:
        # A block may itself run cells, whose ends do not count. Our own calls have no source here.
        if running[0] is not None and result.info.raw_cell != running[0]:
            return
        if following:
            source, cell = following.pop(0)
            running[0] = source
            if cell is not None:
                shell.execution_count = cell

    shell.events.register("post_run_cell", after)
