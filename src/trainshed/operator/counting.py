"""Counts what is asked of the API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from trainshed.client.transport import Response, Stream, Transport, TransportError
from trainshed.kube.wire.request import Request

NO_ANSWER = "<error>"
"""Stands for the status of a request that got none, as in client-go."""


class CountedTransport:
    """Sends through `transport` and tells `count` the method and the status of each request."""

    def __init__(self, transport: Transport, count: Callable[[str, str], None]) -> None:
        self._transport = transport
        self._count = count

    async def request(self, request: Request) -> Response:
        try:
            response = await self._transport.request(request)
        except TransportError:
            self._count(request.method, NO_ANSWER)
            raise
        self._count(request.method, str(response.status))
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Streams count once, when they begin."""
        return self._counted(request)

    async def close(self) -> None:
        await self._transport.close()

    @asynccontextmanager
    async def _counted(self, request: Request) -> AsyncIterator[Stream]:
        begun = False
        try:
            async with self._transport.stream(request) as stream:
                begun = True
                self._count(request.method, str(stream.status))
                yield stream
        except TransportError:
            if not begun:
                self._count(request.method, NO_ANSWER)
            raise
