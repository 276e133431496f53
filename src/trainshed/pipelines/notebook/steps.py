"""Tagged cells → steps: which cells merge, what each step waits for, how each is set up and distributed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainshed.pipelines.diagnostics import Diagnostic, diagnostic
from trainshed.pipelines.notebook.cells import Cell
from trainshed.pipelines.notebook.nearest import nearest
from trainshed.pipelines.notebook.stepnames import NamedStep, wrong_names
from trainshed.pipelines.notebook.stepsettings import Distribution, StepSettings, distribution, step_settings
from trainshed.pipelines.notebook.tags import CellKind, Said, TaggedCell, understand

_DEFAULTS = (
    "annotation",
    "label",
    "limit",
    "request",
    "env",
    "secret",
    "image",
    "cache",
    "report",
    "retries",
    "timeout",
    "toleration",
    "pull-secret",
)
"""Forms of tag that `steps_defaults` may have."""


class DraftStep(msgspec.Struct, frozen=True):
    """A step before anything is known about its code. `order` is its place among the steps of the notebook."""

    name: str
    order: int
    cells: tuple[Cell, ...]
    previous: tuple[str, ...] = ()
    settings: StepSettings = StepSettings()
    distribution: Distribution | None = None


class Reference(msgspec.Struct, frozen=True):
    """A cell that stands for another notebook. `order` as in DraftStep."""

    name: str
    order: int
    path: str
    cell: int


class Draft(msgspec.Struct, frozen=True):
    """A notebook cut into its parts."""

    imports: tuple[Cell, ...] = ()
    functions: tuple[Cell, ...] = ()
    parameters: tuple[Cell, ...] = ()
    metrics: tuple[Cell, ...] = ()
    steps: tuple[DraftStep, ...] = ()
    references: tuple[Reference, ...] = ()


class _Building(msgspec.Struct):
    order: int
    cells: list[Cell]
    said: list[tuple[int, Said]]


_PRELUDE = (CellKind.IMPORTS, CellKind.FUNCTIONS, CellKind.PARAMETERS, CellKind.METRICS)


def draft(cells: Sequence[TaggedCell], defaults: Sequence[str] = ()) -> tuple[Draft, list[Diagnostic]]:
    """Return the parts of a notebook. `defaults` are the tags of `steps_defaults`; a step's own tags win."""
    found: list[Diagnostic] = []
    parts: dict[CellKind, list[Cell]] = {kind: [] for kind in _PRELUDE}
    steps: dict[str, _Building] = {}
    references: list[Reference] = []
    if not any(c.kind != CellKind.NONE for c in cells):
        return _untagged(cells)
    active: CellKind | str | None = None
    leading: list[int] = []
    pending: list[Cell] = []
    for number, tagged in enumerate(cells):
        cell = tagged.cell
        if tagged.kind in _PRELUDE:
            parts[tagged.kind].append(cell)
            active = tagged.kind
        elif tagged.kind == CellKind.STEP and tagged.name is not None:
            if active == CellKind.METRICS:
                found.append(_misplaced_metrics(parts[CellKind.METRICS][-1]))
            step = steps.setdefault(tagged.name, _Building(number, [], []))
            step.cells += [*pending, cell]
            pending = []
            step.said += [(cell.number, said) for said in tagged.said]
            active = tagged.name
        elif tagged.kind == CellKind.NOTEBOOK and tagged.name is not None:
            reference = _reference(tagged, number, found)
            if reference is not None:
                references.append(reference)
            active = CellKind.NOTEBOOK
        elif tagged.kind == CellKind.NONE:
            if active is None:
                leading += [cell.number] if cell.source.strip() else []
            elif active == CellKind.NOTEBOOK:
                pending += [cell] if cell.source.strip() else []
            elif isinstance(active, CellKind):
                parts[active].append(cell)
            else:
                steps[active].cells.append(cell)
    if leading:
        found.append(
            diagnostic(
                "NB108",
                f"{_cells(leading)} without a tag before the first tagged one: left out of the pipeline",
                cell=leading[0],
                fix="tag them imports, functions, skip or step:NAME",
            )
        )
    if pending:
        found.append(
            diagnostic(
                "NB115",
                "untagged code after a notebook: cell belongs to the next step, and none follows",
                cell=pending[0].number,
                fix="tag it step:NAME",
            )
        )
    made = tuple(
        _step(name, step, steps, {r.name for r in references}, defaults, found)
        for name, step in steps.items()
    )
    found += wrong_names(
        NamedStep(step.name, step.distribution.workers if step.distribution else None, step.cells[0].number)
        for step in made
    )
    found += _default_tags(defaults)
    return (
        Draft(
            tuple(parts[CellKind.IMPORTS]),
            tuple(parts[CellKind.FUNCTIONS]),
            tuple(parts[CellKind.PARAMETERS]),
            tuple(parts[CellKind.METRICS]),
            made,
            tuple(references),
        ),
        found,
    )


