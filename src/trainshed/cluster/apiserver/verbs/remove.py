"""DELETE of one object and of a collection: grace, finalizers, propagation.

Source: the "Finalizers" and "Garbage Collection" pages, and the pod strategy of the API server for grace.
"""

from __future__ import annotations

import msgspec

from trainshed.cluster.apiserver import rendering
from trainshed.cluster.apiserver.admission import parts, policies, webhooks
from trainshed.cluster.apiserver.admission.addresses import recorded
from trainshed.cluster.apiserver.admission.namespaces import UNDELETABLE
from trainshed.cluster.apiserver.conversion import viewed, viewed_one
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.definitions import CLEANUP
from trainshed.cluster.apiserver.http import Answer
from trainshed.cluster.apiserver.kinds import ServedKind
from trainshed.cluster.apiserver.options import check_preconditions, delete_options
from trainshed.cluster.apiserver.pipeline import counts_generations
from trainshed.cluster.apiserver.selection import selection
from trainshed.cluster.apiserver.verbs.read import page, wanted_state
from trainshed.cluster.apiserver.writing import RETRIES, Written, deletion_complete
from trainshed.cluster.store import KeyMissing, RevisionMismatch, keys
from trainshed.kube.meta.errors import ApiError, conflict, forbidden
from trainshed.kube.meta.objects import Object, spec_of, status_of
from trainshed.kube.meta.resources import CRDS, JOBS, MUTATINGWEBHOOKS, NAMESPACES, PODS
from trainshed.kube.meta.times import format_time
from trainshed.kube.wire.options import DeleteOptions, ListOptions

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_DEFAULT_GRACE = 30


async def delete(core: Core, call: Call) -> Answer:
    """Delete an object, or begin to."""
    asked = await delete_options(call.request)
    options = _with_default_policy(call, asked)
    stored = core.store.get(call.kind.key(call.route.namespace, call.route.name)) if _is_asked(core) else None
    if stored is not None:
        seen = await viewed_one(core, call.kind, stored)
        await _ask_webhooks(core, call, call.kind.view(seen), asked)
    written = await remove(core, call.kind, call.route.namespace, call.route.name, options, call.now)
    _warn(core, call, written.obj)
    return _answer(call, written, 202 if options.orphan_dependents is False and not written.gone else 200)


async def delete_collection(core: Core, call: Call) -> Answer:
    """Delete what is selected; answer with the list of it."""
    asked = await delete_options(call.request)
    options = _with_default_policy(call, asked)
    selected = ListOptions.decode(call.request.query)
    chosen = selection(call.kind, selected)
    found, at = await wanted_state(core, call, chosen, selected)
    items, metadata = page(
        await chosen.of(await viewed(core, call.kind, found)), selected, at, whole=chosen.everything
    )
    for stored in items:
        found_at = stored.obj["metadata"]
        try:
            if _is_asked(core):
                await _ask_webhooks(core, call, call.kind.view(stored), asked)
            await remove(core, call.kind, found_at.get("namespace"), found_at["name"], options, call.now)
            _warn(core, call, stored.obj)
        except ApiError as error:
            if error.code != 404:
                raise
    if chosen.everything:
        for key in core.store.damaged(call.kind.prefix(call.route.namespace)):
            await _discard(core, call.kind, key, options)
    return await rendering.many(call, items, {**metadata, "resourceVersion": str(core.store.revision)})


def _is_asked(core: Core) -> bool:
    return parts.asked(core) or webhooks.exist(core, MUTATINGWEBHOOKS)


async def _ask_webhooks(core: Core, call: Call, obj: Object, options: DeleteOptions) -> None:
    dry_run = bool(options.dry_run)
    request = webhooks.asked(core, call, None, obj, subresource="", dry_run=dry_run, deletion=options)
    await webhooks.mutate(core, call, request)
    await policies.check(core, call, request)
    await webhooks.validate(core, call, request)


def _warn(core: Core, call: Call, obj: Object) -> None:
    """Tell the client what admission has to say about the deletion of `obj`."""
    check = core.admission.get(call.kind.resource.group_resource)
    if check is not None:
        for text in check(obj, None, "DELETE").warnings:
            call.request.warn(text)


def _with_default_policy(call: Call, options: DeleteOptions) -> DeleteOptions:
    if options.propagation_policy is None and options.orphan_dependents is None:
        if call.kind.resource == JOBS:
            call.request.warn(
                "child pods are preserved by default when jobs are deleted; set"
                " propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress"
                " this warning"
            )
            return msgspec.structs.replace(options, propagation_policy="Orphan")
    elif options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else "Background"
        return msgspec.structs.replace(options, propagation_policy=policy)
    return options


