"""What happens to an object between the request and the store: defaults, admission, validation, bookkeeping.

Create:  server's metadata → status reset → defaults → managedFields → admission → mutating webhooks → validation,
         policies → validating webhooks → generation
Update:  server's metadata restored → status isolated → the same

Fields that admission fills in have no manager: managedFields say what clients wrote.
"""

from __future__ import annotations

from functools import partial
from itertools import islice

from msgspec import UNSET

from trainshed.cluster.apiserver import admission
from trainshed.cluster.apiserver.admission import mutate_create, mutate_update, parts, policies, webhooks
from trainshed.cluster.apiserver.admission.escalation import check_grants
from trainshed.cluster.apiserver.body import conformed
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.definitions import names_conflict
from trainshed.cluster.apiserver.http import MAX_WARNINGS
from trainshed.cluster.apiserver.kinds import ServedKind
from trainshed.cluster.apiserver.uids import new_uid
from trainshed.kube.builtin.parts.pod.resizing import resized
from trainshed.kube.builtin.registry import default_object, validate_object
from trainshed.kube.meta import causes, errors, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.names import generated_name
from trainshed.kube.meta.objects import Object, metadata_of, section, spec_of, status_of
from trainshed.kube.meta.resources import (
    CRDS,
    DEPLOYMENTS,
    JOBS,
    MUTATINGWEBHOOKS,
    NAMESPACES,
    PODS,
    PRIORITYCLASSES,
    REPLICASETS,
    REPLICATIONCONTROLLERS,
)
from trainshed.kube.patch.managedfields import track_update, with_entries
from trainshed.kube.policy.webhooks import Admitted
from trainshed.kube.schema import crd_serving
from trainshed.kube.schema.metadata import validate_metadata
from trainshed.kube.schema.rules import broken_rules
from trainshed.kube.schema.structural import apply_defaults, validate
from trainshed.kube.wire import scale
from trainshed.kube.wire.options import WriteOptions

_BLOCKING = (
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
)
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete"
    " validation"
)
_SERVER = "kube-apiserver"
_HOSTNAMES = {
    PODS: "the Pod's hostname",
    **dict.fromkeys((DEPLOYMENTS, JOBS, REPLICASETS, REPLICATIONCONTROLLERS), "Pod names and hostnames"),
}
_BORN_WITH = ("uid", "creationTimestamp", "generation")
_SERVER_OWNED = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "generation",
    "resourceVersion",
)


def place(core: Core, call: Call, obj: Object) -> Object:
    """Return `obj` with the namespace of the path and a name.

    Raises:
        ApiError: 400 when the body names another namespace.
    """
    metadata = dict(metadata_of(obj))
    namespace = call.route.namespace or ""
    if call.kind.resource.namespaced:
        if metadata.get("namespace") not in (None, "", namespace):
            raise errors.bad_request(errors.OTHER_NAMESPACE)
        metadata["namespace"] = namespace
    elif not metadata.get("namespace"):
        metadata.pop("namespace", None)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generated_name(metadata["generateName"], core.name_suffix())
    return {**obj, "metadata": metadata}


async def prepare_create(core: Core, call: Call, obj: Object, options: WriteOptions) -> Object:
    """Return the object that a create stores. `obj` is decoded and has its name and namespace.

    Raises:
        ApiError: 422 when it is not valid, 403 and others from admission.
    """
    kind = call.kind
    resource = kind.resource
    if (obj["metadata"]).get("resourceVersion"):
        raise errors.bad_request("resourceVersion should not be set on objects to be created")
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _SERVER_OWNED}
    metadata["uid"] = new_uid()
    metadata["creationTimestamp"] = call.timestamp
    if counts_generations(kind):
        metadata["generation"] = 1
    obj = {**obj, "metadata": metadata}
    if kind.info.has_status and not (kind.builtin and kind.builtin.status_on_create):
        obj.pop("status", None)
    apart = call.request.apart
    obj = await apart(partial(_tracked, call, None, obj, options, ""))
    managed = obj["metadata"].get("managedFields")
    obj = await mutate_create(core, call, obj)
    obj = await _through_webhooks(core, call, obj, None, "", options)
    await apart(partial(check, core, call, obj, None, ""))
    await check_grants(core, call, obj, None)
    admission.check(core, call, obj, None, "")
    await _warn(call, obj, None, "")
    await _ask_webhooks(core, call, obj, None, "", options)
    obj = with_entries(obj, managed or [])
    return _established(core, call, obj) if resource == CRDS else obj


