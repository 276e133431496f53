"""Writes to the store: create, and read-modify-write with optimistic concurrency."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from trainshed.cluster.apiserver import rendering
from trainshed.cluster.apiserver.admission.addresses import recorded, release
from trainshed.cluster.apiserver.admission.quotas import charged
from trainshed.cluster.apiserver.conversion import stored_form, viewed_one
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.http import Answer, encode_json
from trainshed.cluster.apiserver.kinds import ServedKind
from trainshed.cluster.apiserver.pipeline import place, prepare_create, prepare_update
from trainshed.cluster.store import KeyExists, KeyMissing, RevisionMismatch, Stored
from trainshed.kube.meta.errors import already_exists, conflict
from trainshed.kube.meta.names import generated_name
from trainshed.kube.meta.objects import Object, metadata_of, spec_of
from trainshed.kube.meta.resources import CRDS, VALIDATINGADMISSIONPOLICIES, Resource
from trainshed.kube.patch.managedfields import same_but_times
from trainshed.kube.schema import crd_serving
from trainshed.kube.wire.options import WriteOptions

RETRIES = 5
"""Attempts at a write whose caller named no resourceVersion, as upstream."""

Change = Callable[[Object], Object]


def _policy_as_created(policy: Object) -> Object:
    """Return a policy as the answer to its creation shows it: its types are looked at in a next step."""
    return {**policy, "status": {}}


_AS_CREATED: dict[Resource, Change] = {
    CRDS: crd_serving.as_created,
    VALIDATINGADMISSIONPOLICIES: _policy_as_created,
}
"""What the answer to a creation does not show yet, although it is done at once here."""


class Written(msgspec.Struct, frozen=True):
    """What a write came to. `stored` is None after a dry run; `gone` when it completed a deletion."""

    obj: Object
    stored: Stored | None
    created: bool = False
    gone: bool = False

    def answer(self, call: Call, status: int = 200) -> Answer:
        """Return the object, as the client asked for it. Raises `ApiError` 406: as what it is not."""
        kind, code = call.kind, 201 if self.created else status
        as_created = _AS_CREATED.get(kind.resource) if self.created else None
        wanted = rendering.representation(call)
        if as_created is None and wanted.form == "json":
            return Answer(
                encode_json(self.obj) if self.stored is None else kind.encoded(self.stored), status=code
            )
        seen = self.obj if self.stored is None else kind.view(self.stored)
        return rendering.rendered(call, seen if as_created is None else as_created(seen), wanted, code)


async def create(core: Core, call: Call, obj: Object, options: WriteOptions) -> Written:
    """Store a new object. `obj` is decoded; a generated name that is taken is drawn again.

    Raises:
        ApiError: 409 when the name is taken, 422 and others from the pipeline.
    """
    kind = call.kind
    prefix = "" if obj["metadata"].get("name") else obj["metadata"].get("generateName", "")
    obj = place(core, call, obj)
    for attempt in range(RETRIES):
        if attempt:
            obj = {**obj, "metadata": {**obj["metadata"], "name": generated_name(prefix, core.name_suffix())}}
        try:
            return await _create_once(core, call, obj, options)
        except KeyExists:
            if not prefix:
                break
    resource = kind.resource
    raise already_exists(resource.plural, resource.group, obj["metadata"]["name"])


async def _create_once(core: Core, call: Call, obj: Object, options: WriteOptions) -> Written:
    return await store_new(core, call, await prepare_create(core, call, obj, options), options)


async def store_new(core: Core, call: Call, prepared: Object, options: WriteOptions) -> Written:
    """Store an object that went through the pipeline. Raises `KeyExists`."""
    kind = call.kind
    if kind.builtin is not None and kind.builtin.warning:
        call.request.warn(kind.builtin.warning)
    key = kind.key(prepared["metadata"].get("namespace"), prepared["metadata"]["name"])
    if options.dry_run:
        release(core, kind, prepared)
        current = core.store.get(key)
        if current is not None:
            raise KeyExists(current)
        async with charged(core, call, prepared, None, dry_run=True):
            return Written(prepared, None, created=True)
    async with charged(core, call, prepared, None, dry_run=False), recorded(core, kind, prepared, None):
        stored = await core.store.create(key, await stored_form(core, kind, prepared), call.request.length)
    return Written(prepared, await viewed_one(core, kind, stored), created=True)


async def modify(
    core: Core,
    call: Call,
    name: str,
    change: Change,
    options: WriteOptions,
    *,
    subresource: str = "",
    track: bool = True,
) -> Written:
    """Read an object, `change` it, store the result; again when somebody else was faster.

    `change` gets the current object in the version of the path and must not alter it. When its result names a
    resourceVersion, that has to be the current one. With `track` False the change has been through
    server-side apply, which keeps managedFields itself.

    Raises:
        ApiError: 404, 409, 422 and what `change` raises.
    """
    kind, store = call.kind, core.store
    key = kind.key(call.route.namespace, name)
    for _ in range(RETRIES):
        current = store.get(key)
        if current is None:
            raise kind.missing(name)
        seen = await viewed_one(core, kind, current)
        size = len(current.encoded)
        old = await call.request.apart(partial(kind.view, seen), size)
        wanted = await call.request.apart(partial(change, old), size)
        _check_version(kind, name, old, wanted)
        new = await prepare_update(core, call, old, wanted, options, subresource, size=size)
        if not track:
            new = _with_fields_of(new, wanted)
        if await call.request.apart(partial(same_but_times, old, new), size):
            return Written(old, None if options.dry_run else seen)
        try:
            async with charged(core, call, new, old, dry_run=bool(options.dry_run)):
                if options.dry_run:
                    release(core, kind, new)
                    return Written(new, None)
                if deletion_complete(new):
                    # Watchers are told what was there, finalizers and all; who took the last one off sees his own.
                    async with recorded(core, kind, None, old):
                        await store.delete(key, current.revision, current.obj)
                    return Written(new, None, gone=True)
                async with recorded(core, kind, new, old):
                    stored = await store.update(key, await stored_form(core, kind, new), current.revision)
                return Written(new, await viewed_one(core, kind, stored))
        except RevisionMismatch:
            continue
        except KeyMissing:
            raise kind.missing(name) from None
    raise conflict(kind.resource.plural, kind.resource.group, name)


def _check_version(kind: ServedKind, name: str, old: Object, wanted: Object) -> None:
    sent = metadata_of(wanted).get("resourceVersion")
    if sent and sent != old["metadata"]["resourceVersion"]:
        raise conflict(kind.resource.plural, kind.resource.group, name)


def _with_fields_of(new: Object, applied: Object) -> Object:
    metadata = dict(new["metadata"])
    metadata.pop("managedFields", None)
    if "managedFields" in applied["metadata"]:
        metadata["managedFields"] = applied["metadata"]["managedFields"]
    return {**new, "metadata": metadata}


def deletion_complete(obj: Object) -> bool:
    """Return whether nothing holds a deleted object back any more."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if metadata.get("deletionGracePeriodSeconds"):
        return False
    return not (obj.get("kind") == "Namespace" and spec_of(obj).get("finalizers"))
