"""An API server on loopback for the tests of its connections, and clients that write raw bytes."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from trainshed.client.asgi import AsgiTransport
from trainshed.client.client import Client
from trainshed.cluster.apiserver.app import ApiServer
from trainshed.cluster.apiserver.bootstrap import bootstrap
from trainshed.cluster.apiserver.serve import serve
from trainshed.cluster.pki import Pki, ensure_pki
from trainshed.cluster.store import Store

SECONDS = 10.0
VERSION = b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n"
WEBSOCKET = (
    "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


class Peer:
    """One TLS connection, written to as raw bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        """Send; a peer that was hung up on does not notice here."""
        try:
            self.writer.write(data)
            await self.writer.drain()
        except ConnectionError:
            pass

    async def status(self) -> int:
        """Return the status of the next answer and read it to its end; 0 when the server hung up instead."""
        try:
            async with asyncio.timeout(SECONDS):
                head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
                await self.reader.readexactly(length)
        except (ConnectionError, asyncio.IncompleteReadError):
            return 0
        return int(head.split()[1])

    async def gone(self) -> None:
        """Wait until the server has hung up."""
        try:
            async with asyncio.timeout(SECONDS):
                while await self.reader.read(65536):
                    pass
        except ConnectionError:
            pass


class Server:
    """An API server on loopback. `client` is in its process."""

    def __init__(self, port: int, token: str, api: ApiServer, store: Store, client: Client) -> None:
        self.port, self.token = port, token
        self.api, self.store, self.client = api, store, client
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE
        self._peers: list[Peer] = []

    async def connect(self) -> Peer:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.port, ssl=self._tls))
        self._peers.append(peer)
        return peer

    async def answers(self) -> None:
        """Fail unless another client is served."""
        other = await self.connect()
        await other.send(VERSION)
        assert await other.status() == 200

    async def ask(self, method: str, path: str, body: bytes = b"", headers: str = "") -> Peer:
        """Return a connection of the administrator's on which a request was sent whose answer is not read."""
        peer = await self.connect()
        peer.writer.transport.set_write_buffer_limits(0)
        head = f"{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {self.token}\r\n"
        if body:
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        head += f"{headers}\r\n"
        await peer.send(head.encode() + body)
        return peer

    def close(self) -> None:
        for peer in self._peers:
            peer.writer.transport.abort()


@asynccontextmanager
async def running(tmp_path: Path) -> AsyncIterator[Server]:
    """Yield an API server whose anonymous clients may read /version."""
    pki = ensure_pki(tmp_path / "pki")
    store = await Store.open(tmp_path / "store.db")
    api = ApiServer.secured(store, pki)
    client = Client(AsgiTransport(api, "test", ["system:masters"]))
    await bootstrap(client)
    async with listening(api, pki) as port:
        server = Server(port, pki.admin_token, api, store, client)
        try:
            yield server
        finally:
            server.close()
    await client.close()
    await store.close()


@asynccontextmanager
async def listening(api: ApiServer, pki: Pki) -> AsyncIterator[int]:
    """Serve `api` on loopback; yield the port."""
    listener = socket.create_server(("127.0.0.1", 0))
    started, stopping = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(serve(api, [listener], pki, stopping, started=started.set))
    await asyncio.wait_for(started.wait(), SECONDS)
    try:
        yield listener.getsockname()[1]
    finally:
        stopping.set()
        await asyncio.gather(task, return_exceptions=True)
