"""A stream of changes.

The store's watch gives every change of the collection; this file turns them into what one client asked for:
selected (entering a selection is ADDED, leaving it DELETED), in a representation, with bookmarks.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import msgspec

from trainshed.cluster.apiserver import rendering
from trainshed.cluster.apiserver.conversion import viewed, viewed_events
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.http import SENT_BYTES, Streaming, encode_json
from trainshed.cluster.apiserver.kinds import ServedKind
from trainshed.cluster.apiserver.selection import Selection, selection
from trainshed.cluster.apiserver.verbs.read import check_reached, revision
from trainshed.cluster.store import DELETED, Compacted, Stored, StoreEvent, Watch
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import ApiError, Cause, expired, invalid, not_acceptable
from trainshed.kube.served import tables
from trainshed.kube.wire import watchframe
from trainshed.kube.wire.negotiate import Representation, for_initial_events
from trainshed.kube.wire.options import WatchOptions
from trainshed.kube.wire.watchframe import EventType

BOOKMARK_SECONDS = 60.0
DEFAULT_SECONDS = (1800, 3600)
"""How long a watch without `timeoutSeconds` lasts, at least and at most."""
_CACHED_FRAMES = 512
_SLICE = 200


class Frames:
    """Encodes objects for watchers, each once per representation however many watch."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()

    def frame(
        self,
        kind: ServedKind,
        type_: EventType,
        stored: Stored,
        wanted: Representation,
        include: tables.IncludeObject,
        now: float,
    ) -> bytes:
        """Return the line of an event. Tables come without column definitions."""
        if wanted.form in ("json", "yaml"):
            return watchframe.frame(type_, kind.encoded(stored))
        key = (type_, stored.revision, id(kind), wanted.form, wanted.version, include, int(now))
        held = self._held.get(key)
        if held is None:
            obj = kind.view(stored)
            if wanted.form == "table":
                value = _row(kind, obj, wanted, include, now, with_columns=False)
            else:
                value = tables.partial(obj, wanted.version)
            held = self._held[key] = watchframe.frame(type_, encode_json(value))
            if len(self._held) > _CACHED_FRAMES:
                self._held.popitem(last=False)
        return held


def _row(
    kind: ServedKind,
    obj: dict[str, Any],
    wanted: Representation,
    include: tables.IncludeObject,
    now: float,
    *,
    with_columns: bool,
) -> dict[str, Any]:
    return tables.table(
        kind.info,
        [obj],
        {"resourceVersion": obj["metadata"].get("resourceVersion", "")},
        now,
        include_object=include,
        version=wanted.version,
        with_columns=with_columns,
    )


async def watch(core: Core, call: Call, frames: Frames) -> Streaming:
    """Return the stream. Raises `ApiError` for a query that makes no sense; later errors are ERROR events."""
    options = WatchOptions.decode(call.request.query)
    if call.route.name:  # below the deprecated prefix, of one object
        options = msgspec.structs.replace(options, field_selector=f"metadata.name={call.route.name}")
    chosen = selection(call.kind, options)
    at = revision(options.resource_version)
    _check_initial_events(options)
    wanted = _form(call, options)
    return Streaming(_Stream(core, call, frames, options, chosen, wanted).lines(at))


def _check_initial_events(options: WatchOptions) -> None:
    """Raise `ApiError` 422 unless the query has what `sendInitialEvents` needs."""
    match, asked = options.resource_version_match, options.send_initial_events
    found: list[Cause] = []
    if asked is not None:
        if match != "NotOlderThan":
            text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            found.append(causes.forbidden("resourceVersionMatch", text))
            if match:
                found.append(causes.unsupported("resourceVersionMatch", match, ("NotOlderThan",)))
    elif match:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        found.append(causes.forbidden("resourceVersionMatch", text))
        if match != "NotOlderThan":
            found.append(causes.unsupported("resourceVersionMatch", match, ("NotOlderThan",)))
    if found:
        raise invalid("ListOptions", "meta.k8s.io", "", found)


def _form(call: Call, options: WatchOptions) -> Representation:
    """Return what the stream is written in. Raises `ApiError` 406."""
    if not options.send_initial_events:
        wanted = rendering.representation(call)
    else:
        wanted = for_initial_events(call.request.headers.get("accept"))
    if wanted.form == "yaml":
        raise not_acceptable(
            "application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"
        )
    return wanted