def _untagged(cells: Sequence[TaggedCell]) -> tuple[Draft, list[Diagnostic]]:
    """Return a notebook without tags as one step."""
    code = tuple(c.cell for c in cells if c.cell.source.strip())
    if not code:
        return Draft(), [diagnostic("NB001", "the notebook has no code", fix="add a code cell")]
    made = Draft(steps=(DraftStep("notebook", 0, code),))
    if any(c.cell.tags for c in cells):
        return made, []  # what is wrong with the tags is found already
    note = diagnostic("NB113", "no cell has a tag: the whole notebook is one step", fix="tag cells step:NAME")
    return made, [note]


def _misplaced_metrics(cell: Cell) -> Diagnostic:
    return diagnostic(
        "NB111",
        "pipeline-metrics must be at the end of the notebook: metrics are results of the run, not of a step",
        cell=cell.number,
        fix="move the cell behind the last step",
    )


def _reference(tagged: TaggedCell, order: int, found: list[Diagnostic]) -> Reference | None:
    cell, name = tagged.cell, tagged.name or ""
    code = [line for line in cell.source.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if code:
        found.append(
            diagnostic("NB115", f"cell notebook:{name} contains code", cell=cell.number, fix="move the code")
        )
        return None
    if not cell.notebook_path:
        found.append(
            diagnostic(
                "NB115",
                f"cell notebook:{name} has no path",
                cell=cell.number,
                fix="put the path into the cell's metadata as notebook_path",
            )
        )
        return None
    return Reference(name, order, cell.notebook_path, cell.number)


def _step(
    name: str,
    built: _Building,
    steps: dict[str, _Building],
    references: set[str],
    defaults: Sequence[str],
    found: list[Diagnostic],
) -> DraftStep:
    previous = []
    for cell, said in built.said:
        if said.name != "prev":
            continue
        other = said.args[0]
        if other == name:
            found.append(
                diagnostic(
                    "NB105", f"step {name} waits for itself", cell=cell, step=name, fix=f"remove prev:{name}"
                )
            )
        elif other in steps or other in references:
            previous.append(other)
        else:
            close = nearest(other, steps)
            found.append(
                diagnostic(
                    "NB104",
                    f"step {other} does not exist; step {name} names it as previous",
                    cell=cell,
                    step=name,
                    fix=f"did you mean prev:{close}?" if close else f"remove prev:{other}",
                )
            )
    understood = [said for said in map(understand, defaults) if said is not None and said.name in _DEFAULTS]
    return DraftStep(
        name,
        built.order,
        tuple(built.cells),
        tuple(dict.fromkeys(previous)),
        step_settings([*understood, *(said for _, said in built.said)]),
        distribution(name, built.said, found),
    )


def _default_tags(defaults: Sequence[str]) -> list[Diagnostic]:
    found = []
    for tag in defaults:
        said = understand(tag)
        if said is None or said.name not in _DEFAULTS:
            found.append(
                diagnostic(
                    "NB003",
                    f"setting steps_defaults: unrecognized common step configuration: {tag}",
                    fix=f"allowed are {', '.join(_DEFAULTS)}",
                )
            )
    return found


def _cells(numbers: Sequence[int]) -> str:
    return f"cell {numbers[0]}" if len(numbers) == 1 else f"cells {', '.join(map(str, numbers))}"
