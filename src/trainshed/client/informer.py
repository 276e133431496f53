"""A local mirror of a resource, kept by list and watch.

          ┌────────────── 410, or the server's history restarted ─────────────┐
          ▼                                                                   │
    LISTING ──listed──► WATCHING ──closed / failed──► WAITING ──(backoff)──► WATCHING from the last
          ▲   failed                                     │                    resourceVersion seen
          └──────────────◄── never listed ───────────────┘

Guarantees: handlers see each change of an object once, in order, with the state before and after it; a
disconnection loses nothing, because the watch resumes after the last event or bookmark; a relist reports
the difference to the mirror. What came and went entirely between a 410 and the relist is not seen:
handlers must be level-triggered.

Handlers run in the informer's task before the next event is read: they must be quick and not block.
Objects handed out are shared with the mirror: never mutate them.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import random
import sys
from collections.abc import Callable, Iterable, MutableMapping
from contextlib import aclosing
from typing import TypeAlias

from trainshed.client.client import Client
from trainshed.client.compact import CompactObjects
from trainshed.client.transport import TransportError
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, namespace_of
from trainshed.kube.meta.ownership import controller_of
from trainshed.kube.meta.resources import Resource
from trainshed.kube.meta.sparse import give_back
from trainshed.kube.wire.watchframe import WatchEvent

log = logging.getLogger(__name__)

Key: TypeAlias = tuple[str, str]
"""(namespace, name); the namespace of a cluster-scoped object is empty."""
Handler: TypeAlias = Callable[[str, Object | None, Object], None]
"""Called as (type, old, new). ADDED has no old; for DELETED, `new` is the last state known."""

PAGE_SIZE = 500
FIRST_BACKOFF_SECONDS = 0.05
MAX_BACKOFF_SECONDS = 5.0
WATCH_SECONDS = 300
"""Asked of the server as `timeoutSeconds`, up to twice as long at random so that many clients spread."""
WATCH_MARGIN_SECONDS = 30
"""A server silent for this long after its own timeout is dead."""
EVENTS_PER_TURN = 200


def key_of(obj: Object) -> Key:
    """Return where an object is."""
    metadata = obj["metadata"]
    # Interned: of a namespace there may be thousands of keys.
    return sys.intern(metadata.get("namespace") or ""), metadata["name"]


def controlled_by(resource: Resource) -> Callable[[Object], list[Key]]:
    """Return what tells where the controller of an object is: nowhere, unless it is of `resource`."""

    def keys(obj: Object) -> list[Key]:
        owner = controller_of(obj)
        if owner is None or (owner["apiVersion"], owner["kind"]) != (resource.api_version, resource.kind):
            return []
        return [(namespace_of(obj), str(owner["name"]))]

    return keys


class State(enum.Enum):
    """What the informer is doing; see the module."""

    NEW = "new"
    LISTING = "listing"
    WATCHING = "watching"
    WAITING = "waiting"
    STOPPED = "stopped"


class Index:
    """Objects grouped by what `function` returns for them: any number of strings."""

    def __init__(
        self, function: Callable[[Object], Iterable[str]], objects: MutableMapping[Key, Object]
    ) -> None:
        self._function = function
        self._objects = objects
        self._groups: dict[str, dict[Key, None]] = {}

    def get(self, value: str) -> list[Object]:
        """Return the objects in group `value`, oldest entry first."""
        return [self._objects[key] for key in self._groups.get(value, ())]

    def count(self, value: str) -> int:
        """Return how many objects are in group `value`."""
        return len(self._groups.get(value, ()))

    def replace(self, key: Key, old: Object | None, new: Object | None) -> None:
        """Follow one change of the mirror."""
        before = set(self._function(old)) if old is not None else set()
        after = set(self._function(new)) if new is not None else set()
        for value in before - after:
            group = self._groups[value]
            del group[key]
            if not group:
                del self._groups[value]
                give_back(self._groups)
        if new is not None:
            for value in after:
                self._groups.setdefault(value, {})[key] = None


class Informer:
    """Mirrors what the selectors match; see the module."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        compact: bool = False,
    ) -> None:
        """`compact` is for resources of which there may be very many."""
        self.resource = resource
        self.state = State.NEW
        self.resource_version = ""
        """Where the next watch starts; empty before the first list."""
        self._client = client
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._objects: MutableMapping[Key, Object] = CompactObjects() if compact else {}
        self._handlers: list[Handler] = []
        self._indexes: list[Index] = []
        self._synced = asyncio.Event()
        self._failures = 0

    @property
    def failures(self) -> int:
        """How many attempts to list or watch have failed in a row."""
        return self._failures

    @property
    def synced(self) -> bool:
        """Whether the first list is in the mirror."""
        return self._synced.is_set()

    def add_handler(self, handler: Handler) -> None:
        """Call `handler` for every change from now on; objects already mirrored are replayed as ADDED."""
        self._handlers.append(handler)
        for obj in list(self._objects.values()):
            self._call(handler, "ADDED", None, obj)

    def index(self, function: Callable[[Object], Iterable[str]]) -> Index:
        """Return an index by `function`, kept up to date before handlers are called."""
        index = Index(function, self._objects)
        for key, obj in self._objects.items():
            index.replace(key, None, obj)
        self._indexes.append(index)
        return index

    def get(self, namespace: str, name: str) -> Object | None:
        """Return the mirrored object."""
        return self._objects.get((namespace, name))

    def items(self) -> list[Object]:
        """Return all mirrored objects, oldest entry first."""
        return list(self._objects.values())

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Return once the first list is in; TimeoutError after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._synced.wait()
        except TimeoutError:
            raise TimeoutError(f"{self.resource.group_resource}: no list after {timeout} s") from None

    async def run(self) -> None:
        """Mirror until cancelled. Failures of the server never end it."""
        try:
            while True:
                await self._step()
        finally:
            self.state = State.STOPPED

    async def _step(self) -> None:
        """One transition: list if there is nowhere to resume from, watch otherwise, wait after failures."""
        try:
            if not self.resource_version:
                self.state = State.LISTING
                await self._list()
            self.state = State.WATCHING
            opened = asyncio.get_running_loop().time()
            events = await self._watch()
            # A server that closes at once every time must not be asked in a busy loop.
            lasted = asyncio.get_running_loop().time() - opened
            self._failures = 0 if events or lasted > MAX_BACKOFF_SECONDS else self._failures + 1
            if self._failures > 1:
                await self._wait()
        except ApiError as error:
            # 410: our position is too old. 504: it is in the server's future; its history restarted.
            if error.code in (410, 504) and self.resource_version:
                log.info("relist", extra=self._about(error=str(error)))
                self.resource_version = ""
                if self._failures == 0:
                    self._failures = 1
                    return
            await self._failed(error)
        except (TransportError, TimeoutError) as error:
            await self._failed(error)
        except Exception as error:
            # A frame that is not JSON, an object without a name: do not ask for the same frame again.
            log.exception("unusable answer", extra=self._about())
            self.resource_version = ""
            await self._failed(error)

    async def _failed(self, error: Exception) -> None:
        self._failures += 1
        log.log(
            logging.WARNING if self._failures == 3 or self._failures % 60 == 0 else logging.DEBUG,
            "list-watch failed",
            extra=self._about(error=str(error) or type(error).__name__, failures=self._failures),
        )
        await self._wait()

    async def _wait(self) -> None:
        self.state = State.WAITING
        delay = min(FIRST_BACKOFF_SECONDS * 2 ** min(self._failures - 1, 16), MAX_BACKOFF_SECONDS)
        await asyncio.sleep(delay * random.uniform(0.8, 1.2))  # noqa: S311 - spread, not a secret

    async def _list(self) -> None:
        """Fetch all pages of one snapshot and report the difference to the mirror."""
        listed: dict[Key, Object] = {}
        token = ""
        while True:
            page = await self._client.list(
                self.resource,
                self._namespace,
                label_selector=self._label_selector,
                field_selector=self._field_selector,
                limit=PAGE_SIZE,
                continue_token=token,
            )
            for obj in page.items:
                listed[key_of(obj)] = obj
            token = page.continue_token
            if not token:
                break
        for key in [key for key in self._objects if key not in listed]:
            self._remove(key, None)
        for key, obj in listed.items():
            self._store(key, obj)
        self.resource_version = page.resource_version
        self._synced.set()

    async def _watch(self) -> int:
        """Follow one connection to its end; return how many frames it brought."""
        seconds = random.randint(WATCH_SECONDS, 2 * WATCH_SECONDS)  # noqa: S311 - spread, not a secret
        count = 0
        watch = self._client.watch(
            self.resource,
            self._namespace,
            resource_version=self.resource_version,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            timeout_seconds=seconds,
        )
        async with asyncio.timeout(seconds + WATCH_MARGIN_SECONDS), aclosing(watch) as events:
            async for event in events:
                self._take(event)
                count += 1
                self._failures = 0
                if count % EVENTS_PER_TURN == 0:
                    await asyncio.sleep(0)  # a flood of events must not starve the rest of the process
        return count

    def _take(self, event: WatchEvent) -> None:
        if event.type in ("ADDED", "MODIFIED"):
            self._store(key_of(event.object), event.object)
        elif event.type == "DELETED":
            self._remove(key_of(event.object), event.object)
        if event.resource_version:
            self.resource_version = event.resource_version

    def _store(self, key: Key, new: Object) -> None:
        # Nobody here reads the field managers, which are a third of a typical object. A PUT without them
        # leaves the server's.
        new["metadata"].pop("managedFields", None)
        old = self._objects.get(key)
        if old is not None and old["metadata"].get("uid") != new["metadata"].get("uid"):
            self._remove(key, None)  # another object has taken the name
            old = None
        if old is not None and old["metadata"].get("resourceVersion") == new["metadata"].get(
            "resourceVersion"
        ):
            return
        self._objects[key] = new
        self._tell("ADDED" if old is None else "MODIFIED", key, old, new)

    def _remove(self, key: Key, final: Object | None) -> None:
        old = self._objects.pop(key, None)
        if isinstance(self._objects, dict):
            give_back(self._objects)
        if old is not None:
            self._tell("DELETED", key, old, final if final is not None else old)

    def _tell(self, kind: str, key: Key, old: Object | None, new: Object) -> None:
        for index in self._indexes:
            index.replace(key, old, None if kind == "DELETED" else new)
        for handler in self._handlers:
            self._call(handler, kind, old, new)

    def _call(self, handler: Handler, kind: str, old: Object | None, new: Object) -> None:
        try:
            handler(kind, old, new)
        except Exception:
            log.exception("informer handler failed", extra=self._about(event=kind))

    def _about(self, **more: object) -> dict[str, object]:
        return {"resource": self.resource.group_resource, "resource_version": self.resource_version, **more}
