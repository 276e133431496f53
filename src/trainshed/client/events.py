"""Events about objects, written in the background.

`event()` never blocks and never fails: what it takes is written in order by one task, which retries while
the API is away. A repeated event raises `count` of the one before instead of making a new object; repeats
within `REPEAT_SECONDS` are written together, so a reconcile that reports the same thing each time costs
one write per interval.

The name of an Event is a digest of what it says, so a restarted process continues the same Event.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from trainshed.client.client import Client
from trainshed.client.transport import TransportError
from trainshed.kube.errors import ApiError
from trainshed.kube.resources import EVENTS, Object

log = logging.getLogger(__name__)

NORMAL = "Normal"
WARNING = "Warning"
GATHER_SECONDS = 0.2
"""After a quiet time, the first event waits this long: what it tells of is often the first step of something
that others wait for, whose own requests go first."""
REPEAT_SECONDS = 5.0
REMEMBERED = 2000
"""How many distinct events are remembered for counting repeats, and how many may wait to be written."""
RETRY_SECONDS = 1.0
MAX_MESSAGE = 1024
"""Characters; the API refuses longer messages."""


class _Series(msgspec.Struct, eq=False):
    """One event and how often it happened. `unwritten` occurrences are not in the API yet."""

    event: Object
    count: int = 0
    unwritten: int = 0
    last: str = ""
    queued: bool = False
    written_at: float = float("-inf")


class EventRecorder:
    """Records events as `component`. Call `close` to write what is left."""

    def __init__(self, client: Client, component: str, *, now: Callable[[], float] = time.time) -> None:
        self._client = client
        self._component = component
        self._now = now
        self._series: OrderedDict[str, _Series] = OrderedDict()
        self._queue: deque[_Series] = deque()
        self._arrived = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = asyncio.Event()
        self._closed = False
        self._task: asyncio.Task[None] | None = None
        self.dropped = 0
        """Events given up because too many were waiting."""

    def event(self, obj: Object, type: str, reason: str, message: str) -> None:
        """Record that `reason` happened to `obj`; `type` is Normal or Warning."""
        stamp = datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        message = message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 3] + "..."
        event = _new_event(obj, self._component, type, reason, message, stamp)
        name = event["metadata"]["name"]
        series = self._series.get(name)
        if series is None:
            series = self._series[name] = _Series(event)
            if len(self._series) > REMEMBERED:
                self._forget_oldest()
        self._series.move_to_end(name)
        series.unwritten += 1
        series.last = stamp
        if not series.queued:
            series.queued = True
            loop = asyncio.get_running_loop()
            wait = series.written_at + REPEAT_SECONDS - loop.time()
            if wait > 0 and not self._closing.is_set():
                loop.call_later(wait, self._enqueue, series)
            else:
                self._enqueue(series)

    async def close(self, timeout: float = 2.0) -> None:
        """Write what waits, for at most `timeout` seconds, and stop."""
        self._closing.set()
        for series in self._series.values():
            if series.queued and series not in self._queue:
                self._enqueue(series)
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            log.warning("events not written", extra={"component": self._component, "count": len(self._queue)})
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _enqueue(self, series: _Series) -> None:
        if self._closed or series in self._queue or not series.unwritten:
            return
        self._queue.append(series)
        self._idle.clear()
        self._arrived.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write_all(), name="events")

    def _forget_oldest(self) -> None:
        _, oldest = self._series.popitem(last=False)
        if oldest.queued:
            self.dropped += 1
            if self.dropped == 1:
                log.warning("events dropped: too many wait", extra={"component": self._component})
            oldest.unwritten = 0

    async def _gather(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GATHER_SECONDS):
                await self._closing.wait()

    async def _write_all(self) -> None:
        await self._gather()
        while True:
            while not self._queue:
                self._idle.set()
                self._arrived.clear()
                await self._arrived.wait()
                await self._gather()
            series = self._queue[0]
            try:
                await self._write(series)
            except TransportError:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            except ApiError as error:
                if error.code in (429, 500, 503, 504):
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                # Its namespace is gone, say. An event is not worth more than a line in the log.
                log.info("event refused", extra={"component": self._component, "error": str(error)})
                series.unwritten = 0
            self._queue.popleft()
            loop = asyncio.get_running_loop()
            series.written_at = loop.time()
            series.queued = series.unwritten > 0
            if series.queued:  # repeated while it was being written
                loop.call_later(0 if self._closing.is_set() else REPEAT_SECONDS, self._enqueue, series)

    async def _write(self, series: _Series) -> None:
        """Create the Event, or raise the count of the one that exists."""
        metadata = series.event["metadata"]
        occurrences = series.unwritten
        if not occurrences:
            return
        if series.count == 0:
            event = {**series.event, "count": occurrences, "lastTimestamp": series.last}
            try:
                await self._client.create(EVENTS, event)
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
                # Written by an earlier process: go on counting from there.
                found = await self._client.get(EVENTS, metadata["name"], metadata["namespace"])
                series.count = int(found.get("count") or 1)
            else:
                series.count = occurrences
                series.unwritten -= occurrences
                return
        patch = {"count": series.count + occurrences, "lastTimestamp": series.last}
        try:
            await self._client.patch(EVENTS, metadata["name"], metadata["namespace"], patch)
        except ApiError as error:
            if error.code != 404:
                raise
            series.count = 0  # the Event has expired: start a new one
            await self._write(series)
            return
        series.count += occurrences
        series.unwritten -= occurrences


def _new_event(obj: Object, component: str, type: str, reason: str, message: str, stamp: str) -> Object:
    metadata = obj["metadata"]
    # Events about cluster-scoped objects live in `default`, as in client-go's recorder.
    namespace = metadata.get("namespace") or "default"
    parts = (component, metadata.get("uid", ""), type, reason, message)
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()
    involved = {
        "apiVersion": obj.get("apiVersion", ""),
        "kind": obj.get("kind", ""),
        "name": metadata["name"],
        "namespace": metadata.get("namespace"),
        "uid": metadata.get("uid"),
        "resourceVersion": metadata.get("resourceVersion"),
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{metadata['name'][:230]}.{digest}", "namespace": namespace},
        "involvedObject": {key: value for key, value in involved.items() if value},
        "type": type,
        "reason": reason,
        "message": message,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": "",
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
