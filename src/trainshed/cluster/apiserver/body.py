"""The object in a request body, of the kind that the path serves."""

from __future__ import annotations

from functools import partial

from trainshed.cluster.apiserver.core import Call
from trainshed.cluster.apiserver.http import Incoming
from trainshed.cluster.apiserver.kinds import ServedKind
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import bad_request, invalid
from trainshed.kube.meta.objects import Object, metadata_of
from trainshed.kube.meta.resources import Resource
from trainshed.kube.schema.decode import Mode, cannot_handle, conform
from trainshed.kube.schema.nodes import definition
from trainshed.kube.wire.body import decode_body, is_yaml
from trainshed.kube.wire.negotiate import body_format
from trainshed.kube.wire.protobuf import decode as decode_protobuf

_APART_YAML_FROM_BYTES = 16 * 1024
"""Decoding takes about 10 ms from here on: 1 MB of YAML takes a second."""


async def read_object(call: Call, mode: Mode) -> Object:
    """Return the body as an object of the path's kind; unknown fields are treated as `mode` says.

    Raises:
        ApiError: 400 for what cannot be decoded or is of another kind, 413, 415.
    """
    raw, duplicates = await _read(call, call.kind.resource.kind, mode)
    obj = typed(call.kind, raw)
    return await call.request.apart(partial(conformed, call, obj, mode, duplicates))


async def read_request(call: Call, schema: str) -> Object:
    """Return the body as an object that is not stored, but asks for something: a Binding, say.

    Args:
        schema: name of its definition, which ends in its kind.

    Raises:
        ApiError: 400 for what cannot be decoded, 413, 415.
    """
    kind = schema.rpartition(".")[2]
    obj, _ = await _read(call, kind, "ignore")
    version, sent = str(obj.get("apiVersion") or "").rpartition("/")[2], str(obj.get("kind") or "")
    if sent not in ("", kind):
        package = schema.split(".")[-3]
        raise bad_request(
            f'{sent} in version "{version}" cannot be handled as a {kind}: converting ({version}.{sent}) to'
            f" ({package}.{kind}): unknown conversion"
        )
    conforming = partial(conform, obj, definition(schema), mode="ignore", what=kind, builtin=True)
    return (await call.request.apart(conforming))[0]


async def _read(call: Call, kind: str, mode: Mode) -> tuple[Object, list[str]]:
    """Return the body as decoded, and the paths of fields that it repeats."""
    data = await call.request.body()
    content_type = call.request.headers.get("content-type", "")
    if body_format(content_type) == "protobuf":
        return await call.request.apart(partial(decode_protobuf, data)), []
    return await decoded(call.request, data, content_type, kind, find_duplicates=mode != "ignore")


async def decoded(
    request: Incoming, data: bytes, content_type: str, kind: str, *, find_duplicates: bool = True
) -> tuple[Object, list[str]]:
    """Return the object in a request's body, and the paths of fields that it repeats. A long one keeps no other user
    waiting.

    Raises:
        ApiError: 400 for what cannot be decoded.
    """
    decode = partial(decode_body, data, content_type, kind=kind, find_duplicates=find_duplicates)
    if is_yaml(content_type) and len(data) >= _APART_YAML_FROM_BYTES:
        return await request.in_turn(decode)
    return await request.apart(decode)


def typed(kind: ServedKind, obj: Object) -> Object:
    """Return `obj` with apiVersion and kind first. Built-in kinds may leave them out.

    Raises:
        ApiError: 400 when they are not those of the path.
    """
    resource = kind.resource
    api_version, name = obj.get("apiVersion") or "", obj.get("kind") or ""
    if kind.info.crd:
        for field, value in (("Kind", name), ("apiVersion", api_version)):
            if not value:
                raise bad_request(f"Object '{field}' is missing in the body of the request")
    if api_version and api_version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version"
            f" ({resource.api_version})"
        )
    if kind.info.crd and name != resource.kind:
        cause = causes.invalid("kind", name, f"must be {resource.kind}")
        raise invalid(name, resource.group, str(metadata_of(obj).get("name") or ""), [cause])
    if name and name != resource.kind:
        raise bad_request(
            f'{name} in version "{resource.version}" cannot be handled as a {resource.kind}: converting'
            f" ({resource.version}.{name}) to ({go_package(resource)}.{resource.kind}): unknown conversion"
        )
    return {"apiVersion": resource.api_version, "kind": resource.kind, **_rest(obj)}


def go_package(resource: Resource) -> str:
    """Return the package of Kubernetes' source that a built-in kind is of, which messages name."""
    return resource.group.partition(".")[0] or "core"


def _rest(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}


def conformed(
    call: Call,
    obj: Object,
    mode: Mode,
    duplicates: list[str] | None = None,
    whole: Object | None = None,
    *,
    shown: bool = True,
) -> Object:
    """Return `obj` as the schema wants it; what was dropped becomes warnings of the answer. `whole` is as it wants.

    With `shown` a built-in object gets what it always carries; an applied configuration says only what it says.
    """
    kind = call.kind
    out, warnings = conform(
        obj,
        kind.schema,
        mode=mode,
        what=cannot_handle(kind.resource.kind, kind.resource.version),
        builtin=not kind.info.crd,
        duplicates=duplicates or (),
        whole=whole,
        shown=shown,
    )
    for text in warnings:
        call.request.warn(text)
    if not isinstance(out.get("metadata"), dict):
        out["metadata"] = {}
    return out
