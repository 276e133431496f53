"""A generation of job kinds: what an operator has to know to run their jobs, whoever decides about them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from trainshed.api.kind import Kind
from trainshed.jobs.engine.model import Flag, Observed, OperatorOptions
from trainshed.jobs.engine.owned import Grant, Owns
from trainshed.jobs.engine.plan import Plan
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import Resource


class Controlled(msgspec.Struct, frozen=True, kw_only=True):
    """One kind under control: what its jobs own, which of it is looked up by name, and who decides."""

    kind: Kind
    owns: tuple[Owns, ...]
    lookups: Callable[[Object], Iterable[tuple[Resource, str]]]
    decide: Callable[[Observed], Plan]


class Generation(ABC):
    """What `registry` asks of each generation. What most can do without has a default: nothing."""

    @abstractmethod
    def kinds(self) -> Collection[str]:
        """Return the names of its kinds."""

    @abstractmethod
    def controlled(self, kind: str, options: OperatorOptions) -> Controlled:
        """Return what there is to know about one of its kinds."""

    @abstractmethod
    def owned(self, options: OperatorOptions) -> Iterable[Owns]:
        """Return what jobs of any of its kinds own, under an operator with these options."""

    def reads(self, options: OperatorOptions) -> Iterable[Resource]:
        """Return what the operator looks up for its jobs beside what they own."""
        return ()

    def grants(self) -> Iterable[Grant]:
        """Return what its jobs may hand on."""
        return ()

    def flags(self) -> Iterable[Flag]:
        """Return the flags of the operator that belong to its kinds."""
        return ()

    def options_of_kinds(self, values: Mapping[str, str | int]) -> dict[str, msgspec.Struct]:
        """Return what flags say of each kind, by their names. ValueError for a value that cannot be used."""
        return {}

    def needed(self, options: OperatorOptions) -> Iterable[Resource]:
        """Return the resources that the operator watches for its jobs and that a cluster may lack."""
        return ()

    def warnings(self, kind: str, obj: Object, options: OperatorOptions) -> Iterable[str]:
        """Return what only an operator with these options can say of a job, beside the verdict of its kind."""
        return ()
