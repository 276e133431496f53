"""The server's end: open streams do not hold it up, and their clients see an end, not an error."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import aclosing
from pathlib import Path

import pytest

from trainshed.client.client import Client
from trainshed.client.credentials import StaticToken
from trainshed.client.http import HttpTransport, Tls
from trainshed.cluster.apiserver.app import ApiServer
from trainshed.cluster.apiserver.serve import GRACEFUL_SECONDS, serve
from trainshed.cluster.pki import ensure_pki
from trainshed.cluster.store import Store
from trainshed.kube.meta.resources import NAMESPACES


async def test_a_server_with_an_open_watch_stops_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pki = ensure_pki(tmp_path / "pki")
    store = await Store.open(tmp_path / "store.db")
    api = ApiServer.secured(store, pki)
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"https://127.0.0.1:{listener.getsockname()[1]}"
    started, stopping = asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(
        serve(api, [listener], pki, stopping, started=started.set, ending=api.end_streams)
    )
    await asyncio.wait_for(started.wait(), 10)
    client = Client(HttpTransport(url, credentials=StaticToken(pki.admin_token), tls=Tls(ca=pki.ca_pem)))
    seen = asyncio.Event()

    async def follow() -> list[str]:
        names = []
        async with aclosing(client.watch(NAMESPACES, resource_version="0")) as events:
            async for event in events:
                if event.type == "ADDED":
                    names.append(event.object["metadata"]["name"])
                    seen.set()
        return names

    try:
        following = asyncio.create_task(follow())
        await client.create(NAMESPACES, {"metadata": {"name": "seen"}})
        await asyncio.wait_for(seen.wait(), 10)
        stopping.set()
        # The whole grace period would be waited for if the watch went on.
        await asyncio.wait_for(serving, GRACEFUL_SECONDS * 0.75)
        assert await asyncio.wait_for(following, 10) == ["seen"]
    finally:
        stopping.set()
        await asyncio.gather(serving, return_exceptions=True)
        await client.close()
        await store.close()
    assert [r for r in caplog.records if r.levelno >= logging.ERROR] == []
