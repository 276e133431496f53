"""Objects and lists in the representation that a client asked for.

JSON is spliced from the bytes that the store holds; only tables and metadata views look into objects. Long
lists give way to other requests every `_SLICE` objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from trainshed.cluster.apiserver.body import go_package
from trainshed.cluster.apiserver.core import Call
from trainshed.cluster.apiserver.http import Answer, LateAnswer, Pieces, PiecesAnswer, encode_json
from trainshed.cluster.apiserver.kinds import ServedKind
from trainshed.cluster.store import Stored
from trainshed.kube.builtin.parts.columns import NAME_CREATED, Columns
from trainshed.kube.meta.causes import shown
from trainshed.kube.meta.errors import ApiError, bad_request
from trainshed.kube.meta.objects import Object
from trainshed.kube.served import tables
from trainshed.kube.served.tables import IncludeObject
from trainshed.kube.wire.negotiate import Representation, for_objects
from trainshed.kube.wire.options import TableOptions

_SLICE = 200
_SPLICED = 1_000
_decode = msgspec.json.Decoder().decode
_INCLUDES: dict[str, IncludeObject] = {
    "": "Metadata",
    "None": "None",
    "Metadata": "Metadata",
    "Object": "Object",
}


def representation(call: Call) -> Representation:
    """Return the negotiated representation. Raises `ApiError` 406."""
    return for_objects(call.request.headers.get("accept"))


def include_object(call: Call) -> IncludeObject:
    """Return what a table row carries besides its cells. Raises `ApiError` 400."""
    asked = TableOptions.decode(call.request.query).include_object
    if asked not in _INCLUDES:
        text = f"Unable to convert to Table as requested: includeObject: Invalid value: {shown(asked)}: "
        raise bad_request(f"{text}must be 'Metadata', 'Object', 'None', or empty")
    return _INCLUDES[asked]


def one(call: Call, stored: Stored, status: int = 200) -> Answer:
    """Return one object."""
    wanted = representation(call)
    if wanted.form == "json":
        return Answer(call.kind.encoded(stored), status=status)
    return rendered(call, call.kind.view(stored), wanted, status)


def rendered(
    call: Call, obj: Object, wanted: Representation, status: int = 200, *, shape: Columns | None = None
) -> Answer:
    """Return an object that may not be in the store; `shape` is the table of one that is not of the path's kind."""
    if wanted.form == "table":
        meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        value = tables.table(
            call.kind.info,
            [obj],
            meta,
            call.now,
            include_object=include_object(call),
            version=wanted.version,
            shape=shape,
        )
    elif wanted.form == "partial":
        value = tables.partial(obj, wanted.version)
    elif wanted.form == "partial_list":
        text = "you requested PartialObjectMetadataList, but the requested object is not a list"
        raise ApiError(406, "NotAcceptable", f"{text} ({_go_type(call.kind, call.kind.resource.kind)})")
    elif wanted.form == "yaml":
        return yaml_answer(obj, status)
    else:
        value = obj
    return Answer(encode_json(value), status=status)


def yaml_answer(value: Object, status: int = 200) -> Answer:
    """Return a value as YAML, which takes a thousand times as long as JSON."""
    return _late_yaml(lambda: value, status)


def _late_yaml(make: Callable[[], Object], status: int = 200) -> Answer:
    def encode() -> bytes:
        from trainshed.kube.wire import yamltext  # few ask for it

        return yamltext.dump(make()).encode()

    return LateAnswer(encode, content_type="application/yaml", status=status)


async def many(call: Call, items: Sequence[Stored], metadata: Object) -> Answer:
    """Return a list with `metadata` (resourceVersion, continue, remainingItemCount)."""
    wanted = representation(call)
    kind = call.kind
    if wanted.form == "json":
        return PiecesAnswer(await list_json(kind, items, metadata))
    if wanted.form == "yaml":
        head: Object = {"apiVersion": kind.resource.api_version, "kind": kind.info.list_kind}
        listed = await list_json(kind, items, metadata)
        return _late_yaml(lambda: {**head, **_decode(b"".join(listed))})
    if wanted.form == "partial":
        text = "you requested PartialObjectMetadata, but the requested object is a list"
        raise ApiError(406, "NotAcceptable", f"{text} ({_go_type(kind, kind.info.list_kind)})")
    if wanted.form == "table":
        return Answer(await _table(call, items, metadata, wanted))
    return Answer(await _partials(kind, items, metadata, wanted))


