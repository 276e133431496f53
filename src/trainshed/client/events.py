"""Events about objects, written in the background.

`event()` never blocks and never fails: what it takes is written in order by one task, which retries while
the API is away. A repeated event raises `count` of the one before instead of making a new object; repeats
within `REPEAT_SECONDS` are written together, so a reconcile that reports the same thing each time costs
one write per interval. Of events that differ only by their message, the tenth and further ones become one,
`(combined from similar events): …`, with the message of the last.

An Event is named after its object and the time, as client-go's are: sorted by name, the events of an object are in
their order, even those of one second. A restarted process continues the Events of the one before: it looks for
them, once per object that is older than itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from trainshed.client.client import Client, ObjectList
from trainshed.client.transport import TransportError
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.resources import EVENTS
from trainshed.kube.meta.sparse import give_back
from trainshed.kube.meta.times import format_time

log = logging.getLogger(__name__)

WARNING = "Warning"
GATHER_SECONDS = 0.4
"""After a quiet time, the first event waits this long: what it tells of is often the first step of something
that others wait for, whose own requests go first. By then most jobs run."""
REPEAT_SECONDS = 5.0
REMEMBERED = 2000
"""How many distinct events are remembered for counting repeats, and how many may wait to be written."""
SIMILAR = 10
"""From how many messages on, of one type and reason about one object, further ones are combined in one Event."""
SIMILAR_SECONDS = 600.0
"""They count for as long as no pause between two of them is longer."""
COMBINED = "(combined from similar events): "
RETRY_SECONDS = 1.0
MAX_MESSAGE = 1024
"""Characters; the API refuses longer messages."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Object).decode

Identity = tuple[str, str, str, str]
"""What makes two occurrences one event: the object's uid (or name), type, reason and message."""


class _Series(msgspec.Struct, eq=False):
    """One event and how often it happened. `unwritten` occurrences are not in the API yet.

    Thousands are remembered, and few of them looked at again: `encoded` is the event's JSON, until it is written.
    """

    identity: Identity
    name: str
    encoded: bytes = b""
    count: int = 0
    unwritten: int = 0
    last: str = ""
    queued: bool = False
    written_at: float = float("-inf")
    combined: bool = False
    """Whether it stands for events that differ in their messages: it has that of the last one."""
    is_new: bool = False
    """Whether no earlier process can have written it: its object is younger than this one."""

    @property
    def event(self) -> Object:
        """The event as it is created; a new document each time."""
        return _decode(self.encoded)

    def tell(self, event: Object) -> None:
        """Go on with another event."""
        self.name, self.encoded = event["metadata"]["name"], _encode(event)

    def wrote(self, occurrences: int) -> None:
        """Note that so many occurrences are in the API. The next one brings what the event says."""
        self.unwritten -= occurrences
        if not self.unwritten:
            self.encoded, self.last = b"", ""