async def prepare_update(
    core: Core,
    call: Call,
    old: Object,
    new: Object,
    options: WriteOptions,
    subresource: str,
    *,
    size: int = 0,
) -> Object:
    """Return the object that an update of `old` to `new` stores; `new` is decoded, `old` has `size` bytes.

    Raises:
        ApiError: 422 when it is not valid, others from admission.
    """
    kind = call.kind
    new = {**new, "metadata": _restored(old["metadata"], metadata_of(new))}
    new = _isolated(kind, old, new, subresource)
    apart = partial(call.request.apart, size=size)
    filled = subresource != "status" or kind.builtin is None or kind.builtin.defaults_status
    new = await apart(partial(_tracked, call, old, new, options, subresource, filled=filled))
    managed = new["metadata"].get("managedFields")
    new = mutate_update(core, call, old, new, subresource)
    new = await _through_webhooks(core, call, new, old, subresource, options)
    await apart(partial(check, core, call, new, old, subresource))
    await check_grants(core, call, new, old)
    admission.check(core, call, new, old, subresource)
    if (
        counts_generations(kind)
        and kind.resource != PRIORITYCLASSES
        and spec_changed(kind, old, new, subresource)
    ):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    await _warn(call, new, old, subresource)
    await _ask_webhooks(core, call, new, old, subresource, options)
    new = with_entries(new, managed or [])
    return _established(core, call, new) if kind.resource == CRDS and subresource != "status" else new


def _established(core: Core, call: Call, obj: Object) -> Object:
    """Return a definition with the status that the server itself writes."""
    out = crd_serving.established(obj, call.timestamp, names_conflict=names_conflict(core, obj))
    before = {"conditions": None, **status_of(obj), "storedVersions": out["status"]["storedVersions"]}
    return track_update(
        {**out, "status": before},
        out,
        call.kind.schema,
        manager=_SERVER,
        subresource="status",
        now=call.timestamp,
    )


async def _through_webhooks(
    core: Core, call: Call, obj: Object, old: Object | None, subresource: str, options: WriteOptions
) -> Object:
    """Return the object as mutating webhooks leave it; what they add is decoded and defaulted like a client's."""
    if not webhooks.exist(core, MUTATINGWEBHOOKS):
        return obj
    shown = _unborn(obj, call.kind) if old is None else obj
    request = _request(core, call, shown, old, subresource, options)
    changed = await webhooks.mutate(core, call, request)
    if changed is None or changed == request.object:
        return obj
    if request.kind is not None:
        assert call.kind.info.scale is not None
        return scale.from_scale(obj, changed, call.kind.info.scale)
    return _as_changed(call, obj, old, changed, subresource)


def _as_changed(call: Call, obj: Object, old: Object | None, changed: Object, subresource: str) -> Object:
    """Return what webhooks have made of `obj` as if a client had sent it. Raises `ApiError` 400, 500: it cannot be."""
    kind, own = call.kind, (obj["apiVersion"], obj["kind"])
    named = (changed.get("apiVersion") or own[0], changed.get("kind") or own[1])
    if named != own and not kind.info.crd:
        internal = f"({kind.resource.group or 'core'}.{kind.resource.kind})"
        said = ".".join(map(str, named))
        raise errors.ApiError(500, "", f"converting ({said}) to {internal}: unknown conversion")
    try:
        changed = {**conformed(call, changed, "ignore"), "apiVersion": own[0], "kind": own[1]}
    except errors.ApiError as error:
        raise errors.internal(
            error.message.partition("cannot be handled as a ")[2].partition(": ")[2]
        ) from error
    metadata = changed["metadata"]
    if old is None:
        changed["metadata"] = {
            **metadata,
            **{k: obj["metadata"][k] for k in _BORN_WITH if k in obj["metadata"]},
        }
    else:
        kept = {key: value for key, value in old["metadata"].items() if key != "name"}
        changed["metadata"] = _restored(kept, metadata)
        changed = _isolated(kind, old, changed, subresource)
    if kind.resource.namespaced:
        place_of = changed["metadata"].setdefault("namespace", call.route.namespace)
        if place_of != call.route.namespace:
            raise errors.bad_request(errors.OTHER_NAMESPACE)
    return _defaulted(kind, changed)


