"""How a run ended: its steps, its results, and what failed in the words of the notebook's author."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from trainshed.sdk.pipelineruns.steps import StepState

_ERROR = re.compile(
    r"error: step ([^\s:,]+)(?:, cell (\d+)|, file (?P<file>[^:]+?))?(?:, line (?P<line>\d+))?"
    r"(?::| stops) ?(?P<message>.*)"
)


class Failure(msgspec.Struct, frozen=True):
    """What failed: the step, where in the notebook, and the traceback as its author knows it."""

    step: str
    message: str
    cell: int | None = None
    line: int | None = None
    traceback: tuple[str, ...] = ()
    file: str | None = None
    """The file of the step's function, where it is one."""

    def lines(self) -> list[str]:
        """Return what to print: where and what first, then the traceback."""
        place = f", cell {self.cell}" if self.cell is not None else ""
        place += f", {self.file}" if self.file is not None else ""
        place += f", line {self.line}" if self.line is not None else ""
        return [f"step {self.step} failed{place}: {self.message}", *self.traceback]


class PipelineOutcome(msgspec.Struct, frozen=True):
    """How a run ended."""

    name: str
    namespace: str
    succeeded: bool
    reason: str
    message: str
    steps: tuple[StepState, ...] = ()
    parameters: dict[str, str] = {}
    """What the run was given, and the defaults of the others."""
    results: dict[str, str] = {}
    seconds: float = 0.0
    data: str | None = None
    """The claim's directory on this machine, where it has one."""
    reports: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()


def is_error(line: str) -> bool:
    """Return whether the step runner says with this line that the step failed."""
    return _ERROR.match(line) is not None


def failure_in(step: str, lines: Sequence[str]) -> Failure | None:
    """Return what the step runner said at last, None when it said nothing."""
    found = None
    all_lines = list(lines)
    for number, line in enumerate(all_lines):
        match = _ERROR.match(line)
        if match:
            found = (number, match)
    if found is None:
        return None
    number, match = found
    rest = all_lines[number + 1 :]
    while rest and not rest[0].strip():
        rest.pop(0)
    cell, line_ = (int(g) if g else None for g in (match[2], match["line"]))
    return Failure(step, match["message"], cell, line_, tuple(rest), match["file"])


def reports(data: str | None, steps: Sequence[StepState]) -> tuple[str, ...]:
    """Return where the HTML reports of steps lie, of those that ran."""
    if data is None:
        return ()
    ran = [s for s in steps if s.state in ("succeeded", "failed")]
    return tuple(f"{data}/reports/{step.name}.html" for step in ran)


def summary(ended: PipelineOutcome) -> list[str]:
    """Return what to print of a run that is over: what failed first, then results and where things lie."""
    out: list[str] = []
    for failure in ended.failures:
        out += [*failure.lines(), ""]
    if not ended.succeeded and not ended.failures:
        out.append(f"{ended.reason}: {ended.message}")
    done = sum(step.state == "succeeded" for step in ended.steps)
    word = "succeeded" if ended.succeeded else "failed"
    out.append(f"{ended.name} {word}: {done} of {len(ended.steps)} steps in {ended.seconds:.0f} s")
    out += [f"  parameter  {name} = {value}" for name, value in ended.parameters.items()]
    out += [f"  metric     {name} = {value}" for name, value in sorted(ended.results.items())]
    if ended.data is not None:
        out.append(f"  data       {ended.data}")
    out += [f"  report     {path}" for path in ended.reports]
    return out