class EventRecorder:
    """Records events as `component`. Call `close` to write what is left."""

    def __init__(self, client: Client, component: str, *, now: Callable[[], float] = time.time) -> None:
        self._client = client
        self._component = component
        self._now = now
        self._started = format_time(now())
        self._last_name = 0
        self._series: OrderedDict[Identity, _Series] = OrderedDict()
        self._similar: OrderedDict[int, tuple[float, int]] = OrderedDict()
        """How many messages there were of an object's uid, type and reason, and when the last one came."""
        self._earlier: OrderedDict[str, dict[Identity, Object]] = OrderedDict()
        """Events of earlier processes, by the object's uid."""
        self._queue: OrderedDict[_Series, None] = OrderedDict()
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
        now = self._now()
        message = message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 3] + "..."
        # Interned: of thousands of objects the same is said.
        identity = (obj["metadata"].get("uid") or obj["metadata"]["name"], type, reason, sys.intern(message))
        combined = self._are_many(identity, now)
        if combined:
            message = f"{COMBINED}{message}"[:MAX_MESSAGE]
            identity = (*identity[:3], COMBINED)
        series = self._series.get(identity)
        if series is None:
            self._last_name = max(self._last_name + 1, int(now * 1e9))
            name = f"{obj['metadata']['name'][:230]}.{self._last_name:016x}"
            series = self._series[identity] = _Series(identity, name)
            series.combined = combined
            series.is_new = (obj["metadata"].get("creationTimestamp") or "") > self._started
            if len(self._series) > REMEMBERED:
                self._forget_oldest()
        self._series.move_to_end(identity)
        if not series.encoded:
            series.tell(_new_event(obj, self._component, identity, series.name, format_time(now)))
        if combined:
            # As client-go's, which name no controller.
            series.tell({**series.event, "message": message, "reportingComponent": ""})
        series.unwritten += 1
        series.last = format_time(now)
        if not series.queued:
            series.queued = True
            loop = asyncio.get_running_loop()
            wait = series.written_at + REPEAT_SECONDS - loop.time()
            if wait > 0 and not self._closing.is_set():
                loop.call_later(wait, self._enqueue, series)
            else:
                self._enqueue(series)

    def _are_many(self, identity: Identity, now: float) -> bool:
        """Return whether so many events that differ by their message alone came that this one joins them.

        As in client-go (`record.EventAggregator`): a message that was there before goes on as it was.
        """
        key = hash(identity[:3])
        last, count = self._similar.pop(key, (0.0, 0))
        if now - last > SIMILAR_SECONDS:
            count = 0
        is_known = count > 0 and identity in self._series
        if not is_known:
            count = min(count + 1, SIMILAR)
        self._similar[key] = now, count
        if len(self._similar) > REMEMBERED:
            self._similar.popitem(last=False)
        return count >= SIMILAR and not is_known

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
        self._queue[series] = None
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
            series = next(iter(self._queue))
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
                series.wrote(series.unwritten)
            del self._queue[series]
            give_back(self._queue)
            loop = asyncio.get_running_loop()
            series.written_at = loop.time()
            series.queued = series.unwritten > 0
            if series.queued:  # repeated while it was being written
                loop.call_later(0 if self._closing.is_set() else REPEAT_SECONDS, self._enqueue, series)

    async def _write(self, series: _Series) -> None:
        """Create the Event, or raise the count of the one that exists."""
        occurrences = series.unwritten
        if not occurrences:
            return
        if series.count == 0 and not series.is_new:
            await self._continue(series)
        if series.count == 0:
            await self._create(series)
            return
        metadata = series.event["metadata"]
        patch = {"count": series.count + occurrences, "lastTimestamp": series.last}
        if series.combined:
            patch["message"] = series.event["message"]
        try:
            await self._client.patch(EVENTS, metadata["name"], metadata["namespace"], patch)
        except ApiError as error:
            if error.code != 404:
                raise
            # The Event has expired: start a new one.
            series.tell({**series.event, "firstTimestamp": series.last})
            series.count, series.is_new = 0, True
            await self._create(series)
            return
        series.count += occurrences
        series.wrote(occurrences)

    async def _create(self, series: _Series) -> None:
        occurrences = series.unwritten
        event = {**series.event, "count": occurrences, "lastTimestamp": series.last}
        try:
            await self._client.create(EVENTS, event)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            metadata = event["metadata"]
            found = await self._client.get(EVENTS, metadata["name"], metadata["namespace"])
            if _identity(found) != series.identity:
                # Another component told of the object at the same time.
                series.tell({**event, "metadata": {**metadata, "name": metadata["name"] + "0"}})
                await self._create(series)
                return
            # The answer to an earlier attempt was lost.
            occurrences = min(occurrences, int(found.get("count") or 1))
        series.count = occurrences
        series.wrote(occurrences)

    async def _continue(self, series: _Series) -> None:
        """Go on with the same event of an earlier process, when there is one."""
        uid = series.identity[0]
        if uid not in self._earlier:
            try:
                found = await self._client.list(
                    EVENTS, series.event["metadata"]["namespace"], field_selector=f"involvedObject.uid={uid}"
                )
            except ApiError as error:
                if error.code != 403:
                    raise
                found = ObjectList([], "")  # not allowed to look: repeats then start anew
            self._earlier[uid] = {
                _identity(event): event
                for event in found.items
                if section(event, "source").get("component") == self._component
            }
            if len(self._earlier) > REMEMBERED:
                self._earlier.popitem(last=False)
        if (earlier := self._earlier[uid].pop(series.identity, None)) is not None:
            metadata = {key: earlier["metadata"][key] for key in ("name", "namespace")}
            series.tell({**series.event, "metadata": metadata})
            series.count = int(earlier.get("count") or 1)


def _identity(event: Object) -> Identity:
    involved = section(event, "involvedObject")
    message = event.get("message", "")
    uid = involved.get("uid") or involved.get("name", "")
    said = COMBINED if message.startswith(COMBINED) else message
    return uid, event.get("type", ""), event.get("reason", ""), said


def _new_event(obj: Object, component: str, identity: Identity, name: str, stamp: str) -> Object:
    metadata = obj["metadata"]
    # Events about cluster-scoped objects live in `default`, as in client-go's recorder.
    namespace = metadata.get("namespace") or "default"
    _, type, reason, message = identity
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
        "metadata": {"name": name, "namespace": namespace},
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
