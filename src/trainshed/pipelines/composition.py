"""A notebook whose cells stand for other notebooks: their steps take part in one pipeline.

The steps of another notebook are called `REFERENCE_STEP` and keep their own imports, functions and order. Steps of the
notebook itself run before and after a reference as they stand; two references run at the same time unless one needs a
name that the other provides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from trainshed.pipelines.diagnostics import Diagnostic, diagnostic
from trainshed.pipelines.names.source import Code
from trainshed.pipelines.names.usage import Need, Usage
from trainshed.pipelines.notebook.literals import Metric, Parameter
from trainshed.pipelines.notebook.steps import Draft, Reference


class Unit(msgspec.Struct, frozen=True):
    """One notebook, parsed: its parts, what its imports and functions cells need, and the names of its steps."""

    draft: Draft
    parameters: tuple[Parameter, ...]
    metrics: tuple[Metric, ...]
    prelude: tuple[Code, ...]
    needs: tuple[Need, ...]
    usage: dict[str, Usage]
    file: str | None = None


class Composed(msgspec.Struct, frozen=True):
    """Notebooks as one: units in order, what each step waits for, its place, and all parameters and metrics."""

    units: tuple[Unit, ...]
    previous: dict[str, tuple[str, ...]]
    order: dict[str, int]
    parameters: tuple[Parameter, ...]
    metrics: tuple[Metric, ...]


def compose(root: Unit, build: Callable[[Reference], Unit | None], found: list[Diagnostic]) -> Composed:
    """Return a notebook with those that it stands for. `build` gives the other one, or says why not and gives none."""
    children: dict[str, tuple[Reference, Unit]] = {}
    for reference in root.draft.references:
        if reference.name in children:
            message = f"two cells are called notebook:{reference.name}"
            found.append(diagnostic("NB115", message, cell=reference.cell, fix="rename one"))
            continue
        child = build(reference)
        if child is not None:
            children[reference.name] = (reference, _prefixed(child, reference.name))
    leaves = {name: _leaves(child) for name, (_, child) in children.items()}
    previous: dict[str, list[str]] = {}
    places: list[tuple[tuple[int, int], str]] = []
    for step in root.draft.steps:
        places.append(((step.order, 0), step.name))
        waits = [p for name in step.previous for p in leaves.get(name, [name])]
        waits += [p for name, (ref, _) in children.items() if ref.order < step.order for p in leaves[name]]
        previous[step.name] = waits
    for reference, child in children.values():
        before = [s.name for s in root.draft.steps if s.order < reference.order]
        last = [name for name in before if not any(name in previous[other] for other in before)]
        needs = _needs(child)
        for other_name, (_, other) in children.items():
            if other is not child and needs & _provides(other):
                last += leaves[other_name]
        for index, step in enumerate(child.draft.steps):
            places.append(((reference.order, index), step.name))
            previous[step.name] = list(step.previous) or last
    names = [name for _, name in sorted(places)]
    ordered = {name: tuple(dict.fromkeys(previous[name])) for name in names}
    parameters = {p.name: p for _, child in children.values() for p in child.parameters}
    own = {p.name: p for p in root.parameters}
    return Composed(
        (root, *(child for _, child in children.values())),
        ordered,
        {name: index for index, name in enumerate(names)},
        tuple((own | {name: p for name, p in parameters.items() if name not in own}).values()),
        tuple(
            {m.key: m for unit in (root, *(c for _, c in children.values())) for m in unit.metrics}.values()
        ),
    )


def _prefixed(unit: Unit, prefix: str) -> Unit:
    def name(step: str) -> str:
        return f"{prefix}_{step}"

    steps = tuple(
        msgspec.structs.replace(s, name=name(s.name), previous=tuple(map(name, s.previous)))
        for s in unit.draft.steps
    )
    return msgspec.structs.replace(
        unit,
        draft=msgspec.structs.replace(unit.draft, steps=steps),
        usage={name(step): usage for step, usage in unit.usage.items()},
    )


def _leaves(unit: Unit) -> list[str]:
    awaited = {p for step in unit.draft.steps for p in step.previous}
    return [step.name for step in unit.draft.steps if step.name not in awaited]


def _provides(unit: Unit) -> set[str]:
    return {name for usage in unit.usage.values() for name in usage.bound}


def _needs(unit: Unit) -> set[str]:
    known: Sequence[str] = [p.name for p in unit.parameters]
    needed = {need.name for usage in unit.usage.values() for need in usage.needs if not need.maybe}
    return needed - _provides(unit) - set(known)
