"""The kinds of `kubeflow.org/v1` as a generation: one framework each, and the phases that all of them have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from trainshed.jobs.engine.generation import Controlled, Generation
from trainshed.jobs.engine.model import Flag, OperatorOptions
from trainshed.jobs.engine.owned import REPLICAS, Grant, Owns
from trainshed.jobs.v1.decide import decide
from trainshed.jobs.v1.frameworks import FRAMEWORKS
from trainshed.jobs.v1.frameworks.base import Phase
from trainshed.jobs.v1.gang.warnings import scheduling_warnings
from trainshed.jobs.v1.phases import COMMON, phases
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import Resource


class V1(Generation):
    """Jobs that are made of replica types."""

    def kinds(self) -> Collection[str]:
        return FRAMEWORKS.keys()

    def controlled(self, kind: str, options: OperatorOptions) -> Controlled:
        parts = phases(kind, options)

        def lookups(document: Object) -> Iterator[tuple[Resource, str]]:
            for part in parts:
                yield from part.lookups(document)

        return Controlled(kind=FRAMEWORKS[kind].kind, owns=_owned(parts), lookups=lookups, decide=decide)

    def owned(self, options: OperatorOptions) -> Iterable[Owns]:
        return _owned(_parts(options))

    def reads(self, options: OperatorOptions) -> Iterable[Resource]:
        return (resource for part in _parts(options) for resource in part.reads)

    def grants(self) -> Iterable[Grant]:
        parts: list[Phase] = [*FRAMEWORKS.values(), *COMMON]
        return (grant for part in parts for grant in part.grants)

    def flags(self) -> Iterable[Flag]:
        return (flag for framework in FRAMEWORKS.values() for flag in framework.flags)

    def options_of_kinds(self, values: Mapping[str, str | int]) -> dict[str, msgspec.Struct]:
        found = {}
        for name, framework in FRAMEWORKS.items():
            options = framework.options({flag.name: values[flag.name] for flag in framework.flags})
            if options is not None:
                found[name] = options
        return found

    def needed(self, options: OperatorOptions) -> Iterable[Resource]:
        return (row.resource for part in COMMON if part.is_enabled(options) for row in part.owns)

    def warnings(self, kind: str, obj: Object, options: OperatorOptions) -> Iterable[str]:
        return scheduling_warnings(FRAMEWORKS[kind].kind, obj, options)


def _parts(options: OperatorOptions) -> list[Phase]:
    return [*FRAMEWORKS.values(), *(part for part in COMMON if part.is_enabled(options))]


def _owned(parts: Iterable[Phase]) -> tuple[Owns, ...]:
    return (*REPLICAS, *(row for part in parts for row in part.owns))
