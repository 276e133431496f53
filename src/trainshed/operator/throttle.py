"""A limit on requests per second, as client-go has it: one token bucket for all requests of a process."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

from trainshed.client.transport import Response, Stream, Transport
from trainshed.kube.wire.request import Request


class ThrottledTransport:
    """Sends through `transport` at most `qps` requests per second, after a first `burst`.

    Callers are served in order of arrival. `qps` of 0 or less means no limit.
    """

    def __init__(self, transport: Transport, *, qps: float, burst: int) -> None:
        self._transport = transport
        self._qps = qps
        self._burst = max(1, burst)
        self._free_at = float("-inf")

    async def request(self, request: Request) -> Response:
        await self._turn()
        return await self._transport.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Streams are few and long: they take no token and never wait behind a burst of creates."""
        return self._transport.stream(request)

    async def close(self) -> None:
        await self._transport.close()

    async def _turn(self) -> None:
        """Reserve the next free slot, then wait for it: reservations keep the order of arrival."""
        if self._qps <= 0:
            return
        now = asyncio.get_running_loop().time()
        full_since = now - self._burst / self._qps
        self._free_at = max(self._free_at, full_since) + 1 / self._qps
        if self._free_at > now:
            await asyncio.sleep(self._free_at - now)
