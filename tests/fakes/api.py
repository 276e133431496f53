"""A model of an API server as a Transport: one revisioned log, lists, watches, and faults on demand.

It exists to make an informer's or a controller's connection misbehave in ways that a real server cannot be
asked to. It knows no validation and no defaulting.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote

import msgspec

from trainshed.client.transport import Response, TransportError
from trainshed.kube.meta import errors
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.wire.request import Request

COLLECTIONS = {"things", "leases", "events", "pods", "services", "pytorchjobs", "horizontalpodautoscalers"}


class FakeApi:
    """Serves GET, POST, PUT, DELETE, merge PATCH, list and watch of any path.

    Faults: `compact()` makes old positions answer 410; `drop_streams()` breaks every open watch;
    `fail_requests` refuses that many requests without an answer.
    """

    def __init__(self) -> None:
        self.revision = 10
        self.objects: dict[str, Object] = {}
        self.log: list[tuple[int, str, str, Object]] = []
        self.compacted = 0
        self.fail_requests = 0
        self.page_size = 500
        self.calls: list[tuple[str, str]] = []
        self.created: list[tuple[str, str]] = []
        """(plural, name) of every POST that was accepted."""
        self._changed = asyncio.Condition()
        self._generation = 0
        self._close_cleanly = False
        self.watching = 0

    # What the world does.

    async def put(self, path: str, **fields: Any) -> Object:
        """Create or change the object at `path`."""
        old = self.objects.get(path)
        name = path.rpartition("/")[2]
        namespace = path.split("/namespaces/")[1].partition("/")[0] if "/namespaces/" in path else None
        self.revision += 1
        metadata = dict((old or {}).get("metadata") or {"uid": f"uid-{self.revision}"})
        metadata.update(name=name, resourceVersion=str(self.revision))
        if namespace:
            metadata["namespace"] = namespace
        metadata.update(fields.pop("metadata", {}))
        obj = {"apiVersion": "v1", "kind": "Thing", **(old or {}), **fields, "metadata": metadata}
        self.objects[path] = obj
        await self._append("MODIFIED" if old else "ADDED", path, obj)
        return obj

    async def remove(self, path: str) -> None:
        """Delete the object at `path`."""
        old = self.objects.pop(path)
        self.revision += 1
        final = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.revision)}}
        await self._append("DELETED", path, final)

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
            path = unquote(request.path)
            document = await self._handle(request.method, path, dict(request.query), request.body)
        except ApiError as error:
            return Response(error.code, {}, msgspec.json.encode(error.status()))
        return Response(200, {}, msgspec.json.encode(document))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[FakeStream]:
        await asyncio.sleep(0)
        self.calls.append(("WATCH", request.path))
        if self.fail_requests:
            self.fail_requests -= 1
            raise TransportError("refused by the test")
        self.watching += 1
        try:
            yield FakeStream(self, request.path, int(dict(request.query)["resourceVersion"]))
        finally:
            self.watching -= 1

    async def close(self) -> None:
        pass

    # Inside.

    async def _handle(self, method: str, path: str, query: dict[str, str], body: bytes | None) -> Any:
        sent = msgspec.json.decode(body) if body else {}
        collection, _, name = path.rpartition("/")
        if method == "GET" and name in COLLECTIONS:
            return self._list(path, query)
        if method == "GET":
            if path not in self.objects:
                raise errors.not_found(collection.rpartition("/")[2], "", name)
            return self.objects[path]
        if method == "POST":
            target = f"{path}/{sent['metadata']['name']}"
            if target in self.objects:
                raise errors.already_exists(name, "", sent["metadata"]["name"])
            created = await self.put(target, **sent)
            self.created.append((name, created["metadata"]["name"]))
            return created
        if method == "PUT" and name == "status":
            path = collection
            sent = {
                "status": sent["status"],
                "metadata": {"resourceVersion": sent["metadata"]["resourceVersion"]},
            }
        if path not in self.objects:
            raise errors.not_found(collection.rpartition("/")[2], "", name)
        if method == "PUT":
            expected = sent.pop("metadata").get("resourceVersion")
            if expected and expected != self.objects[path]["metadata"]["resourceVersion"]:
                raise errors.conflict(collection.rpartition("/")[2], "", name)
            return await self.put(path, **sent)
        if method == "PATCH":
            return await self.put(path, **sent)
        return await self._delete(path, (sent or {}).get("preconditions") or {})

    async def _delete(self, path: str, preconditions: dict[str, str]) -> Object:
        """A running pod only gets a deletionTimestamp: the kubelet removes it."""
        obj = self.objects[path]
        if preconditions.get("uid", obj["metadata"]["uid"]) != obj["metadata"]["uid"]:
            raise errors.conflict("things", "", obj["metadata"]["name"], "Precondition failed: UID")
        if "/pods/" in path and (obj.get("status") or {}).get("phase") == "Running":
            if "deletionTimestamp" in obj["metadata"]:
                return obj
            return await self.put(path, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        await self.remove(path)
        return obj

    def _list(self, path: str, query: dict[str, str]) -> Any:
        start, revision = query.get("continue", ""), self.revision
        if start:
            at, _, start = start.partition(":")
            if int(at) < self.compacted:
                raise errors.expired("the continue token is too old")
            revision = int(at)
        state = self._state_at(revision)
        items = sorted((key, obj) for key, obj in state.items() if _under(key, path) and key > start)
        page, rest = items[: self.page_size], items[self.page_size :]
        metadata = {"resourceVersion": str(revision)}
        if rest:
            metadata["continue"] = f"{revision}:{page[-1][0]}"
        return {"metadata": metadata, "items": [obj for _, obj in page]}

    def _state_at(self, revision: int) -> dict[str, Object]:
        state: dict[str, Object] = {}
        for at, kind, key, obj in self.log:
            if at <= revision:
                if kind == "DELETED":
                    state.pop(key, None)
                else:
                    state[key] = obj
        return state

    async def _append(self, kind: str, path: str, obj: Object) -> None:
        self.log.append((self.revision, kind, path, obj))
        async with self._changed:
            self._changed.notify_all()

    async def _events(self, path: str, since: int) -> AsyncIterator[bytes]:
        generation = self._generation
        position = since
        if since < self.compacted:
            status = errors.expired("too old resource version").status()
            yield msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n"
            return
        while True:
            for at, kind, key, obj in list(self.log):
                if at > position:
                    position = at
                    if _under(key, path):
                        yield msgspec.json.encode({"type": kind, "object": obj}) + b"\n"
            if generation != self._generation:
                if self._close_cleanly:
                    return
                raise TransportError("stream dropped by the test")
            async with self._changed:
                while self.revision <= position and generation == self._generation:
                    await self._changed.wait()


class FakeStream:
    """One open watch."""

    status = 200

    def __init__(self, api: FakeApi, path: str, since: int) -> None:
        self._api, self._path, self._since = api, path, since

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._api._events(self._path, self._since):
            # Split inside a frame: a reader must not depend on where chunks end.
            yield chunk[:7]
            yield chunk[7:]

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])


def _under(key: str, path: str) -> bool:
    """Whether the object at `key` belongs to the collection `path`, of a namespace or of all."""
    collection = key.rpartition("/")[0]
    if collection == path:
        return True
    prefix, separator, rest = collection.partition("/namespaces/")
    return bool(separator) and f"{prefix}/{rest.partition('/')[2]}" == path
