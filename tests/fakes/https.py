"""An HTTPS server on loopback, with an authority of its own."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web

from trainshed.certificates import issue, make_authority
from trainshed.cluster.apiserver.callbacks import Socket
from trainshed.cluster.backend import ByteStream
from trainshed.kube.meta.objects import Object

Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Https:
    """Where the server listens, and the authority that has signed its certificate."""

    def __init__(self, port: int, ca: str) -> None:
        self.port = port
        self.ca = ca

    @property
    def bundle(self) -> str:
        """The authority as a `caBundle`."""
        return base64.b64encode(self.ca.encode()).decode()

    def config(self, path: str = "/") -> dict[str, str]:
        """Return a `clientConfig` that leads here."""
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": self.bundle}


class PodsAt:
    """A node whose pods all listen at one port of loopback."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.dialled: list[tuple[str, int]] = []

    def of(self, pod: Object) -> PodsAt:
        return self

    async def port_forward(self, of: Object, port: int) -> ByteStream:
        self.dialled.append((of["metadata"]["name"], port))
        return Socket(*await asyncio.open_connection("127.0.0.1", self.port))


@asynccontextmanager
async def serve_https(
    home: Path, handle: Handle, names: Sequence[str], *, client_ca: Path | None = None
) -> AsyncIterator[Https]:
    """Serve every path with `handle`, with a certificate for `names` and 127.0.0.1 whose files are in `home`.

    With `client_ca`, clients have to show a certificate of that authority.
    """
    now = datetime.now(UTC)
    authority = make_authority("test", now)
    pair = issue(authority, names[0], list(names), now, ["127.0.0.1"])
    (home / "cert.pem").write_text(pair.certificate)
    (home / "key.pem").write_text(pair.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(home / "cert.pem", home / "key.pem")
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        yield Https(runner.addresses[0][1], authority.certificate)
    finally:
        await runner.cleanup()
