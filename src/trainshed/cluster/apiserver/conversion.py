"""Custom resources whose versions a webhook converts.

The store keeps an object in the version that was the storage version when it was last written. What is read in another
one is converted before anything else looks at it: `ServedKind.view` refuses what was not.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

import msgspec

from trainshed.cluster.apiserver import callbacks
from trainshed.cluster.apiserver.core import Core
from trainshed.cluster.apiserver.http import encode_json
from trainshed.cluster.apiserver.kinds import ServedKind
from trainshed.cluster.store import Stored, StoreEvent
from trainshed.kube.meta.objects import Object
from trainshed.kube.schema import crdconversion
from trainshed.kube.schema.decode import conform

_BATCH_BYTES = 1024 * 1024
"""What one review holds of a list, at least one object: the answer has to fit into what is read of one."""
_BATCH_OBJECTS = 500


async def viewed(core: Core, kind: ServedKind, items: list[Stored], *, fresh: bool = False) -> list[Stored]:
    """Return stored objects as `kind.view` takes them. `fresh` asks the webhook even for what it has converted before.

    Raises:
        ApiError: 500, the webhook cannot be asked or its answer cannot be taken.
    """
    if not kind.info.conversion:
        return items
    out = list(items)
    wanted: list[int] = []
    for index, stored in enumerate(items):
        if kind.is_native(stored):
            continue
        held = None if fresh else kind.converted.get(stored.revision)
        if held is None:
            wanted.append(index)
        else:
            out[index] = held
    for batch in _batches(items, wanted):
        objects = [items[index].obj for index in batch]
        done = await _convert(core, kind, objects, kind.resource.api_version)
        for index, obj in zip(batch, done, strict=True):
            stored, pruned = items[index], _pruned(kind, obj)
            out[index] = Stored(
                stored.key, stored.revision, stored.create_revision, encode_json(pruned), pruned
            )
            kind.keep(out[index])
    return out


async def viewed_one(core: Core, kind: ServedKind, stored: Stored, *, fresh: bool = False) -> Stored:
    """Return one stored object as `kind.view` takes it. Raises `ApiError` 500 likewise."""
    return (await viewed(core, kind, [stored], fresh=fresh))[0]


async def viewed_events(
    core: Core, kind: ServedKind, events: Sequence[StoreEvent], *, previous: bool
) -> Sequence[StoreEvent]:
    """Return changes as `kind.view` takes their objects, with `previous` also those before.

    Raises `ApiError` 500 likewise. Watchers take turns: the first has the webhook asked, the others find what it said.
    """
    if not kind.info.conversion:
        return events
    async with kind.turn:
        after = await viewed(core, kind, [event.stored for event in events])
        known = [event.previous for event in events if previous and event.previous is not None]
        before = iter(await viewed(core, kind, known))
    return [
        StoreEvent(
            event.type, stored, next(before) if previous and event.previous is not None else event.previous
        )
        for event, stored in zip(events, after, strict=True)
    ]


async def stored_form(core: Core, kind: ServedKind, obj: Object) -> Object:
    """Return an object of this version as the store keeps it. Raises `ApiError` 500 likewise."""
    if not kind.info.conversion or kind.storage_api_version == kind.resource.api_version:
        return kind.to_storage(obj)
    done = (await _convert(core, kind, [obj], kind.storage_api_version))[0]
    resource = kind.resource
    storage = core.kinds.get(resource.group, kind.info.storage_version, resource.plural)
    return done if storage is None else _pruned(storage, done)


async def translated(core: Core, source: ServedKind, target: ServedKind, obj: Object) -> Object:
    """Return an object of one served version as another shows it. Raises `ApiError` 500 likewise."""
    if target.info.conversion:
        return _pruned(target, (await _convert(core, target, [obj], target.resource.api_version))[0])
    out = source.to_storage(obj)
    if target.converter is not None:
        out = target.converter.from_storage(out)
    return {**out, "apiVersion": target.resource.api_version}


def _pruned(kind: ServedKind, obj: Object) -> Object:
    return conform(obj, kind.schema, mode="ignore", what="", builtin=False)[0]


def _batches(items: list[Stored], wanted: list[int]) -> Iterator[list[int]]:
    batch: list[int] = []
    size = 0
    for index in wanted:
        if batch and (size + len(items[index].encoded) > _BATCH_BYTES or len(batch) >= _BATCH_OBJECTS):
            yield batch
            batch, size = [], 0
        batch.append(index)
        size += len(items[index].encoded)
    if batch:
        yield batch


async def _convert(core: Core, kind: ServedKind, objects: list[Object], wanted: str) -> list[Object]:
    webhook = msgspec.json.decode(kind.info.conversion)
    review = crdconversion.review(webhook, objects, wanted, str(uuid.uuid4()))
    try:
        body = await callbacks.call(core, webhook["clientConfig"], encode_json(review), crdconversion.SECONDS)
    except ConnectionError as error:
        raise crdconversion.failed(objects[0], str(error)) from error
    return crdconversion.converted(review, body)