async def remove(
    core: Core, kind: ServedKind, namespace: str | None, name: str, options: DeleteOptions, now: float
) -> Written:
    """Delete the object `name`: at once, or by marking it when something has to happen first.

    Raises:
        ApiError: 404, 403 for namespaces that must stay, 409 for a precondition.
    """
    key = kind.key(namespace, name)
    if kind.resource == NAMESPACES and name in UNDELETABLE:
        raise forbidden("namespaces", "", name, "this namespace may not be deleted")
    if key in core.store.damaged():
        return await _discard(core, kind, key, options)
    for _ in range(RETRIES):
        current = core.store.get(key)
        if current is None:
            raise kind.missing(name)
        seen = await viewed_one(core, kind, current)
        # A webhook is not asked how to store what only its deletion changes.
        old = current.obj if kind.info.conversion else kind.view(seen)
        check_preconditions(options, kind.resource.kind, kind.resource.group, name, old["metadata"])
        new = _marked(kind, old, options, now)
        gone = deletion_complete(new)
        if options.dry_run:
            marked = {**kind.view(seen), "metadata": new["metadata"]} if kind.info.conversion else new
            return Written(marked, None, gone=gone)
        form = new if kind.info.conversion else kind.to_storage(new)
        try:
            if gone:
                # Watchers are told what was there; pods are first marked and then removed.
                last = form if kind.resource == PODS else current.obj
                async with recorded(core, kind, None, old):
                    stored = await core.store.delete(key, current.revision, last)
            elif new == old:
                stored = current
            else:
                stored = await core.store.update(key, form, current.revision)
            stored = await viewed_one(core, kind, stored)
            return Written(kind.view(stored), stored, gone=gone)
        except RevisionMismatch:
            continue
        except KeyMissing:
            raise kind.missing(name) from None
    raise conflict(kind.resource.plural, kind.resource.group, name)


async def _discard(core: Core, kind: ServedKind, key: str, options: DeleteOptions) -> Written:
    """Remove an object that is damaged: nobody knows its finalizers, and a precondition cannot be checked."""
    place = keys.place(key)
    metadata: Object = {"name": place.name, "uid": ""}
    if place.namespace:
        metadata["namespace"] = place.namespace
    obj: Object = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "metadata": metadata}
    if options.uid or options.resource_version:
        core.store.get(key)  # raises
    if options.dry_run:
        return Written(obj, None, gone=True)
    try:
        return Written(obj, await core.store.discard(key, kind.to_storage(obj)), gone=True)
    except KeyMissing:
        raise kind.missing(place.name) from None


def _marked(kind: ServedKind, old: Object, options: DeleteOptions, now: float) -> Object:
    """Return the object with its deletion begun: timestamp, grace, finalizers of the propagation policy."""
    metadata = dict(old["metadata"])
    grace = _grace(kind, old, options)
    already = metadata.get("deletionTimestamp")
    if already:
        # A second delete may only shorten the grace.
        if kind.resource != PODS or grace >= (metadata.get("deletionGracePeriodSeconds") or 0):
            return _with_policy(kind, old, options)
        metadata["deletionGracePeriodSeconds"] = grace
        metadata["deletionTimestamp"] = format_time(now + grace)
        return {**old, "metadata": metadata}
    metadata["deletionTimestamp"] = format_time(now + grace)
    metadata["deletionGracePeriodSeconds"] = grace
    _set_finalizers(kind, metadata, options)
    if kind.resource in (CRDS, NAMESPACES):
        del metadata["deletionGracePeriodSeconds"]
    if kind.resource != CRDS and counts_generations(kind):
        metadata["generation"] = metadata.get("generation", 0) + 1
    out = {**old, "metadata": metadata}
    if kind.resource == NAMESPACES:
        out["status"] = {**status_of(old), "phase": "Terminating"}
    if kind.resource == CRDS:
        out["status"] = _terminating(status_of(old), format_time(now))
    return out


def _with_policy(kind: ServedKind, old: Object, options: DeleteOptions) -> Object:
    """Return an object whose deletion has begun with the finalizers of another propagation policy."""
    metadata = dict(old["metadata"])
    _set_finalizers(kind, metadata, options)
    return old if metadata == old["metadata"] else {**old, "metadata": metadata}


def _set_finalizers(kind: ServedKind, metadata: Object, options: DeleteOptions) -> None:
    held = list(metadata.get("finalizers") or ())
    finalizers = held
    if options.propagation_policy is not None:
        wanted = {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(options.propagation_policy)
        finalizers = [f for f in held if f not in (ORPHAN, FOREGROUND)]
        if wanted:
            finalizers.append(wanted)
    if kind.resource == CRDS and CLEANUP not in finalizers:
        finalizers.append(CLEANUP)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)


def _terminating(status: Object, now: str) -> Object:
    condition = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    }
    others = [c for c in status.get("conditions") or () if c.get("type") != "Terminating"]
    return {**status, "conditions": [*others, condition]}


def _grace(kind: ServedKind, obj: Object, options: DeleteOptions) -> int:
    """Return the seconds a pod gets to end by itself; other kinds get none."""
    if kind.resource != PODS:
        return 0
    spec, status = spec_of(obj), status_of(obj)
    asked = options.grace_period_seconds
    grace = int(spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE) if asked is None else asked)
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    return max(grace, 0) if grace >= 0 else 1


def _answer(call: Call, written: Written, status: int) -> Answer:
    resource = call.kind.resource
    builtin = call.kind.builtin
    if not written.gone or (builtin is not None and builtin.returns_deleted):
        return written.answer(call, status)
    details = {"name": call.route.name, "group": resource.group, "kind": resource.plural}
    details["uid"] = written.obj["metadata"].get("uid", "")
    return Answer.json(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {key: value for key, value in details.items() if value},
        }
    )
