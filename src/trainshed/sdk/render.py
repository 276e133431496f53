"""What the operator would create for a job, without a cluster: its decisions, run in an empty world until they settle.

Pure. No server is asked: schema, rules and defaults are those of the declared kinds. What only a server gives, the uid
of the job by which its objects name it, is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainshed.api.kind import Kind
from trainshed.api.registry import KINDS, is_of_our_groups, kind_of
from trainshed.jobs.engine.model import Observed, OperatorOptions
from trainshed.jobs.registry import controlled
from trainshed.kube.meta.names import SUFFIX_LENGTH, generated_name
from trainshed.kube.meta.objects import Object, copy_tree, name_of, objects, section
from trainshed.kube.meta.plan import Apply, Create, Delete, Event, Plan
from trainshed.kube.meta.resources import PODS, SERVICES, Resource
from trainshed.sdk.errors import UserError
from trainshed.sdk.offline import admitted

_UID = "the job's"
_SUFFIX = "x" * SUFFIX_LENGTH
_PASSES = 20
"""More than any job needs: it is created, resumed, its gang placed, its pods made."""


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    """What would be created for one job, in order; `warnings` and `why_nothing` are for people."""

    kind: str
    name: str
    objects: tuple[Object, ...]
    warnings: tuple[str, ...] = ()
    why_nothing: str = ""


def render_all(
    manifests: Sequence[Object], *, namespace: str = "", options: OperatorOptions | None = None
) -> list[Rendered]:
    """Return what would be created for each job of the manifests; other objects make nothing and are passed over.

    `namespace` is for jobs that name none; without it they are in `default`.

    Raises:
        ApiError: a job that an API server would refuse, in its words.
        UserError: there is no job, one is of a kind that nobody acts on, or it cannot run.
    """
    jobs = [obj for obj in manifests if is_of_our_groups(obj)]
    if not jobs:
        raise UserError("there are no jobs in the manifests", f"kinds that make objects: {', '.join(KINDS)}")
    return [render(job, namespace=namespace, options=options) for job in jobs]


def render(job: Object, *, namespace: str = "", options: OperatorOptions | None = None) -> Rendered:
    """Return what would be created for one job. Raises as `render_all` does."""
    kind = kind_of(job)
    if kind is None:
        raise UserError(f"nothing acts on {job['kind']} of {job['apiVersion']}", f"kinds: {', '.join(KINDS)}")
    stored = copy_tree(job)
    stored["metadata"]["namespace"] = stored["metadata"].get("namespace") or namespace or "default"
    options = options or OperatorOptions()
    generated = _name(stored)
    stored, warnings = admitted(kind, stored, options)
    warnings = (*generated, *warnings)
    stored["metadata"]["uid"] = _UID
    stored.pop("status", None)
    made, events = _settled(kind, stored, options)
    if not made:
        if events:
            raise UserError(f"{kind.name} {name_of(stored)}: {events[-1].message}")
        return Rendered(
            kind=kind.name,
            name=name_of(stored),
            objects=(),
            warnings=warnings,
            why_nothing=_why_nothing(stored),
        )
    return Rendered(
        kind=kind.name,
        name=name_of(stored),
        objects=tuple(_without_uid(obj) for obj in made),
        warnings=warnings,
    )


def _name(job: Object) -> tuple[str, ...]:
    """Give a job that is to be named by the server a name such as that has; return what to say about it."""
    metadata = job["metadata"]
    if metadata.get("name") or not metadata.get("generateName"):
        return ()
    metadata["name"] = generated_name(str(metadata["generateName"]), _SUFFIX)
    return (f"metadata.generateName: {_SUFFIX} stands for what the server will choose",)


def _settled(kind: Kind, job: Object, options: OperatorOptions) -> tuple[list[Object], tuple[Event, ...]]:
    """Return what exists once the operator has nothing more to do, in order of creation, and its last events."""
    decide = controlled(kind.name, options).decide
    made: dict[tuple[Resource, str], Object] = {}
    for _ in range(_PASSES):
        owned: dict[Resource, list[Object]] = {}
        for (resource, _name), obj in made.items():
            owned.setdefault(resource, []).append(_observed(resource, obj))
        plan: Plan = decide(Observed(job=job, owned=owned, now=0.0, options=options))
        if plan.status is None and not plan.actions:
            break
        if plan.status is not None:
            job = {**job, "status": plan.status}
        for action in plan.actions:
            match action:
                case Create(resource=resource, object=obj) | Apply(resource=resource, object=obj):
                    made[resource, name_of(obj)] = obj
                case Delete(resource=resource, name=name):
                    made.pop((resource, name), None)
    return list(made.values()), plan.events


def _observed(resource: Resource, obj: Object) -> Object:
    """Return an object as it is soon after its creation. Pods wait; what they may wait for is there, a gang placed."""
    status = {PODS: {"phase": "Pending"}, SERVICES: {}}.get(resource, {"phase": "Running"})
    return {**obj, "metadata": {**obj["metadata"], "uid": name_of(obj)}, "status": status}


def _why_nothing(job: Object) -> str:
    if section(job, "spec", "runPolicy").get("suspend"):
        return "it is suspended"
    manager = section(job, "spec", "runPolicy").get("managedBy")
    return "it has no replicas" if manager is None else f"it is managed by {manager}"


def _without_uid(obj: Object) -> Object:
    out: Object = copy_tree(obj)
    for owner in objects(out["metadata"], "ownerReferences"):
        if owner.get("uid") == _UID:
            del owner["uid"]
    return out