class _Stream:
    """One client's watch."""

    def __init__(
        self,
        core: Core,
        call: Call,
        frames: Frames,
        options: WatchOptions,
        chosen: Selection,
        wanted: Representation,
    ) -> None:
        self._core = core
        self._call = call
        self._kind = call.kind
        self._frames = frames
        self._chosen = chosen
        self._wanted = wanted
        self._include = rendering.include_object(call) if wanted.form == "table" else "Metadata"
        self._bookmarks = options.allow_watch_bookmarks
        self._first = True
        self._initial = options.send_initial_events
        self._ended = (options.timeout_seconds or 0) < 0
        self._seconds = float(options.timeout_seconds or 0) or random.uniform(*DEFAULT_SECONDS)  # noqa: S311

    async def lines(self, at: int | None) -> AsyncIterator[bytes]:
        """Yield the body until the time is over, the watch falls behind, or the store closes."""
        if self._ended:
            yield b""
            return
        prefix = self._kind.prefix(self._call.route.namespace)
        items: list[Stored] = []
        # sendInitialEvents=false means: no initial events, whatever the resourceVersion.
        synthetic = not at if self._initial is None else self._initial
        if synthetic or not at:
            found, since = await self._core.store.labelled(prefix, self._chosen.values)
            try:
                if self._initial and at:
                    check_reached(self._core, at)
                shown = await viewed(self._core, self._kind, found) if synthetic else []
                items = await self._chosen.of(shown)
            except ApiError as error:
                yield watchframe.error(error)
                return
        else:
            since = at
        deadline = asyncio.get_running_loop().time() + self._seconds
        try:
            watch = self._core.store.watch(prefix, since)
        except Compacted as error:
            yield _too_old(error)
            return
        self._kind.watches.add(watch)
        try:
            for body in joined(self._frame("ADDED", stored) for stored in items):
                yield body
            if self._initial and self._bookmarks:
                yield self._bookmark(since, end=True)
            async for line in self._live(watch, deadline):
                yield line
        finally:
            watch.close()

    async def _live(self, watch: Watch, deadline: float) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        bookmark_at = loop.time() + BOOKMARK_SECONDS if self._bookmarks else deadline
        # Tell the client at once that the stream is open; nothing else might come for an hour.
        yield b""
        while True:
            try:
                events = await watch.batch(min(deadline, bookmark_at))
            except TimeoutError:
                if self._bookmarks:
                    yield self._bookmark(watch.position)
                if loop.time() >= deadline:
                    return
                bookmark_at = loop.time() + BOOKMARK_SECONDS if self._bookmarks else deadline
                continue
            except Compacted as error:
                yield _too_old(error)
                return
            if not events:
                return  # the store closes
            try:
                whole = self._chosen.everything
                seen = await viewed_events(self._core, self._kind, events, previous=not whole)
            except ApiError as error:
                yield watchframe.error(error)
                return
            for body in joined(self._event(event) for event in seen):
                if body:
                    yield body

    def _event(self, event: StoreEvent) -> bytes:
        """Return the line of a change, or nothing when it is not selected."""
        if self._chosen.everything:
            return self._frame(event.type, event.stored)
        previous = event.previous
        before = previous is not None and self._chosen.selects(previous)
        after = event.type != DELETED and self._chosen.selects(event.stored)
        if not before and not after:
            return b""
        if previous is not None and not after and event.type != DELETED:
            return self._left(previous, event.stored)
        type_: EventType = "MODIFIED" if before and after else "ADDED" if after else "DELETED"
        return self._frame(type_, event.stored)

    def _left(self, previous: Stored, now: Stored) -> bytes:
        """Return the line for an object that is not selected any more: as it was last seen, with its new version."""
        old = self._kind.view(previous)
        obj = {**old, "metadata": {**old["metadata"], "resourceVersion": str(now.revision)}}
        return watchframe.encode("DELETED", self._shown(obj))

    def _shown(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Return an object in the form that the client asked for."""
        if self._wanted.form == "table":
            first, self._first = self._first, False
            now = self._core.clock()
            return _row(self._kind, obj, self._wanted, self._include, now, with_columns=first)
        if self._wanted.form in ("json", "yaml"):
            return obj
        return tables.partial(obj, self._wanted.version)

    def _frame(self, type_: EventType, stored: Stored) -> bytes:
        now = self._core.clock()
        if self._first and self._wanted.form == "table":
            self._first = False
            obj = self._kind.view(stored)
            return watchframe.encode(
                type_, _row(self._kind, obj, self._wanted, self._include, now, with_columns=True)
            )
        return self._frames.frame(self._kind, type_, stored, self._wanted, self._include, now)

    def _bookmark(self, at: int, *, end: bool = False) -> bytes:
        resource = self._kind.resource
        obj = watchframe.bookmark_of(
            resource.api_version,
            resource.kind,
            str(at),
            initial_events_end=end,
            typed=not self._kind.info.crd,
        )
        return watchframe.encode("BOOKMARK", self._shown(obj))


def joined(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines together: `_SLICE` of them, or as many as are sent at a time."""
    some: list[bytes] = []
    size = 0
    for line in lines:
        some.append(line)
        size += len(line)
        if len(some) >= _SLICE or size >= SENT_BYTES:
            yield b"".join(some)
            some, size = [], 0
    if some:
        yield b"".join(some)


def _too_old(error: Compacted) -> bytes:
    return watchframe.error(expired(f"too old resource version: {error.since} ({error.floor})"))
