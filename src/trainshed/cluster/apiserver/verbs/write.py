"""POST, PUT and PATCH of one object."""

from __future__ import annotations

from functools import partial

from trainshed.cluster.apiserver import writing
from trainshed.cluster.apiserver.body import conformed, decoded, read_object, typed
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.http import Answer, encode_json
from trainshed.cluster.apiserver.options import managed
from trainshed.cluster.apiserver.pipeline import place, prepare_create
from trainshed.cluster.store import KeyExists
from trainshed.kube.meta import causes, golang
from trainshed.kube.meta.errors import OTHER_NAMESPACE, ApiError, Cause, bad_request, conflict, invalid
from trainshed.kube.meta.objects import Object, metadata_of
from trainshed.kube.patch import typed as typed_patch
from trainshed.kube.patch.apply import apply
from trainshed.kube.patch.jsonpatch import json_patch
from trainshed.kube.patch.strategic import strategic_merge
from trainshed.kube.patch.types import APPLY, JSON, MERGE, STRATEGIC, check_patch_type, merge_patch
from trainshed.kube.wire.body import decode_value, json_kind
from trainshed.kube.wire.options import CreateOptions, PatchOptions, UpdateOptions

_SHOWN_CHARACTERS = 16 * 1024
"""How much of a patched object a refusal shows: whoever sent the patch knows what it is."""


async def create(core: Core, call: Call) -> Answer:
    """Store a new object."""
    options = managed(CreateOptions.decode(call.request.query), call.request)
    obj = await read_object(call, options.unknown_fields)
    written = await writing.create(core, call, obj, options)
    return written.answer(call)


async def update(core: Core, call: Call, subresource: str = "") -> Answer:
    """Replace an object, or its status. Some kinds are created when they are missing."""
    options = managed(UpdateOptions.decode(call.request.query), call.request)
    obj = await read_object(call, options.unknown_fields)
    name = call.route.name
    check_named(obj, name)
    check_name(call, obj, name)
    kind = call.kind
    if core.store.get(kind.key(call.route.namespace, name)) is None:
        if not kind.info.create_on_update or subresource:
            raise kind.missing(name)
        obj = place(core, call, obj)
        obj["metadata"]["name"] = name
        obj["metadata"].pop("resourceVersion", None)
        return (await writing.create(core, call, obj, options)).answer(call)
    if not obj["metadata"].get("resourceVersion") and not kind.info.unconditional_update:
        cause = causes.invalid("metadata.resourceVersion", 0, "must be specified for an update")
        cause = Cause(
            cause.reason, cause.message.replace("Invalid value: 0:", "Invalid value: 0x0:"), cause.field
        )
        raise invalid(kind.resource.plural, kind.resource.group, name, [cause])

    def replaced(old: Object) -> Object:
        sent, held = obj["metadata"].get("uid"), old["metadata"].get("uid")
        if sent and sent != held:
            why = f"Precondition failed: UID in precondition: {sent}, UID in object meta: {held}"
            raise conflict(kind.resource.plural, kind.resource.group, name, why)
        return obj

    written = await writing.modify(core, call, name, replaced, options, subresource=subresource)
    return written.answer(call)


def check_named(obj: Object, name: str) -> None:
    """Raise `ApiError` 400 when a body that is to change `name` has no name."""
    if not metadata_of(obj).get("name"):
        raise bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )


def check_name(call: Call, obj: Object, name: str) -> None:
    """Raise `ApiError` 400 when a body is for another object than the path."""
    metadata = obj["metadata"]
    if metadata.get("name") not in (None, "", name):
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
        )
    if metadata.get("namespace") not in (None, "", call.route.namespace):
        raise bad_request(
            f"the namespace of the object ({metadata['namespace']}) does not match the namespace on the URL"
            f" ({call.route.namespace or ''})"
        )


async def read_patch(call: Call) -> tuple[str, PatchOptions, bytes]:
    """Return the kind of patch, the options and the body of a request. Raises `ApiError` 415 or 422."""
    content_type = check_patch_type(call.request.headers.get("content-type", ""), custom=call.kind.info.crd)
    options = PatchOptions.decode(call.request.query)
    _check_patch_options(content_type, options)
    return content_type, managed(options, call.request), await call.request.body()


async def patch(core: Core, call: Call, subresource: str = "") -> Answer:
    """Change an object by one of the four kinds of patch."""
    content_type, options, data = await read_patch(call)
    if content_type == APPLY:
        return await _apply(core, call, data, options, subresource)
    change = await call.request.apart(partial(Patch, content_type, data))
    name = call.route.name

    def patched(old: Object) -> Object:
        new = change.on(old, call)
        if content_type != STRATEGIC and not call.kind.info.crd and not new.get("apiVersion"):
            new = {}  # no version says what its fields mean
        check_named(new, name)
        if metadata_of(new).get("namespace") not in (None, "", call.route.namespace):
            raise bad_request(OTHER_NAMESPACE)
        check_name(call, _with_metadata(new), name)
        new = typed(call.kind, new)
        # A JSON patch may have copied a part of the old object to where another schema holds.
        whole = None if content_type == JSON else old
        if call.kind.info.crd:
            return conformed(call, new, options.unknown_fields, whole=whole)
        try:
            return conformed(call, new, options.unknown_fields, whole=whole)
        except ApiError as error:
            # What a patch makes of an object that was valid is a value of the patch that is not.
            _, _, why = error.message.rpartition(f"cannot be handled as a {call.kind.resource.kind}: ")
            strategic = content_type == STRATEGIC
            shown = (
                golang.text(golang.printed(change.document)[:_SHOWN_CHARACTERS])
                if strategic
                else _quoted(new)
            )
            cause = Cause("FieldValueInvalid", f"Invalid value: {shown}: {why}", "patch")
            raise invalid("", "", "", [cause]) from None

    written = await writing.modify(core, call, name, patched, options, subresource=subresource)
    return written.answer(call)


