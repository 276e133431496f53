"""An API server in this process, with a clock that tests move."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from trainshed.client.asgi import AsgiTransport
from trainshed.client.client import Client
from trainshed.client.transport import Response
from trainshed.cluster.apiserver.access import ADMIN, Authenticator, RbacAuthorizer
from trainshed.cluster.apiserver.app import ApiServer
from trainshed.cluster.apiserver.bootstrap import bootstrap
from trainshed.cluster.apiserver.tokens import TokenIssuer
from trainshed.cluster.pki import ensure_pki
from trainshed.cluster.store import RETAIN, Store
from trainshed.kube.wire.request import Request

START = 1_800_000_000.0
MERGE = "application/merge-patch+json"
ADMIN_TOKEN = "admin-token"


class World:
    """The server, a client that may do everything, and raw requests."""

    def __init__(self, home: Path, store: Store, **options: Any) -> None:
        self.now = START
        self.store = store
        issuer = TokenIssuer.load(ensure_pki(home / "pki").service_account_key)
        self.api = ApiServer(
            store,
            authenticator=Authenticator(store, issuer, {ADMIN_TOKEN: ADMIN}),
            authorizer=RbacAuthorizer(store),
            clock=lambda: self.now,
            **options,
        )
        self.transport = AsgiTransport(self.api, "tester", ["system:masters"], user_agent="tester/1")
        self.client = Client(self.transport)

    async def raw(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str | None = "application/json",
        accept: str = "application/json",
        **query: str,
    ) -> Response:
        """Return the whole response of one request."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = Request(
            method,
            path,
            query=list(query.items()),
            body=data,
            content_type=content_type if data is not None else None,
            accept=accept,
        )
        return await self.transport.request(request)

    async def ok(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Return the decoded body of a request that must succeed."""
        response = await self.raw(method, path, body, **options)
        assert response.status < 300, (method, path, response.status, response.body)
        return json.loads(response.body)

    async def refused(self, status: int, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Return the Status of a request that must fail with this code."""
        response = await self.raw(method, path, body, **options)
        assert response.status == status, (method, path, response.status, response.body)
        return json.loads(response.body)

    def lines(self, path: str, *, accept: str = "application/json", **query: str) -> Lines:
        """Return a watch on a collection."""
        return Lines(self, path, accept, {"watch": "1", **query})


class Lines:
    """A watch, read event by event."""

    def __init__(self, world: World, path: str, accept: str, query: dict[str, str]) -> None:
        self._context = world.transport.stream(Request("GET", path, list(query.items()), accept=accept))
        self._buffer = b""

    async def __aenter__(self) -> Lines:
        self._stream = await self._context.__aenter__()
        self.status = self._stream.status
        self._chunks = self._stream.chunks()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._context.__aexit__(*error)

    async def next(self, seconds: float = 5.0) -> Any:
        """Return the next event; None when the stream ended. Fails after `seconds`."""
        async with asyncio.timeout(seconds):
            while b"\n" not in self._buffer:
                try:
                    self._buffer += await anext(self._chunks)
                except StopAsyncIteration:
                    assert not self._buffer, self._buffer
                    return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    async def take(self, count: int) -> list[Any]:
        """Return the next `count` events."""
        return [await self.next() for _ in range(count)]


@asynccontextmanager
async def open_world(home: Path, *, retain: int = RETAIN, **options: Any) -> AsyncIterator[World]:
    """Yield a bootstrapped world in a state directory, which may have been used before."""
    store = await Store.open(home / "store.db", retain=retain)
    world = World(home, store, **options)
    try:
        await bootstrap(world.client)
        if store.get("/core/serviceaccounts/default/default") is None:
            account = {"metadata": {"name": "default"}}
            await world.ok("POST", "/api/v1/namespaces/default/serviceaccounts", account)
        yield world
    finally:
        await world.transport.close()
        await store.close()


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    """Return a ConfigMap as a client may send it: without apiVersion and kind."""
    return {"metadata": {"name": name, "labels": labels or {}}, "data": data}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """Return a small pod."""
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec}}


def types(events: list[Any]) -> list[tuple[str, str]]:
    """Return (type, name) of each event."""
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """An API server with an empty cluster."""
    async with open_world(tmp_path) as world:
        yield world
