"""What a built-in kind declares: all that the server, its tables and the reference pages know of it.

One kind is one file, `kube/builtin/<family>/<kind>.py`, with one value, `KIND`; `kube.builtin.registry` lists them.
Verbs, short names, categories and subresources follow the API reference of Kubernetes 1.33; defaults, rules and
their texts follow `defaults.go` and `validation.go` of the API groups. What several kinds have is in
`kube.builtin.parts`; kinds do not know each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, TypeAlias

import msgspec

from trainshed.kube.builtin.parts.columns import NAME_CREATED, Columns
from trainshed.kube.meta import names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.fieldselectors import Getter
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resourceinfo import ALL_VERBS, ResourceInfo, ScalePaths, SubresourceInfo
from trainshed.kube.meta.resources import Resource
from trainshed.kube.schema.metadata import NameCheck

Check: TypeAlias = Callable[[Object, Object | None, str], Iterator[Cause]]
"""(object, object before an update or None, subresource) → what is wrong."""
ALL = ("all",)
STATUS = {"status": SubresourceInfo(("get", "patch", "update"))}
SCALE = {"scale": SubresourceInfo(("get", "patch", "update"), "Scale", "autoscaling", "v1")}


class View(Protocol):
    """How a kind that is another shape of stored objects translates; neither way changes its argument."""

    def to_storage(self, obj: Object) -> Object: ...
    def from_storage(self, obj: Object) -> Object: ...


class Builtin(msgspec.Struct, frozen=True, kw_only=True):
    """One built-in kind.

    Attributes:
        info: its path, names, verbs and subresources.
        does: what acts on it here, for the reference page; empty when objects are only stored.
        lacks: what its writes lead to elsewhere and not here, for the ledger; empty when there is nothing.
        inert: objects look as if they would do something and are only stored: whoever makes one is told.
        name_rule: what is wrong with a name.
        defaults: fills in, in place, what an object leaves out; twice does no more than once.
        defaults_status: whether some of the defaults are of the status; without, writing a status needs none.
        status: what a status that is written becomes, beside what it was.
        identify: returns a new object with what its uid and name give it.
        check: what is wrong besides metadata with an object that has its defaults.
        warns: what whoever writes the first object is told, in place of the second one, if any: what it asks for that
            this cluster does not do, and what Kubernetes warns of. Only the first few are asked for.
        columns: the table of `kubectl get`.
        fields: what field selectors may name besides name and namespace.
        view: the translation of a kind with `info.view_of`.
        status_on_create: a status sent with a create is kept, although there is a `status` subresource.
        returns_deleted: DELETE answers with the object even when it is gone, instead of with a Status.
        viewed: what of it the ClusterRole `view` lets read: subresources, empty for the object itself.
        edited: likewise, what `edit` lets write.
    """

    info: ResourceInfo
    does: str = ""
    lacks: str = ""
    inert: bool = False
    name_rule: NameCheck = names.dns_subdomain
    defaults: Callable[[Object], None] | None = None
    defaults_status: bool = True
    status: Callable[[Object, Object], Object] | None = None
    identify: Callable[[Object], Object] | None = None
    check: Check | None = None
    warns: Callable[[Object, Object | None], Iterator[str]] | None = None
    columns: Columns = NAME_CREATED
    fields: Mapping[str, Getter] = {}
    view: View | None = None
    status_on_create: bool = False
    returns_deleted: bool = False
    viewed: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()

    @property
    def warning(self) -> str:
        """The text for whoever makes an object of an inert kind; empty for others."""
        return (
            f"this cluster stores {self.info.resource.plural} and does nothing with them"
            if self.inert
            else ""
        )


def row(
    resource: Resource,
    short: str = "",
    *,
    categories: tuple[str, ...] = (),
    verbs: tuple[str, ...] = ALL_VERBS,
    subresources: Mapping[str, SubresourceInfo] | None = None,
    stored: bool = True,
    view_of: Resource | None = None,
    create_on_update: bool = False,
    unconditional_update: bool = True,
    generation: bool = False,
    deprecation_warning: str = "",
) -> ResourceInfo:
    """Return the row of a kind in discovery; `short` holds its short names, separated by blanks."""
    return ResourceInfo(
        resource=resource,
        singular=resource.kind.lower(),
        list_kind=f"{resource.kind}List",
        short_names=tuple(short.split()),
        categories=categories,
        verbs=verbs,
        subresources=subresources or {},
        stored=stored,
        view_of=view_of,
        create_on_update=create_on_update,
        unconditional_update=unconditional_update,
        has_generation=generation,
        deprecation_warning=deprecation_warning,
        scale=ScalePaths(selector=".spec.selector") if subresources and "scale" in subresources else None,
    )


def review(resource: Resource) -> ResourceInfo:
    """Return the row of a question that is answered in the response: create is the only verb, nothing is kept."""
    return row(resource, verbs=("create",), stored=False)


def proxy(kind: str) -> dict[str, SubresourceInfo]:
    """Return the subresource `proxy`, whose options are of `kind`."""
    return {"proxy": SubresourceInfo(("create", "delete", "get", "patch", "update"), kind)}
