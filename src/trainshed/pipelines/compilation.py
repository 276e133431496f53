"""A notebook → a checked pipeline and what there is to say about it: the stages in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from trainshed.pipelines.composition import Composed, Unit, compose
from trainshed.pipelines.diagnostics import Diagnostic, diagnostic, has_errors, ordered
from trainshed.pipelines.graph.edges import Edges, StepNames
from trainshed.pipelines.graph.order import Cycle, topological
from trainshed.pipelines.ir import Block, Compiled, Input, Pipeline, Step
from trainshed.pipelines.lint.rules import Subject, lint
from trainshed.pipelines.names.source import Code, parse
from trainshed.pipelines.names.usage import Usage
from trainshed.pipelines.names.walker import Walker
from trainshed.pipelines.notebook import literals
from trainshed.pipelines.notebook.cells import Cell, Notebook
from trainshed.pipelines.notebook.settings import settings_of
from trainshed.pipelines.notebook.steps import DraftStep, Reference, draft
from trainshed.pipelines.notebook.tags import tagged

_T = TypeVar("_T")


def references(notebook: Notebook) -> tuple[str, ...]:
    """Return the paths of the notebooks that cells of this one stand for."""
    return tuple(dict.fromkeys(cell.notebook_path for cell in notebook.cells if cell.notebook_path))


def compile_notebook(notebook: Notebook, others: Mapping[str, Notebook] | None = None) -> Compiled:
    """Return the pipeline of a notebook. `others` are those that it stands for, by the path in the cell."""
    settings, found = settings_of(notebook)
    root = _unit(notebook, settings.step_tags, found)
    composed = compose(root, _builder(others or {}, found), found)
    drafts = {step.name: step for unit in composed.units for step in unit.draft.steps}
    if not drafts:
        found.append(diagnostic("NB001", "the notebook has no step", fix="tag a cell step:NAME"))
        return Compiled(None, ordered(found))
    try:
        order = topological(composed.previous)
    except Cycle as cycle:
        cell = drafts[cycle.steps[0]].cells[0].number
        found.append(
            diagnostic("NB105", f"steps wait for one another: {cycle}", cell=cell, fix="remove a prev: tag")
        )
        return Compiled(None, ordered(found))
    usages = {name: usage for unit in composed.units for name, usage in unit.usage.items()}
    names = tuple(
        StepNames(
            name, composed.order[name], drafts[name].cells[0].number, composed.previous[name], usages[name]
        )
        for name in order
    )
    edges = Edges(names, [p.name for p in composed.parameters])
    edges.connect(composed.metrics)
    found += edges.found
    found += _prelude_needs(composed, names)
    found += lint(Subject(names, edges.wiring, drafts))
    units = {step.name: unit for unit in composed.units for step in unit.draft.steps}
    steps = tuple(_step(units[name], drafts[name], composed.previous[name], edges) for name in order)
    pipeline = None if has_errors(found) else Pipeline(settings, composed.parameters, steps)
    return Compiled(pipeline, ordered(found))


def _unit(notebook: Notebook, defaults: Sequence[str], found: list[Diagnostic]) -> Unit:
    """Return a notebook's parts and names, and put what is wrong with them into `found`."""

    def kept(result: tuple[_T, list[Diagnostic]]) -> _T:
        found.extend(result[1])
        return result[0]

    cells = [kept(tagged(cell)) for cell in notebook.cells]
    parts = kept(draft(cells, defaults))

    def parsed(cells: Sequence[Cell]) -> tuple[Code, ...]:
        return tuple(kept(parse(cell)) for cell in cells)

    prelude = parsed((*parts.imports, *parts.functions))
    walker = Walker()
    needs = walker.prelude(prelude)
    usage: dict[str, Usage] = {}
    for step in parts.steps:
        own = walker.copy()
        own.own(parsed(step.cells))
        usage[step.name] = own.usage()
    return Unit(
        parts,
        kept(literals.parameters(parts.parameters)),
        kept(literals.metrics(parts.metrics)),
        prelude,
        needs,
        usage,
    )


def _builder(others: Mapping[str, Notebook], found: list[Diagnostic]) -> Callable[[Reference], Unit | None]:
    def build(reference: Reference) -> Unit | None:
        other = others.get(reference.path)
        if other is None:
            message = f"notebook:{reference.name}: {reference.path} cannot be read"
            found.append(diagnostic("NB115", message, cell=reference.cell, fix="correct notebook_path"))
            return None
        if references(other):
            message = f"notebook:{reference.name}: {reference.path} itself stands for other notebooks"
            found.append(diagnostic("NB115", message, cell=reference.cell, fix="name those here"))
            return None
        inner: list[Diagnostic] = []
        unit = _unit(other, (), inner)
        found.extend(msgspec.structs.replace(d, file=reference.path) for d in inner)
        return msgspec.structs.replace(unit, file=reference.path)

    return build


def _prelude_needs(composed: Composed, steps: Sequence[StepNames]) -> list[Diagnostic]:
    parameters = {p.name for p in composed.parameters}
    found = []
    for unit in composed.units:
        for need in unit.needs:
            if need.name in parameters:
                continue
            producer = next((s.name for s in steps if need.name in s.usage.bound), None)
            code = "NB208" if producer else "NB202"
            message = (
                f"{need.name} is defined in step {producer}, but this code runs at the start of every step"
                if producer
                else f"{need.name} is not defined in the imports and functions cells"
            )
            found.append(
                diagnostic(code, message, cell=need.cell, line=need.line, fix="move the line into a step")
            )
    return found


def _step(unit: Unit, step: DraftStep, previous: tuple[str, ...], edges: Edges) -> Step:
    wiring = edges.wiring[step.name]
    imports = [Block("\n".join(wiring.imports), "imports")] if wiring.imports else []
    prelude = [Block(c.source, "imports", c.number) for c in unit.draft.imports]
    prelude += [Block(c.source, "functions", c.number) for c in unit.draft.functions]
    own = [Block(c.source, "step", c.number) for c in step.cells]
    # A parameter that the prelude reads at once is needed by every step.
    parameters = wiring.parameters | {n.name for n in unit.needs if n.name in edges.parameters}
    usage = unit.usage[step.name]
    lines = usage.lines
    return Step(
        step.name,
        (*prelude, *imports, *own),
        previous,
        tuple(Input(name, producer, name) for name, producer in sorted(wiring.inputs.items())),
        tuple(sorted(wiring.outputs)),
        {name: lines[name][0] for name in sorted(wiring.outputs) if name in lines},
        tuple(sorted(wiring.outputs & usage.prelude_variables - usage.bound)),
        tuple(sorted(parameters)),
        tuple(wiring.metrics),
        step.settings,
        step.distribution,
    )
