"""Requests to an ASGI application in the same process: no sockets, no TLS, no copying of JSON over a pipe.

The controllers, scheduler and node of the embedded cluster live in the API server's process and talk to
it through this transport. They are ordinary clients: they get the same validation, the same statuses and
the same watch frames as kubectl.

Who is asking is said in the connection scope, `scope["extensions"]["trainshed.user"]`. A network peer
cannot write there, so the server may trust it.

Cancellation is what a closed socket would be: the application's `receive()` yields `http.disconnect` and
its task is left to finish. It is cancelled only if it ignores the disconnect for `GRACE_SECONDS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from trainshed.client.transport import Response, TransportError
from trainshed.kube.wire.asgi import Application, Message, Scope
from trainshed.kube.wire.request import Request

USER_EXTENSION = "trainshed.user"
GRACE_SECONDS = 5.0
STREAM_CHUNKS = 256
"""How many body chunks may wait for a slow reader before `send()` blocks the application."""


class AsgiTransport:
    """Calls `app` directly, as `user` with `groups`. Satisfies `client.transport.Transport`."""

    def __init__(
        self, app: Application, user: str, groups: Sequence[str] = (), *, user_agent: str = "trainshed"
    ) -> None:
        self._app = app
        self._user = {"username": user, "groups": list(groups)}
        self._user_agent = user_agent.encode()
        self._running: set[asyncio.Task[None]] = set()

    async def request(self, request: Request) -> Response:
        """Return the application's whole response; TransportError when it crashed before answering."""
        exchange = _Exchange(request.body or b"", maximum=0)
        task = self._start(exchange, request)
        try:
            await exchange.started(task)
            chunks = [chunk async for chunk in exchange.chunks(task)]
        finally:
            exchange.disconnect()
        headers: dict[str, str] = {}
        warnings: list[str] = []
        for name, value in exchange.headers:
            key, text = name.decode("latin-1").lower(), value.decode("utf-8", "replace")
            if key == "warning":
                warnings.append(text)
            else:
                headers[key] = text
        return Response(exchange.status, headers, b"".join(chunks), tuple(warnings))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[_AsgiStream]:
        """Yield the response as soon as it starts; leaving the block disconnects."""
        exchange = _Exchange(request.body or b"", maximum=STREAM_CHUNKS)
        task = self._start(exchange, request)
        try:
            await exchange.started(task)
            yield _AsgiStream(exchange, task)
        finally:
            exchange.disconnect()
            if not task.done():
                asyncio.get_running_loop().call_later(GRACE_SECONDS, task.cancel)

    async def close(self) -> None:
        """Cancel what is still running."""
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _start(self, exchange: _Exchange, request: Request) -> asyncio.Task[None]:
        headers = [
            (b"host", b"kubernetes"),
            (b"accept", request.accept.encode()),
            (b"user-agent", self._user_agent),
        ]
        if request.body is not None:
            headers.append((b"content-length", str(len(request.body)).encode()))
        if request.content_type is not None:
            headers.append((b"content-type", request.content_type.encode()))
        headers += [(name.lower().encode(), value.encode()) for name, value in request.headers]
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "https",
            "path": request.path,
            "query_string": request.query_string.encode(),
            "root_path": "",
            "headers": headers,
            "client": ("127.0.0.1", 0),
            "server": ("127.0.0.1", 443),
            "extensions": {USER_EXTENSION: self._user},
        }
        task = asyncio.ensure_future(_run(self._app, scope, exchange))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task


async def _run(app: Application, scope: Scope, exchange: _Exchange) -> None:
    """Run the application; whatever it raises becomes the end of the exchange, not a lost task error."""
    try:
        await app(scope, exchange.receive, exchange.send)
    except Exception as error:
        exchange.failure = error
    finally:
        exchange.finish()


class _Exchange:
    """The two ends of one request: the application's receive/send and the client's reading side.

    `maximum` bounds the chunks in flight; zero means unbounded (the client wants the whole body anyway).
    """

    def __init__(self, body: bytes, *, maximum: int) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.failure: Exception | None = None
        self._body: bytes | None = body
        self._maximum = maximum
        self._chunks: list[bytes] = []
        self._finished = False
        self._disconnected = asyncio.Event()
        self._started = asyncio.Event()
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    async def receive(self) -> Message:
        """Application side: the body once, then wait for the client to hang up."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Application side: raises OSError once the client is gone, as ASGI 2.4 asks."""
        if self._disconnected.is_set():
            raise ConnectionResetError("client disconnected")
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
            self._started.set()
        elif message["type"] == "http.response.body":
            if chunk := message.get("body", b""):
                while self._maximum and len(self._chunks) >= self._maximum:
                    self._writable.clear()
                    await self._writable.wait()
                    if self._disconnected.is_set():
                        raise ConnectionResetError("client disconnected")
                self._chunks.append(chunk)
                self._readable.set()
            if not message.get("more_body", False):
                self.finish()

    def finish(self) -> None:
        """The response is complete, or the application ended without completing it."""
        self._finished = True
        self._started.set()
        self._readable.set()

    def disconnect(self) -> None:
        """Client side: hang up."""
        self._disconnected.set()
        self._writable.set()

    async def started(self, task: asyncio.Task[None]) -> None:
        """Return when the status is known."""
        await self._started.wait()
        if not self.status:
            raise TransportError(f"no response from the API server: {self._why(task)}") from self.failure

    async def chunks(self, task: asyncio.Task[None]) -> AsyncIterator[bytes]:
        """Yield chunks, everything that waits joined into one."""
        while True:
            await self._readable.wait()
            self._readable.clear()
            waiting, self._chunks = self._chunks, []
            self._writable.set()
            if waiting:
                yield waiting[0] if len(waiting) == 1 else b"".join(waiting)
            if self._finished and not self._chunks:
                break
        if self.failure is not None:
            raise TransportError(f"response cut short: {self._why(task)}") from self.failure

    def _why(self, task: asyncio.Task[None]) -> str:
        return repr(self.failure) if self.failure else "cancelled" if task.cancelled() else "no answer"


class _AsgiStream:
    def __init__(self, exchange: _Exchange, task: asyncio.Task[None]) -> None:
        self._exchange = exchange
        self._task = task
        self.status = exchange.status

    def chunks(self) -> AsyncIterator[bytes]:
        return self._exchange.chunks(self._task)

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self._exchange.chunks(self._task)])