def _go_type(kind: ServedKind, name: str) -> str:
    if kind.info.crd:
        return (
            "*unstructured.UnstructuredList" if name == kind.info.list_kind else "*unstructured.Unstructured"
        )
    return f"*{go_package(kind.resource)}.{name}"


async def list_json(kind: ServedKind, items: Sequence[Stored], metadata: Object) -> Pieces:
    """Return a list as JSON, made of the objects' cached bytes.

    Items of custom kinds carry their apiVersion and kind, those of built-in ones do not: the list says it.
    """
    info: Object = {
        "kind": kind.info.list_kind,
        "apiVersion": kind.resource.api_version,
        "metadata": metadata,
    }
    head = encode_json(info)[:-1] + b',"items":['
    if not items:
        return Pieces([head + b"]}"], b"")
    encoded, between = kind.encoded, b"," if kind.info.crd else b",{"
    named = encode_json({"apiVersion": kind.resource.api_version, "kind": kind.resource.kind})[:-1] + b","
    parts: list[bytes | memoryview] = []
    for start in range(0, len(items), _SPLICED):
        if start:
            await asyncio.sleep(0)
        some = items[start : start + _SPLICED]
        if kind.info.crd:
            parts += [encoded(stored) for stored in some]
        else:
            parts += [_after(encoded(stored), named) for stored in some]
    parts[0] = head + between[1:] + bytes(parts[0])
    parts[-1] = bytes(parts[-1]) + b"]}"
    return Pieces(parts, between)


def _after(encoded: bytes, named: bytes) -> bytes | memoryview:
    """Return what follows the type of an object and the comma behind it, without copying it."""
    if encoded.startswith(named):
        return memoryview(encoded)[len(named) :]
    obj = _decode(encoded)
    return encode_json({key: obj[key] for key in obj if key not in ("apiVersion", "kind")})[1:]


async def _partials(
    kind: ServedKind, items: Sequence[Stored], metadata: Object, wanted: Representation
) -> bytes:
    parts: list[bytes] = []
    for start in range(0, len(items), _SLICE):
        if start:
            await asyncio.sleep(0)
        views = [kind.view(stored) for stored in items[start : start + _SLICE]]
        parts += [encode_json(item) for item in tables.partial_list(views, {}, wanted.version)["items"]]
    head = encode_json({**tables.partial_list((), metadata, wanted.version), "items": None})
    return head[: -len(b"null}")] + b"[" + b",".join(parts) + b"]}"


async def _table(call: Call, items: Sequence[Stored], metadata: Object, wanted: Representation) -> bytes:
    kind, include = call.kind, include_object(call)
    order = kind.builtin.columns.order if kind.builtin is not None else None
    if order is not None:
        items = sorted(items, key=lambda stored: order(stored.obj))
    rows: list[bytes] = []
    for start in range(0, len(items), _SLICE):
        if start:
            await asyncio.sleep(0)
        part = tables.table(
            kind.info,
            [kind.view(stored) for stored in items[start : start + _SLICE]],
            {},
            call.now,
            include_object=include,
            version=wanted.version,
            with_columns=False,
        )
        rows.extend(encode_json(row) for row in part["rows"])
    head = encode_json(
        {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{wanted.version}",
            "metadata": metadata,
            "columnDefinitions": tables.columns(kind.info),
        }
    )
    if not rows and (kind.builtin is None or kind.builtin.columns is NAME_CREATED):
        return head[:-1] + b',"rows":null}'  # as a list of Go that nothing was added to
    return head[:-1] + b',"rows":[' + b",".join(rows) + b"]}"