def _unborn(obj: Object, kind: ServedKind) -> Object:
    """Return a new object as its creator sent it: webhooks that change it are asked before it gets its uid."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _BORN_WITH}
    if not kind.info.crd:
        metadata["creationTimestamp"] = None
    return {**obj, "metadata": metadata}


async def _ask_webhooks(
    core: Core, call: Call, obj: Object, old: Object | None, subresource: str, options: WriteOptions
) -> None:
    if parts.asked(core):
        request = _request(core, call, obj, old, subresource, options)
        await policies.check(core, call, request)
        await webhooks.validate(core, call, request)


def _request(
    core: Core, call: Call, obj: Object, old: Object | None, subresource: str, options: WriteOptions
) -> Admitted:
    """Return the request as admission sees it: that of a replica count is about a Scale."""
    dry_run, paths = bool(options.dry_run), call.kind.info.scale
    if subresource != "scale" or paths is None or old is None:
        return webhooks.asked(core, call, obj, old, subresource=subresource, dry_run=dry_run)
    pair = scale.to_scale(obj, paths), scale.to_scale(old, paths)
    return webhooks.asked(core, call, *pair, subresource=subresource, dry_run=dry_run, kind=scale.KIND)


def counts_generations(kind: ServedKind) -> bool:
    """Return whether the server keeps `metadata.generation` for this kind."""
    return kind.info.has_generation or kind.info.crd


def spec_changed(kind: ServedKind, old: Object, new: Object, subresource: str = "") -> bool:
    """Return whether anything but metadata and (isolated) status differs."""
    ignored = {"metadata", "apiVersion", "kind"}
    if kind.info.has_status:
        ignored.add("status")
    if kind.resource == DEPLOYMENTS and subresource != "status" and _annotations(old) != _annotations(new):
        return True  # as upstream: its controller copies annotations to its ReplicaSets
    return any(old.get(key) != new.get(key) for key in (old.keys() | new.keys()) - ignored)


def _annotations(obj: Object) -> Object:
    return section(metadata_of(obj), "annotations")


def _restored(old: Object, new: Object) -> Object:
    """Return new metadata with what the server owns carried over.

    A uid, a name, or the end of what is not being deleted, that the caller did send stays, so that validation can
    refuse a change.
    """
    out = dict(new)
    for key in ("name", "namespace", "uid"):
        if not out.get(key) and key in old:
            out[key] = old[key]
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if key in old:
            out[key] = old[key]
    for key in ("creationTimestamp", "generation", "resourceVersion"):
        out.pop(key, None)
        if key in old:
            out[key] = old[key]
    out.pop("selfLink", None)
    if "generateName" in old and "generateName" not in out:
        out["generateName"] = old["generateName"]
    return out


def _isolated(kind: ServedKind, old: Object, new: Object, subresource: str) -> Object:
    """Return `new` restricted to the part of the object that this path may change."""
    metadata = new["metadata"]
    if subresource in ("status", "approval"):
        if kind.info.crd:
            metadata = {**old["metadata"], "managedFields": metadata.get("managedFields")}
            if metadata["managedFields"] is None:
                del metadata["managedFields"]
        elif kind.resource == DEPLOYMENTS:
            metadata = _with_field(metadata, "labels", old["metadata"])
        new = _with_field({**old, "metadata": metadata}, "status", new)
        if subresource == "status" and kind.builtin is not None and kind.builtin.status is not None:
            new["status"] = kind.builtin.status(status_of(new), status_of(old))
        return new
    if subresource == "ephemeralcontainers":
        spec = _with_field(spec_of(old), "ephemeralContainers", spec_of(new))
        return {**old, "metadata": metadata, "spec": spec}
    if subresource == "finalize":
        spec = _with_field(spec_of(old), "finalizers", spec_of(new))
        return {**old, "metadata": metadata, "spec": spec}
    new = _with_field(new, "status", old) if kind.info.has_status else new
    if kind.resource == NAMESPACES:  # what keeps it until it is empty is taken off by `finalize` alone
        new = {**new, "spec": _with_field(spec_of(new), "finalizers", spec_of(old))}
    return {**resized(old, new), "metadata": _only_status(old, new)} if subresource == "resize" else new


def _only_status(old: Object, new: Object) -> Object:
    """Return the metadata of a write that changes none but managedFields and the like."""
    kept = ("labels", "annotations", "finalizers", "ownerReferences")
    metadata: Object = new["metadata"]
    for field in kept:
        metadata = _with_field(metadata, field, old["metadata"])
    return metadata


def _with_field(target: Object, field: str, source: Object) -> Object:
    """Return `target` with `field` as it is, or is absent, in `source`."""
    out = {key: value for key, value in target.items() if key != field}
    if field in source:
        out[field] = source[field]
    return out


def _defaulted(kind: ServedKind, obj: Object) -> Object:
    if kind.info.crd:
        return apply_defaults(obj, kind.schema)
    return default_object(kind.resource, obj)


async def _warn(call: Call, obj: Object, old: Object | None, subresource: str) -> None:
    """Tell whoever writes or scales the object what its kind has to say of it."""
    builtin = call.kind.builtin
    if builtin is None or builtin.warns is None or subresource not in ("", "scale"):
        return
    found = builtin.warns(obj, old)
    for text in await call.request.apart(lambda: list(islice(found, MAX_WARNINGS + 1))):
        call.request.warn(text)


def check(core: Core, call: Call, obj: Object, old: Object | None, subresource: str) -> None:
    """Raise `ApiError` 422 with everything that is wrong with `obj`, or as an admission check refuses it."""
    kind, resource = call.kind, call.kind.resource
    found: list[Cause]
    if kind.info.crd:
        found = validate_metadata(resource, obj, old)
        found += validate(obj, kind.schema, old=UNSET if old is None else old)
        if kind.info.scale is not None:
            found += scale.value_causes(obj, kind.info.scale)
        if kind.schema.with_rules and any(cause.reason in _BLOCKING for cause in found):
            found.append(causes.invalid(causes.ROOT, "null", _UNCHECKED))
        elif not found:
            found += broken_rules(obj, old, kind.schema)
    else:
        found = validate_object(resource, obj, old, subresource=subresource)
    # A webhook is registered for the resource, not for its subresources: writers of those are not asked. Containers
    # that come later are asked about as those that came with the pod.
    checked = subresource in ("", "ephemeralcontainers")
    custom = core.admission.get(resource.group_resource) if checked else None
    if custom is not None and not found:
        answer = custom(obj, old, "CREATE" if old is None else "UPDATE")
        for text in answer.warnings:
            call.request.warn(text)
        if answer.refusal is not None:
            raise answer.refusal
        found += answer.causes
    if found:
        told = kind.info.view_of or resource  # a view is judged as what it is stored as
        raise errors.invalid(resource.kind, told.group, obj["metadata"].get("name", ""), found)
    if old is None and resource in _HOSTNAMES and (whys := names.dns_label(obj["metadata"].get("name", ""))):
        text = (
            f"metadata.name: this is used in {_HOSTNAMES[resource]}, which can result in surprising behavior"
        )
        call.request.warn(f"{text}; a DNS label is recommended: [{' '.join(whys)}]")


def _tracked(
    call: Call,
    old: Object | None,
    new: Object,
    options: WriteOptions,
    subresource: str,
    *,
    filled: bool = True,
) -> Object:
    """Return `new` with its defaults, and whose they are."""
    kind = call.kind
    status_is_apart = kind.info.has_status and not (kind.builtin and kind.builtin.status_on_create)
    return track_update(
        old,
        _defaulted(kind, new) if filled else new,
        kind.schema,
        manager=options.field_manager,
        subresource=subresource,
        now=call.timestamp,
        ignored="status" if status_is_apart and not subresource else "",
    )
