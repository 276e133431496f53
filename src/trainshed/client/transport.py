"""What carries requests to an API server.

Two implementations: HTTPS (`client.http`) for every remote server, and a direct ASGI call
(`client.asgi`) for the controllers that live in the API server's own process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from trainshed.kube.wire.request import Request


class Response(msgspec.Struct, frozen=True):
    """A whole response. `headers` has lower-case names; `Warning` headers come one per entry of `warnings`."""

    status: int
    headers: dict[str, str]
    body: bytes
    warnings: tuple[str, ...] = ()


class Stream(Protocol):
    """A response whose body is still arriving."""

    status: int

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body in pieces as they arrive; ends when the server closes."""
        ...

    async def read(self) -> bytes:
        """Return the rest of the body at once (an error's Status, say)."""
        ...


class Transport(Protocol):
    """Sends one request. Never raises for an HTTP status; raises `TransportError` when no answer came."""

    async def request(self, request: Request) -> Response: ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]: ...

    async def close(self) -> None: ...


class TransportError(Exception):
    """No answer from the server: connection refused, reset, TLS failure. Retry later."""
