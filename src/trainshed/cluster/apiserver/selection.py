"""Which objects of a collection a request means."""

from __future__ import annotations

import asyncio

import msgspec

from trainshed.cluster.apiserver.kinds import ServedKind
from trainshed.cluster.store import Stored, keys
from trainshed.kube.meta.fieldselectors import METADATA
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.selectors import FieldSelector, LabelSelector
from trainshed.kube.wire.options import CollectionOptions

_SLICE = 200


class Selection(msgspec.Struct, frozen=True):
    """A label and a field selector, checked against the kind."""

    kind: ServedKind
    labels: LabelSelector
    fields: FieldSelector
    text: str
    """The selectors as given; equal texts select the same objects."""

    @property
    def everything(self) -> bool:
        """Whether all objects match, so that none has to be looked into."""
        return self.labels.everything and not self.fields.requirements

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """The labels that an object in the store must have, with the values that they may have."""
        if self.kind.converter is not None or self.kind.info.conversion:
            return {}  # the version that is asked for may have others
        return {r.key: r.values for r in self.labels.requirements if r.operator == "in"}

    @property
    def name(self) -> str | None:
        """The one name that can match, when there is only one."""
        return self.fields.exact("metadata.name")

    def matches(self, obj: Object) -> bool:
        """Return whether an object in the kind's version is selected."""
        if not self.labels.matches(obj["metadata"].get("labels")):
            return False
        return self.fields.matches(obj, self.kind.fields)

    def selects(self, stored: Stored) -> bool:
        """Return whether a stored object is selected; its labels are looked at first, without decoding the rest."""
        if self.kind.converter is None:  # every version of an object has the same labels
            if not self.labels.everything and not self.labels.matches(stored.labels):
                return False
            if not self.fields.requirements:
                return True
        if all(name in METADATA for name, _, _ in self.fields.requirements):
            if not self.fields.matches(_named(stored), METADATA):
                return False
            if self.labels.everything:
                return True
        return self.matches(self.kind.view(stored))

    async def of(self, items: list[Stored]) -> list[Stored]:
        """Return the objects that are selected; others have their turn while many are looked at."""
        if self.everything:
            return items
        out: list[Stored] = []
        for start in range(0, len(items), _SLICE):
            if start:
                await asyncio.sleep(0)
            out += [stored for stored in items[start : start + _SLICE] if self.selects(stored)]
        return out


def _named(stored: Stored) -> Object:
    """Return as much of an object as its key says."""
    place = keys.place(stored.key)
    return {"metadata": {"name": place.name, "namespace": place.namespace or ""}}


def selection(kind: ServedKind, options: CollectionOptions) -> Selection:
    """Return what the options select. Raises `ApiError` 400 for selectors that make no sense."""
    fields = FieldSelector.parse(options.field_selector)
    fields.check(kind.fields, builtin=not kind.info.crd)
    text = f"{options.label_selector}|{options.field_selector}"
    return Selection(kind, LabelSelector.parse(options.label_selector), fields, text)
