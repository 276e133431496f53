"""The generations of job kinds, one line each, and what an operator has to know of all of them together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from trainshed.api.kind import Kind
from trainshed.api.verdict import Verdict
from trainshed.jobs.engine.generation import Controlled, Generation
from trainshed.jobs.engine.model import Flag, OperatorOptions
from trainshed.jobs.engine.owned import Grant
from trainshed.jobs.v1.generation import V1
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import Resource

GENERATIONS: list[Generation] = [
    V1(),
]


def controlled(kind: str, options: OperatorOptions) -> Controlled:
    """Return what there is to know about a kind; KeyError for one that nothing decides about."""
    found = _generation_of(kind)
    if found is None:
        raise KeyError(kind)
    return found.controlled(kind, options)


def all_verbs(options: OperatorOptions) -> dict[Resource, tuple[str, ...]]:
    """Return what an operator with these options does with each resource that jobs of any kind own or look at."""
    verbs: dict[Resource, set[str]] = {}
    for generation in GENERATIONS:
        for row in generation.owned(options):
            verbs.setdefault(row.resource, set()).update(row.verbs)
    for generation in GENERATIONS:
        for resource in generation.reads(options):
            verbs.setdefault(resource, set()).add("get")
    return {resource: tuple(sorted(words)) for resource, words in verbs.items()}


def all_grants() -> tuple[Grant, ...]:
    """Return what the jobs of any kind may hand on."""
    return tuple(dict.fromkeys(grant for generation in GENERATIONS for grant in generation.grants()))


def flags() -> Iterator[Flag]:
    """Yield the flags of the operator that belong to kinds."""
    for generation in GENERATIONS:
        yield from generation.flags()


def options_of_kinds(values: Mapping[str, str | int]) -> dict[str, msgspec.Struct]:
    """Return what flags say of each kind, by their names. ValueError for a value that cannot be used."""
    found: dict[str, msgspec.Struct] = {}
    for generation in GENERATIONS:
        found |= generation.options_of_kinds(values)
    return found


def needed(options: OperatorOptions) -> tuple[Resource, ...]:
    """Return the resources that an operator with these options watches and that a cluster may lack: those of gangs."""
    return tuple(resource for generation in GENERATIONS for resource in generation.needed(options))


def review(kind: Kind, obj: Object, old: Object | None, options: OperatorOptions) -> Verdict:
    """Return the verdict on a job that is created or updated, with what only an operator with these options can say."""
    verdict = kind.validate(obj, old)
    generation = _generation_of(kind.name)
    more = () if generation is None else generation.warnings(kind.name, obj, options)
    return Verdict(errors=verdict.errors, warnings=(*verdict.warnings, *more))


def _generation_of(kind: str) -> Generation | None:
    return next((generation for generation in GENERATIONS if kind in generation.kinds()), None)
