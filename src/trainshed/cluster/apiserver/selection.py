"""Which objects of a collection a request means."""

from __future__ import annotations

import msgspec

from trainshed.cluster.apiserver.core import Call
from trainshed.cluster.apiserver.kinds import ServedKind
from trainshed.cluster.store import Stored
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.selectors import FieldSelector, LabelSelector


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
    def name(self) -> str | None:
        """The one name that can match, when there is only one."""
        return self.fields.exact("metadata.name")

    def matches(self, obj: Object) -> bool:
        """Return whether an object in the kind's version is selected."""
        if not self.labels.matches(obj["metadata"].get("labels")):
            return False
        return self.fields.matches(obj, self.kind.fields)

    def of(self, items: list[Stored]) -> list[Stored]:
        """Return the objects that are selected."""
        if self.everything:
            return items
        view = self.kind.view
        return [stored for stored in items if self.matches(view(stored))]


def selection(call: Call) -> Selection:
    """Return what the query selects. Raises `ApiError` 400 for selectors that make no sense."""
    label_text, field_text = call.request.first("labelSelector"), call.request.first("fieldSelector")
    fields = FieldSelector.parse(field_text)
    fields.check(call.kind.fields, builtin=not call.kind.info.crd)
    return Selection(call.kind, LabelSelector.parse(label_text), fields, f"{label_text}|{field_text}")
