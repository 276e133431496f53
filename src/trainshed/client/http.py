"""Requests over HTTPS, with pooled connections.

The only module that imports aiohttp; import it only where a connection to a remote server is made.
"""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote
from weakref import WeakSet

import msgspec
from yarl import URL

from trainshed._packages import without
from trainshed.client.authorities import read_later
from trainshed.client.credentials import Credentials
from trainshed.client.transport import Response, TransportError
from trainshed.kube.wire.request import Request

with (
    read_later(),
    without("frozenlist._frozenlist"),
):  # in C++, whose library is a MiB; for lists of a few callbacks
    import aiohttp

CONNECT_SECONDS = 10.0
REQUEST_SECONDS = 60.0
"""A request without a whole answer by then is lost. Streams have no such limit."""
CLOSE_SECONDS = 1.0
"""How long closing waits for connections: they need a few turns of the loop, where the server is there or not."""
CONNECTIONS = 100
IDLE_SECONDS = 4.0
"""Shorter than any server's patience (uvicorn waits 5 s): a POST on a connection that the server has just
closed cannot be repeated safely, so it must not happen."""
TLS_BUFFER_BYTES = 16 * 1024
"""What asyncio reads from a TLS connection at a time, and holds for each: a watch has one of its own, and the usual
256 KiB are zeroed, so that they take their room from the first byte. A TLS record is 16 KiB at most, and an answer of
60 MiB costs 0.1 s more than by 64 KiB."""
_FAILURES = (aiohttp.ClientError, OSError, TimeoutError, ssl.SSLError)

asyncio.sslproto.SSLProtocol.max_size = TLS_BUFFER_BYTES


class Tls(msgspec.Struct, frozen=True):
    """Whom a connection trusts and as whom it comes. Certificates and keys are PEM texts.

    Attributes:
        ca: the authorities that may sign the server's certificate; None for the system's.
        client_cert, client_key: a client certificate and its key, both or none.
        server_name: name to verify the certificate against instead of the URL's host.
        insecure: accept any certificate. For `insecure-skip-tls-verify` in a kubeconfig only.
    """

    ca: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    server_name: str | None = None
    insecure: bool = False

    def context(self) -> ssl.SSLContext:
        """Return what connections are made with."""
        context = ssl.create_default_context(cadata=self.ca)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.client_cert is not None and self.client_key is not None:
            load_pem_pair(context, self.client_cert, self.client_key)
        return context


class HttpTransport:
    """Sends requests to `base_url`. Satisfies `client.transport.Transport`.

    `credentials` give the Authorization header; `proxy` is the URL of an HTTP proxy.
    """

    def __init__(
        self,
        base_url: str,
        *,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
        proxy: str | None = None,
        user_agent: str = "trainshed",
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._credentials = credentials
        tls = tls or Tls()
        self._ssl = tls.context() if self.base_url.startswith("https:") else True
        self._server_name = tls.server_name
        self._proxy = proxy
        self._user_agent = user_agent
        self._session: aiohttp.ClientSession | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=CONNECT_SECONDS)
        self._stream_timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)

    async def request(self, request: Request) -> Response:
        """Return the whole response. After a 401 the credentials are renewed and the request sent again."""
        response = await self._once(request)
        if response.status == 401 and self._credentials is not None and await self._credentials.renew():
            response = await self._once(request)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[_HttpStream]:
        """Yield the response as soon as its headers are here; leaving the block closes the connection."""
        response = await self._open_stream(request)
        if response.status == 401 and self._credentials is not None and await self._credentials.renew():
            response.close()
            response = await self._open_stream(request)
        try:
            yield _HttpStream(response)
        finally:
            response.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
            await self._until_closed()

    async def _until_closed(self) -> None:
        """Return when the last connection is closed: aiohttp waits only for those that no request had.

        A loop that ends before says so of each (`ResourceWarning: unclosed transport`).
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + CLOSE_SECONDS
        while any(sock.fileno() >= 0 for sock in self._sockets) and loop.time() < until:  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0)

    async def _once(self, request: Request) -> Response:
        try:
            async with await self._send(request, self._timeout) as answer:
                return Response(
                    answer.status,
                    {name.lower(): value for name, value in answer.headers.items()},
                    await answer.read(),
                    tuple(answer.headers.getall("Warning", ())),
                )
        except _FAILURES as error:
            raise self._lost(error) from error

    async def _open_stream(self, request: Request) -> aiohttp.ClientResponse:
        try:
            response = await self._send(request, self._stream_timeout)
        except _FAILURES as error:
            raise self._lost(error) from error
        if response.connection is not None and response.connection.transport is not None:
            _keep_alive(response.connection.transport)
        return response

    async def _send(self, request: Request, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        headers = {"Accept": request.accept}
        if request.content_type is not None:
            headers["Content-Type"] = request.content_type
        headers |= dict(request.headers)
        return await self._open().request(
            request.method,
            self._url(request),
            data=request.body,
            headers=await self._authorized(headers),
            timeout=timeout,
            allow_redirects=False,
            **self._options(),
        )

    def _open(self) -> aiohttp.ClientSession:
        """The session binds to the running loop, so it is made at the first request."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    ssl=self._ssl,
                    limit=CONNECTIONS,
                    keepalive_timeout=IDLE_SECONDS,
                    ttl_dns_cache=30,
                    socket_factory=self._socket,
                ),
                headers={"User-Agent": self._user_agent},
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("Content-Type",),
                read_bufsize=1 << 18,
            )
        return self._session

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:
        """Return a socket for an address as `getaddrinfo` gives it."""
        family, kind, protocol = address[:3]
        sock = socket.socket(family, kind, protocol)
        self._sockets.add(sock)
        return sock

    def _url(self, request: Request) -> URL:
        text = self.base_url + quote(request.path, safe="/:@")
        return URL(f"{text}?{request.query_string}" if request.query else text, encoded=True)

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if self._server_name is not None:
            options["server_hostname"] = self._server_name
        if self._proxy is not None:
            options["proxy"] = self._proxy
        return options

    async def _authorized(self, headers: dict[str, str]) -> dict[str, str]:
        if self._credentials is not None and (value := await self._credentials.authorization()):
            return {**headers, "Authorization": value}
        return headers

    def _lost(self, error: BaseException) -> TransportError:
        return TransportError(f"{self.base_url}: {error or type(error).__name__}")


class _HttpStream:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except _FAILURES as error:
            raise TransportError(f"stream broken: {error or type(error).__name__}") from error

    async def read(self) -> bytes:
        try:
            return await self._response.read()
        except _FAILURES as error:
            raise TransportError(f"stream broken: {error or type(error).__name__}") from error


def load_pem_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load a certificate that is not in a file. OpenSSL reads files only: a private one, gone at once."""
    with tempfile.NamedTemporaryFile("w", prefix="trainshed-", suffix=".pem") as file:
        file.write(certificate.rstrip() + "\n" + key)
        file.flush()
        context.load_cert_chain(file.name)


def _keep_alive(transport: asyncio.BaseTransport) -> None:
    """Notice a dead peer on an idle watch within about a minute: no byte may come for hours."""
    sock = transport.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
