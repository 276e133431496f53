"""A model of an API server as a Transport: one revisioned log, lists, watches, and faults on demand.

It exists for virtual time, and to make a connection misbehave in ways that a real server cannot be asked to. What it
answers is what the real server answers: `tests/conformance/api` runs on both. It knows no kinds: no defaulting, no
validation, no permissions, no namespaces that have to exist.
"""

from __future__ import annotations

import asyncio
import bisect
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote

import msgspec

from tests.fakes import api_rules as rules
from tests.fakes.api_rules import Place, Selection
from trainshed.client.transport import Response, TransportError
from trainshed.kube.meta import errors
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.times import format_time
from trainshed.kube.wire.request import Request


class FakeApi:
    """Serves the verbs of objects at any path, their status, list and watch.

    Faults: `compact()` makes old positions answer 410; `drop_streams()` breaks every open watch;
    `fail_requests` refuses that many requests without an answer; `page_size` is the most that a page holds.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.revision = 10
        self.objects: dict[str, Object] = {}
        self.log: list[tuple[int, str, str, Object]] = []
        self.compacted = 0
        self.fail_requests = 0
        self.page_size = 500
        self.calls: list[tuple[str, str]] = []
        self.created: list[tuple[str, str]] = []
        """(plural, name) of every POST that was accepted."""
        self.watching = 0
        self._now = now
        self._changed = asyncio.Condition()
        self._generation = 0
        self._close_cleanly = False

    # What the world does.

    async def put(self, path: str, **fields: Any) -> Object:
        """Create or change the object at `path`, whatever a server would say to it."""
        old = self.objects.get(path)
        metadata = dict((old or {}).get("metadata") or {"uid": f"uid-{self.revision + 1}"})
        metadata.update(name=path.rpartition("/")[2])
        if namespace := Place.of(path).namespace:
            metadata["namespace"] = namespace
        metadata.update(fields.pop("metadata", {}))
        return await self._write(
            path, {"apiVersion": "v1", "kind": "Thing", **(old or {}), **fields, "metadata": metadata}
        )

    async def remove(self, path: str) -> None:
        """Delete the object at `path`, whatever holds it."""
        await self._erase(path, self.objects[path])

    def compact(self) -> None:
        """Forget history: positions before now answer 410."""
        self.compacted = self.revision

    async def drop_streams(self, *, cleanly: bool = False) -> None:
        """End every open watch, with or without an error."""
        async with self._changed:
            self._generation += 1
            self._close_cleanly = cleanly
            self._changed.notify_all()

    # Transport.

    async def request(self, request: Request) -> Response:
        await asyncio.sleep(0)
        self.calls.append((request.method, request.path))
        if self.fail_requests:
            self.fail_requests -= 1
            raise TransportError("refused by the test")
        try:
            body, kind = request.body, request.content_type or ""
            document = await self._handle(
                request.method, unquote(request.path), dict(request.query), body, kind
            )
        except ApiError as error:
            return Response(error.code, {}, msgspec.json.encode(error.status()))
        return Response(201 if request.method == "POST" else 200, {}, msgspec.json.encode(document))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[FakeStream]:
        await asyncio.sleep(0)
        self.calls.append(("WATCH", request.path))
        if self.fail_requests:
            self.fail_requests -= 1
            raise TransportError("refused by the test")
        self.watching += 1
        try:
            yield FakeStream(self._events(unquote(request.path), dict(request.query)))
        finally:
            self.watching -= 1

    async def close(self) -> None:
        pass

    # The verbs.

    async def _handle(
        self, method: str, path: str, query: dict[str, str], body: bytes | None, content_type: str
    ) -> Any:
        place = Place.of(path)
        sent = msgspec.json.decode(body) if body else {}
        dry_run = query.get("dryRun") == "All"
        if method == "POST" and place.subresource == "token":
            self._current(place)
            return {"status": {"token": "jwt", "expirationTimestamp": "2099-01-01T00:00:00Z"}}
        if method == "POST":
            return await self._create(place, rules.new(place, sent, self._timestamp()), dry_run)
        if not place.name:
            return self._list(path, query) if method == "GET" else await self._delete_all(path, query, sent)
        if method == "GET":
            return self._current(place)
        if method == "DELETE":
            return await self._delete(place, sent, dry_run)
        if content_type == rules.APPLY:
            return await self._apply(place, sent, query, dry_run)
        old = self._current(place)
        wanted = sent if method == "PUT" else rules.patched(old, sent, content_type)
        return await self._change(place, old, rules.updated(place, old, wanted), dry_run)

    def _current(self, place: Place) -> Object:
        if place.path not in self.objects:
            raise errors.not_found(place.plural, place.group, place.name)
        return self.objects[place.path]

    async def _create(self, place: Place, obj: Object, dry_run: bool) -> Object:
        name = obj["metadata"]["name"]
        path = f"{place.collection}/{name}"
        if path in self.objects:
            raise errors.already_exists(place.plural, place.group, name)
        if dry_run:
            return obj
        obj["metadata"]["uid"] = f"uid-{self.revision + 1}"
        self.created.append((place.plural, name))
        return await self._write(path, obj)

    async def _apply(self, place: Place, sent: Object, query: dict[str, str], dry_run: bool) -> Object:
        live = self.objects.get(place.path)
        merged = rules.applied(place, live, sent, query, self._timestamp())
        if live is None:
            return await self._create(place, rules.new(place, merged, self._timestamp()), dry_run)
        return await self._change(place, live, rules.updated(place, live, merged), dry_run)

    async def _change(self, place: Place, old: Object, new: Object, dry_run: bool) -> Object:
        """Store what changed; nothing is written for nothing, and a deletion that nothing holds any more ends."""
        if new == old or dry_run:
            return new
        if rules.is_deletion_complete(new):
            return await self._erase(place.path, new)
        return await self._write(place.path, new)

    async def _delete(self, place: Place, options: Object, dry_run: bool) -> Object:
        old = self._current(place)
        rules.check_preconditions(place, old, options)
        new = rules.marked(place, old, options, self._now())
        stored = await self._change(place, old, new, dry_run)
        return stored if rules.answers_with_object(place, new) else rules.success(place, old)

    async def _delete_all(self, path: str, query: dict[str, str], options: Object) -> Any:
        chosen = Selection.of(query)
        held = [
            (key, obj)
            for key, obj in self.objects.items()
            if rules.is_under(key, path) and chosen.matches(obj)
        ]
        for key, _ in held:
            await self._delete(Place.of(key), options, query.get("dryRun") == "All")
        return {"metadata": {"resourceVersion": str(self.revision)}, "items": [obj for _, obj in held]}

    def _list(self, path: str, query: dict[str, str]) -> Any:
        start, revision = query.get("continue", ""), self.revision
        if start:
            at, _, start = start.partition(":")
            if int(at) < self.compacted:
                raise errors.expired("the continue token is too old")
            revision = int(at)
        chosen = Selection.of(query)
        items = sorted(
            (key, obj)
            for key, obj in self._state_at(revision).items()
            if rules.is_under(key, path) and key > start and chosen.matches(obj)
        )
        size = min(self.page_size, int(query.get("limit") or self.page_size))
        page, rest = items[:size], items[size:]
        metadata = {"resourceVersion": str(revision)}
        if rest:
            metadata["continue"] = f"{revision}:{page[-1][0]}"
        return {"metadata": metadata, "items": [obj for _, obj in page]}

    # The log.

    def _timestamp(self) -> str:
        return format_time(self._now())

    def _state_at(self, revision: int) -> dict[str, Object]:
        if revision >= self.revision:
            return dict(self.objects)
        state: dict[str, Object] = {}
        for at, kind, key, obj in self.log:
            if at <= revision:
                if kind == "DELETED":
                    state.pop(key, None)
                else:
                    state[key] = obj
        return state

    async def _write(self, path: str, obj: Object) -> Object:
        kind = "MODIFIED" if path in self.objects else "ADDED"
        self.revision += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}
        self.objects[path] = obj
        await self._append(kind, path, obj)
        return obj

    async def _erase(self, path: str, last: Object) -> Object:
        del self.objects[path]
        self.revision += 1
        final = {**last, "metadata": {**last["metadata"], "resourceVersion": str(self.revision)}}
        await self._append("DELETED", path, final)
        return final

    async def _append(self, kind: str, path: str, obj: Object) -> None:
        self.log.append((self.revision, kind, path, obj))
        async with self._changed:
            self._changed.notify_all()

    async def _events(self, path: str, query: dict[str, str]) -> AsyncIterator[bytes]:
        generation = self._generation
        since = int(query.get("resourceVersion") or 0)
        if 0 < since < self.compacted:
            yield _frame("ERROR", errors.expired("too old resource version").status())
            return
        chosen = Selection.of(query)
        position = since or self.revision
        state = self._state_at(position)
        if not since:
            for key, obj in sorted(state.items()):
                if rules.is_under(key, path) and chosen.matches(obj):
                    yield _frame("ADDED", obj)
        seconds = query.get("timeoutSeconds")
        deadline = asyncio.get_running_loop().time() + float(seconds) if seconds else None
        index = bisect.bisect_right(self.log, position, key=lambda entry: entry[0])
        while True:
            while index < len(self.log):
                _, kind, key, obj = self.log[index]
                index += 1
                if not rules.is_under(key, path):
                    continue
                before = state.pop(key, None)
                if kind != "DELETED":
                    state[key] = obj
                if (seen := chosen.event(before, kind, obj)) is not None:
                    yield _frame(seen, obj)
            if generation != self._generation:
                if self._close_cleanly:
                    return
                raise TransportError("stream dropped by the test")
            try:
                async with asyncio.timeout_at(deadline), self._changed:
                    while index == len(self.log) and generation == self._generation:
                        await self._changed.wait()
            except TimeoutError:
                if query.get("allowWatchBookmarks") == "true":
                    yield _frame("BOOKMARK", {"metadata": {"resourceVersion": str(self.revision)}})
                return


class FakeStream:
    """One open watch."""

    status = 200

    def __init__(self, frames: AsyncIterator[bytes]) -> None:
        self._frames = frames

    async def chunks(self) -> AsyncIterator[bytes]:
        async for frame in self._frames:
            # Split inside a frame: a reader must not depend on where chunks end.
            yield frame[:7]
            yield frame[7:]

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])


def _frame(kind: str, obj: Object) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"