class Patch:
    """A patch as sent, ready to be applied to a document."""

    def __init__(self, content_type: str, data: bytes) -> None:
        self.content_type = content_type
        what = "" if content_type == STRATEGIC else "error decoding patch: "
        self.document = decode_value(data, what=what)
        if self.document is None and content_type == MERGE:
            raise bad_request("Invalid JSON Patch")
        if self.document is None:  # changes nothing
            self.document = [] if content_type == JSON else {}
        if content_type != JSON and not isinstance(self.document, dict):
            found, wanted = json_kind(self.document), "map[string]interface {}"
            raise bad_request(f"{what}json: cannot unmarshal {found} into Go value of type {wanted}")

    def on(self, target: Object, call: Call) -> Object:
        """Return `target` patched. Raises `ApiError` 400, 422."""
        if self.content_type == JSON:
            new = json_patch(target, self.document)
        elif self.content_type == MERGE:
            new = merge_patch(target, self.document)
        else:
            new = strategic_merge(target, self.document, call.kind.schema)
        if not isinstance(new, dict):
            raise bad_request("the patch does not leave an object")
        return new


def _with_metadata(obj: Object) -> Object:
    if isinstance(obj.get("metadata"), dict):
        return obj
    return {**obj, "metadata": {}}


def _quoted(obj: Object) -> str:
    text = encode_json(obj).decode()
    return encode_json(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "...").decode()


def _check_patch_options(content_type: str, options: PatchOptions) -> None:
    """Raise `ApiError` 422 for an apply without a manager, or another patch with `force`."""
    found: list[Cause] = []
    if content_type == APPLY:
        if not options.field_manager:
            found.append(causes.required("fieldManager", "is required for apply patch"))
    elif options.force is not None:
        found.append(causes.forbidden("force", "may not be specified for non-apply patch"))
    if found:
        raise invalid("PatchOptions", "meta.k8s.io", "", found)


async def _apply(core: Core, call: Call, data: bytes, options: PatchOptions, subresource: str) -> Answer:
    """Server-side apply: merge into the object, or create it."""
    kind, name = call.kind, call.route.name
    raw, duplicates = await decoded(call.request, data, APPLY, kind.resource.kind)
    sent = _applied(call, raw)
    misfit = await call.request.apart(partial(typed_patch.refusal, sent, kind.schema))
    if misfit is not None:
        raise misfit
    if options.unknown_fields == "strict":  # said in the words of every other write
        await call.request.apart(partial(conformed, call, sent, "strict", duplicates))
    elif options.unknown_fields == "warn":
        for path in duplicates:
            call.request.warn(f'duplicate field "{path}"')
    sent = _with_metadata(sent)
    check_name(call, sent, name)
    metadata = {**sent["metadata"], "name": name}
    if kind.resource.namespaced:
        metadata["namespace"] = call.route.namespace
    applied = {**sent, "metadata": metadata}

    def merged(live: Object | None) -> Object:
        obj = apply(
            live,
            applied,
            kind.schema,
            manager=options.field_manager,
            force=bool(options.force),
            subresource=subresource,
            now=call.timestamp,
            has_status=kind.info.has_status,
            sent=sent,
        )
        return conformed(call, obj, "ignore", whole=live)

    for _ in range(writing.RETRIES):
        if core.store.get(kind.key(call.route.namespace, name)) is not None:
            written = await writing.modify(
                core, call, name, merged, options, subresource=subresource, track=False
            )
            return written.answer(call)
        if subresource:
            raise kind.missing(name)
        check_named(sent, name)
        try:
            return await _apply_new(core, call, await call.request.apart(partial(merged, None)), options)
        except KeyExists:
            continue
    raise ApiError(409, "Conflict", f"apply of {kind.resource.group_resource} {name!r} lost every race")


async def _apply_new(core: Core, call: Call, obj: Object, options: PatchOptions) -> Answer:
    fields = obj["metadata"].get("managedFields")
    prepared = await prepare_create(core, call, obj, options)
    if fields is None:
        prepared["metadata"].pop("managedFields", None)
    else:
        prepared["metadata"]["managedFields"] = fields
    written = await writing.store_new(core, call, prepared, options)
    return written.answer(call)


def _applied(call: Call, raw: Object) -> Object:
    """Return the applied configuration; unlike other bodies it has to name its type."""
    api_version, name = raw.get("apiVersion") or "", raw.get("kind") or ""
    if not api_version or not name:
        group, _, version = str(api_version).rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={name}")
    metadata = raw.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    return typed(call.kind, raw)
