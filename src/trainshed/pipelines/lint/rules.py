"""The rules that look at a whole pipeline. Each is a function of a Subject; `lint` runs them all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from trainshed.pipelines.diagnostics import Diagnostic, diagnostic
from trainshed.pipelines.graph.edges import StepNames, Wiring
from trainshed.pipelines.names.usage import Level
from trainshed.pipelines.notebook.steps import DraftStep


class Subject(msgspec.Struct, frozen=True):
    """What rules look at: steps with their names, their edges, and their cells."""

    steps: tuple[StepNames, ...]
    wiring: Mapping[str, Wiring]
    drafts: Mapping[str, DraftStep]


def lint(subject: Subject) -> list[Diagnostic]:
    """Return what every rule finds."""
    return [found for rule in (unsaveable, two_names, split_steps) for found in rule(subject)]


def unsaveable(subject: Subject) -> Iterator[Diagnostic]:
    """An open file, a lock, a generator that another step would have to load."""
    for step in subject.steps:
        for name, (kind, cell, line) in step.usage.unsaveable.items():
            readers = [s.name for s in subject.steps if subject.wiring[s.name].inputs.get(name) == step.name]
            if readers:
                yield diagnostic(
                    "NB207",
                    f"{name} is {kind}, which cannot be saved, and step {readers[0]} needs it",
                    cell=cell,
                    line=line,
                    step=step.name,
                    fix=f"make it in step {readers[0]}, or hand on what it was made of",
                )


def two_names(subject: Subject) -> Iterator[Diagnostic]:
    """Two names of one object, which become two objects on their way to a step that changes one."""
    for step in subject.steps:
        outputs = subject.wiring[step.name].outputs
        for name, (other, cell, line) in step.usage.aliases.items():
            if name not in outputs or other not in outputs:
                continue
            for reader in subject.steps:
                mentions = reader.usage.mentions
                changed = [
                    n for n in (name, other) if Level.TOUCH <= mentions.get(n, Level.READ) < Level.BIND
                ]
                if changed and reader is not step:
                    yield diagnostic(
                        "NB209",
                        f"{name} and {other} are one object here and two in step {reader.name}, which may change"
                        f" {changed[0]}",
                        cell=cell,
                        line=line,
                        step=step.name,
                        fix="use one name",
                    )
                    break


def split_steps(subject: Subject) -> Iterator[Diagnostic]:
    """A step whose cells lie around another's: all of it runs before or after the other."""
    for step in subject.steps:
        cells = [cell.number for cell in subject.drafts[step.name].cells]
        for other in subject.steps:
            inner = [c.number for c in subject.drafts[other.name].cells if cells[0] < c.number < cells[-1]]
            if other is step or not inner:
                continue
            shared = _bound(step) & set(other.usage.mentions) | _bound(other) & set(step.usage.mentions)
            if shared:
                yield diagnostic(
                    "NB114",
                    f"cells of step {step.name} stand before and behind step {other.name}, and both use"
                    f" {sorted(shared)[0]}; all of {step.name} runs together",
                    cell=inner[0],
                    step=step.name,
                    fix="give the later cells a step name of their own",
                )


def _bound(step: StepNames) -> set[str]:
    return {name for name, level in step.usage.mentions.items() if level >= Level.CHANGE}
