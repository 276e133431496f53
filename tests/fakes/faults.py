"""Faults as values, and a transport in which one of them happens: at one request, or at one event of a watch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias, get_args

import msgspec

from trainshed.client.transport import Response, Stream, Transport, TransportError
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.wire.request import Request

AtCall: TypeAlias = Literal["unsent", "unanswered", "lost", "answer lost", "409", "429", "500"]
"""The operator dies before it sends a request, or before it has the answer; the request or its answer is lost; the
server refuses it."""
AtEvent: TypeAlias = Literal["broken", "ended", "expired", "twice", "late", "dropped"]
"""The watch breaks or ends before an event; its position is too old; the event comes twice, or late with all that
follow it on that watch; it never comes, and a while later the position is too old."""

AT_CALL: tuple[AtCall, ...] = get_args(AtCall)
AT_EVENT: tuple[AtEvent, ...] = get_args(AtEvent)
DEADLY: frozenset[str] = frozenset({"unsent", "unanswered"})

_LATE_SECONDS = 9.0
_DROPPED_SECONDS = 15.0


class Fault(msgspec.Struct, frozen=True):
    """What goes wrong at the `number`th request, or the `number`th event; both count from 1 over all paths."""

    what: AtCall | AtEvent
    number: int

    def __str__(self) -> str:
        return f"{'event' if self.what in AT_EVENT else 'call'} {self.number} {self.what}"


NONE = Fault("500", 0)
"""A world without faults: nothing has the number 0."""


class FaultyTransport:
    """Carries requests to `inner`, and lets one fault happen. Counts what it carries.

    `dead` is set when the process that sends is dead; nothing is carried after that.
    """

    def __init__(self, inner: Transport, fault: Fault = NONE) -> None:
        self._inner = inner
        self._fault = fault
        self.calls = 0
        self.events = 0
        self.dead = asyncio.Event()

    async def request(self, request: Request) -> Response:
        await self._alive()
        self.calls += 1
        what = self._fault.what if self._is_at_call() else None
        if what == "unsent":
            await self._die()
        if what == "lost":
            raise TransportError("request lost by the test")
        if what in ("409", "429", "500"):
            return _refusal(request, what)
        response = await self._inner.request(request)
        if what == "unanswered":
            await self._die()
        if what == "answer lost":
            raise TransportError("answer lost by the test")
        await self._alive()
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        await self._alive()
        self.calls += 1
        if self._is_at_call() and self._fault.what in ("unsent", "lost", "429", "500"):
            if self._fault.what == "unsent":
                await self._die()
            raise TransportError("refused by the test")
        async with self._inner.stream(request) as stream:
            if self._is_at_call() and self._fault.what == "unanswered":
                await self._die()
            yield _FaultyStream(self, stream)

    async def close(self) -> None:
        pass

    def _is_at_call(self) -> bool:
        return self._fault.number == self.calls and self._fault.what in AT_CALL

    async def _alive(self) -> None:
        if self.dead.is_set():
            await asyncio.Event().wait()

    async def _die(self) -> None:
        self.dead.set()
        await self._alive()

    async def disturbed(self, frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the frames of one watch; the fault, if it is at an event of this one, goes with it."""
        loop = asyncio.get_running_loop()
        late = 0.0
        async for frame in frames:
            await self._alive()
            self.events += 1
            if self._fault.number == self.events and self._fault.what in AT_EVENT:
                match self._fault.what:
                    case "broken":
                        raise TransportError("watch broken by the test")
                    case "ended":
                        return
                    case "expired":
                        yield _expiry()
                        return
                    case "twice":
                        yield frame
                    case "late":
                        late = loop.time() + _LATE_SECONDS
                    case "dropped":
                        await asyncio.sleep(_DROPPED_SECONDS)
                        yield _expiry()
                        return
            await asyncio.sleep(max(0.0, late - loop.time()))
            yield frame


class _FaultyStream:
    def __init__(self, transport: FaultyTransport, inner: Stream) -> None:
        self._transport = transport
        self._inner = inner
        self.status = inner.status

    async def chunks(self) -> AsyncIterator[bytes]:
        async for frame in self._transport.disturbed(self._frames()):
            yield frame

    async def _frames(self) -> AsyncIterator[bytes]:
        rest = b""
        async for chunk in self._inner.chunks():
            *whole, rest = (rest + chunk).split(b"\n")
            for frame in whole:
                yield frame + b"\n"

    async def read(self) -> bytes:
        return await self._inner.read()


def _refusal(request: Request, what: str) -> Response:
    """Return what a server says; 409 is AlreadyExists to a POST, Conflict to any other write."""
    code = int(what)
    reasons = {429: "TooManyRequests", 500: "InternalError"}
    reason = reasons.get(code) or ("AlreadyExists" if request.method == "POST" else "Conflict")
    error = ApiError(code, reason, "refused by the test")
    headers = {"retry-after": "1"} if code == 429 else {}
    return Response(code, headers, msgspec.json.encode(error.status()))


def _expiry() -> bytes:
    status = ApiError(410, "Expired", "too old resource version").status()
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
