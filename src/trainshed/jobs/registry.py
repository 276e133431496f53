"""What an operator has to know to run the jobs of a kind, whichever generation decides about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from trainshed.api.kind import Kind
from trainshed.api.verdict import Verdict
from trainshed.jobs.engine.model import Flag, Observed, OperatorOptions
from trainshed.jobs.engine.owned import REPLICAS, Grant, Owns
from trainshed.jobs.engine.plan import Plan
from trainshed.jobs.v1.decide import decide
from trainshed.jobs.v1.frameworks import FRAMEWORKS
from trainshed.jobs.v1.frameworks.base import Phase
from trainshed.jobs.v1.gang.warnings import scheduling_warnings
from trainshed.jobs.v1.phases import COMMON, phases
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import Resource


class Controlled(msgspec.Struct, frozen=True, kw_only=True):
    """One kind under control: what its jobs own, which of it is looked up by name, and who decides."""

    kind: Kind
    owns: tuple[Owns, ...]
    lookups: Callable[[Object], Iterable[tuple[Resource, str]]]
    decide: Callable[[Observed], Plan]


def controlled(kind: str, options: OperatorOptions) -> Controlled:
    """Return what there is to know about a kind; KeyError for one that nothing decides about."""
    parts = phases(kind, options)

    def lookups(document: Object) -> Iterator[tuple[Resource, str]]:
        for part in parts:
            yield from part.lookups(document)

    return Controlled(kind=FRAMEWORKS[kind].kind, owns=_owned(parts), lookups=lookups, decide=decide)


def all_verbs(options: OperatorOptions) -> dict[Resource, tuple[str, ...]]:
    """Return what an operator with these options does with each resource that jobs of any kind own or look at."""
    verbs: dict[Resource, set[str]] = {}
    parts = _parts(options)
    for row in _owned(parts):
        verbs.setdefault(row.resource, set()).update(row.verbs)
    for resource in (resource for part in parts for resource in part.reads):
        verbs.setdefault(resource, set()).add("get")
    return {resource: tuple(sorted(words)) for resource, words in verbs.items()}


def all_grants() -> tuple[Grant, ...]:
    """Return what the jobs of any kind may hand on."""
    parts: list[Phase] = [*FRAMEWORKS.values(), *COMMON]
    return tuple(dict.fromkeys(grant for part in parts for grant in part.grants))


def init_containers(options: OperatorOptions) -> tuple[Object, ...]:
    """Return the init containers that an operator with these options adds to pods, with name and resources."""
    return tuple(one for part in _parts(options) for one in part.init_containers(options))


def flags() -> Iterator[Flag]:
    """Yield the flags of the operator that belong to kinds."""
    for framework in FRAMEWORKS.values():
        yield from framework.flags


def options_of_kinds(values: Mapping[str, str | int]) -> dict[str, msgspec.Struct]:
    """Return what flags say of each kind, by their names. ValueError for a value that cannot be used."""
    found = {}
    for name, framework in FRAMEWORKS.items():
        options = framework.options({flag.name: values[flag.name] for flag in framework.flags})
        if options is not None:
            found[name] = options
    return found


def needed(options: OperatorOptions) -> tuple[Resource, ...]:
    """Return the resources that an operator with these options watches and that a cluster may lack: those of gangs."""
    rows = (row for part in COMMON if part.is_enabled(options) for row in part.owns)
    return tuple(row.resource for row in rows)


def review(kind: Kind, obj: Object, old: Object | None, options: OperatorOptions) -> Verdict:
    """Return the verdict on a job that is created or updated, with what only an operator with these options can say."""
    verdict = kind.validate(obj, old)
    more = scheduling_warnings(FRAMEWORKS[kind.name].kind, obj, options) if kind.name in FRAMEWORKS else ()
    return Verdict(errors=verdict.errors, warnings=(*verdict.warnings, *more))


def _parts(options: OperatorOptions) -> list[Phase]:
    return [*FRAMEWORKS.values(), *(part for part in COMMON if part.is_enabled(options))]


def _owned(parts: Iterable[Phase]) -> tuple[Owns, ...]:
    return (*REPLICAS, *(row for part in parts for row in part.owns))
