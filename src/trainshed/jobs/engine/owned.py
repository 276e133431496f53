"""What a job owns: which resources, how they are observed, and how the objects that it wants are converged.

Pods and services are the replicas of a job and have policies of their own. Any other object (an autoscaler, a
ConfigMap, a Role, a PodGroup) is wanted as a plain object: created or applied, left alone while it says what is wanted,
deleted when it is wanted no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from trainshed.jobs.engine.constants import LABEL_OPERATOR_NAME
from trainshed.jobs.engine.job import Job
from trainshed.kube.meta.objects import Object, controller_uid, is_terminating, name_of, section
from trainshed.kube.meta.plan import QUIET, Action, Apply, Create, Delete, Event, Tells
from trainshed.kube.meta.quantity import parse
from trainshed.kube.meta.resources import PODS, SERVICES, Resource

POD_EVENTS = Tells("Pod", "pod")
SERVICE_EVENTS = Tells("Service", "service")

_NOT_COMPARED = frozenset({"apiVersion", "kind", "metadata", "status"})


class Owns(msgspec.Struct, frozen=True, kw_only=True):
    """One resource whose objects jobs own. The operator's watches and permissions follow from it.

    Attributes:
        watched: the label selector of the objects to mirror, empty for all; None where they are looked up by name.
        applied: kept as wanted by server-side apply; else created once and then left as it is.
        tells: how creation and deletion are told; None for silence.
        while_suspended: objects stay while their job is suspended.
        after_finish: objects stay when their job is over, and go with it.
    """

    resource: Resource
    watched: str | None = None
    applied: bool = False
    tells: Tells | None = None
    while_suspended: bool = True
    after_finish: bool = True

    @property
    def verbs(self) -> tuple[str, ...]:
        """What the operator must be allowed to do, sorted."""
        verbs = {"create", "delete", "get"}
        if self.applied:
            verbs.add("patch")
        if self.watched is not None:
            verbs |= {"list", "watch"}
        return tuple(sorted(verbs))


class Grant(msgspec.Struct, frozen=True):
    """A permission that jobs hand on in Roles of theirs: Kubernetes lets nobody grant what they do not have."""

    group: str
    resource: str
    verbs: tuple[str, ...]


REPLICAS = (
    Owns(resource=PODS, watched=LABEL_OPERATOR_NAME, tells=POD_EVENTS),
    Owns(resource=SERVICES, watched=LABEL_OPERATOR_NAME, tells=SERVICE_EVENTS),
)
"""What the replicas of every job are made of."""


class Owned(msgspec.Struct, frozen=True, kw_only=True):
    """One object that a job wants. `taken` is what to say when another has its name; pods wait for one that is
    `required`. The fields at the paths `whole` are the operator's alone: what is there and not wanted goes.
    """

    resource: Resource
    object: Object
    taken: Event | None = None
    required: bool = True
    whole: tuple[tuple[str, ...], ...] = ()


class Convergence(msgspec.Struct, frozen=True, kw_only=True):
    """What brings the owned objects to what is wanted. `events` say which names are taken, `waits` that pods wait."""

    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    waits: bool = False


def converge(
    job: Job, owns: Iterable[Owns], wanted: Sequence[Owned], live: Mapping[Resource, Sequence[Object]]
) -> Convergence:
    """Return what makes the live objects the wanted ones, in the order of `wanted`; deletions come last.

    An object that is not the job's, or on its way out, is left alone.
    """
    rows = {row.resource: row for row in owns}
    actions: list[Action] = []
    events: list[Event] = []
    waits = False
    for want in wanted:
        row = rows[want.resource]
        found = next((o for o in live.get(want.resource, ()) if name_of(o) == name_of(want.object)), None)
        if found is None:
            told = QUIET if row.tells is None else row.tells.created(name_of(want.object))
            if row.applied:
                actions.append(Apply(resource=want.resource, object=want.object, told=told))
            else:
                actions.append(Create(resource=want.resource, given=want.object, told=told))
        elif controller_uid(found) != job.uid:
            events += [] if want.taken is None else [want.taken]
            waits |= want.taken is not None and want.required
        elif row.applied and not is_terminating(found) and not _is_as_wanted(found, want):
            actions.append(Apply(resource=want.resource, object=want.object))
    names = {(want.resource, name_of(want.object)) for want in wanted}
    actions += _deletions(job, rows.values(), live, keep=names)
    return Convergence(actions=tuple(actions), events=tuple(events), waits=waits)


def remove(job: Job, owns: Iterable[Owns], live: Mapping[Resource, Sequence[Object]]) -> Iterator[Action]:
    """Return the deletion of all of the job's objects of these resources."""
    return _deletions(job, owns, live, keep=frozenset())


def _deletions(
    job: Job,
    owns: Iterable[Owns],
    live: Mapping[Resource, Sequence[Object]],
    keep: frozenset[tuple[Resource, str]] | set[tuple[Resource, str]],
) -> Iterator[Action]:
    for row in owns:
        for obj in live.get(row.resource, ()):
            ours = controller_uid(obj) == job.uid and not is_terminating(obj)
            if ours and (row.resource, name_of(obj)) not in keep:
                yield Delete.of(row.resource, obj, row.tells)


def _is_as_wanted(live: Object, want: Owned) -> bool:
    wanted = want.object
    if not all(_says(live.get(key), value) for key, value in wanted.items() if key not in _NOT_COMPARED):
        return False
    if not _says(section(live, "metadata", "annotations"), section(wanted, "metadata", "annotations")):
        return False
    # The other way round, nothing is there that is not wanted.
    return all(
        _says(_at(wanted, path), found) for path in want.whole if (found := _at(live, path)) is not None
    )


def _at(obj: Object, path: tuple[str, ...]) -> Any:
    return section(obj, *path[:-1]).get(path[-1])


def _says(live: Any, wanted: Any) -> bool:
    """Return whether `live` holds all of `wanted`: a server adds defaults and rewrites quantities."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(_says(live.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(live, list) and len(live) == len(wanted) and all(map(_says, live, wanted))
    return bool(live == wanted) or _is_same_quantity(live, wanted)


def _is_same_quantity(live: Any, wanted: Any) -> bool:
    try:
        return (isinstance(live, str) or isinstance(wanted, str)) and parse(live) == parse(wanted)
    except (TypeError, ValueError):
        return False
