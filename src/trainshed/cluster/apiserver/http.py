"""HTTP as handlers see it: a request with its body read on demand, and what they may answer with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import msgspec

from trainshed.kube.meta.errors import ApiError, too_large, too_many_requests
from trainshed.kube.wire.asgi import Header, Receive, Scope
from trainshed.kube.wire.request import Query, parse_query

if TYPE_CHECKING:
    from trainshed.cluster.apiserver.audit import Trail

MAX_BODY_BYTES = 3 * 1024 * 1024
"""Upstream's limit: 3 MiB (`--max-resource-write-bytes`, etcd's request limit doubled)."""

BODY_SECONDS = 60.0
"""How long a client may take to send a body: upstream's `--request-timeout`."""

BODIES_OF_USER_BYTES = 96 * 1024 * 1024
"""How much of the bodies of one user's requests may be here at a time, complete or not. Whoever sends more is told to
come back: 429, as upstream says to more requests in flight than it takes."""

APART_FROM_BYTES = 64 * 1024
"""From here on an object is worked on in a thread: defaults, rules and bookkeeping take 40 ms for 64 KiB of containers,
and up to a second for as much as may be sent."""

SENT_BYTES = 256 * 1024
"""How much of a long answer is copied, encrypted and sent at a time."""

PIECE_BYTES = 32 * 1024
"""From here on a piece of a body is one of something long: to decrypt, copy and count it takes 0.1 ms and more."""

MAX_WARNINGS = 50
"""Python's http.client refuses an answer with more than 100 headers, aiohttp one longer than 8,190 bytes."""
_MAX_WARNING_CHARACTERS = 1_000

Done = TypeVar("Done")

encode_json = msgspec.json.Encoder().encode


class Bodies:
    """How many bytes of bodies are held for each user, and whose long one is being worked on."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = BODIES_OF_USER_BYTES if limit is None else limit
        self._held: dict[str, int] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._way = asyncio.Lock()

    async def in_turn(self, user: str, work: Callable[[], Done]) -> Done:
        """Return what `work` returns, called in a thread: one for each user at a time, so that nobody has them all."""
        turn = self._turns.get(user)
        if turn is None:
            turn = self._turns[user] = asyncio.Lock()
        async with turn:
            return await asyncio.to_thread(work)

    async def give_way(self) -> None:
        """Return when it is the turn of one more piece of something long. There is one piece each time round the loop,
        however many long things are under way: a short request waits for one of them, not for one of each.
        """
        async with self._way:
            await asyncio.sleep(0)

    def hold(self, user: str, size: int) -> None:
        """Count `size` more bytes. Raises `ApiError` 429 when they are too many; then nothing is counted."""
        held = self._held.get(user, 0) + size
        if held > self._limit:
            raise too_many_requests(
                "too many large requests of this user are in flight, please try again later", 1
            )
        self._held[user] = held

    def release(self, user: str, size: int) -> None:
        """Count so many bytes less."""
        held = self._held.get(user, 0) - size
        if held > 0:
            self._held[user] = held
        else:
            self._held.pop(user, None)

    def total(self) -> int:
        """Return how many bytes are held."""
        return sum(self._held.values())


class Incoming:
    """A request as it arrives, or the opening of a WebSocket: headers, query and body are read when asked for."""

    __slots__ = (
        "_bodies",
        "_headers",
        "_length",
        "_query",
        "_size",
        "_user",
        "_warnings",
        "method",
        "path",
        "receive",
        "scope",
        "trail",
    )

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self.method: str = scope.get("method", "GET")
        self.path: str = scope["path"]
        self._warnings: dict[str, None] = {}
        self._headers: dict[str, str] | None = None
        self._query: Query | None = None
        self._bodies: Bodies | None = None
        self._user = ""
        self._size = 0
        self._length = 0
        self.trail: Trail | None = None

    def annotate(self, key: str, value: str) -> None:
        """Add an annotation to what the audit log has of this request."""
        if self.trail is not None:
            self.trail.annotate(key, value)

    def charge(self, bodies: Bodies, user: str) -> None:
        """Have the body counted for `user` until `close`."""
        self._bodies, self._user = bodies, user

    async def in_turn(self, work: Callable[[], Done]) -> Done:
        """Return what `work` returns, which takes long: in a thread, after other such work of this user's."""
        if self._bodies is None:
            return await asyncio.to_thread(work)
        return await self._bodies.in_turn(self._user, work)

    async def apart(self, work: Callable[[], Done], size: int = 0) -> Done:
        """Return what `work` returns, which looks at the body or an object of `size` bytes: `in_turn` when either is
        long, at once when not.
        """
        if max(self._length, size) < APART_FROM_BYTES:
            return work()
        return await self.in_turn(work)

    @property
    def length(self) -> int:
        """How many bytes of the body were read."""
        return self._length

    async def give_way(self) -> None:
        """Let others have their turn before the next piece of something long."""
        if self._bodies is None:
            await asyncio.sleep(0)
        else:
            await self._bodies.give_way()

    def close(self) -> None:
        """Let go of the body."""
        if self._bodies is not None and self._size:
            self._bodies.release(self._user, self._size)
            self._size = 0

    @property
    def headers(self) -> dict[str, str]:
        """Headers by lower-case name; repeated ones are joined with commas, as HTTP allows."""
        if self._headers is None:
            out: dict[str, str] = {}
            for raw, value in self.scope["headers"]:
                name, text = raw.decode("latin-1").lower(), value.decode("latin-1")
                out[name] = f"{out[name]}, {text}" if name in out else text
            self._headers = out
        return self._headers

    @property
    def query(self) -> Query:
        """Query parameters by name; `kube.wire.options` has what they mean."""
        if self._query is None:
            self._query = parse_query(self.scope.get("query_string", b""))
        return self._query

    def warn(self, text: str) -> None:
        """Add a `Warning` header to the answer; repeats are dropped."""
        self._warnings[text] = None

    @property
    def warnings(self) -> list[str]:
        """What to warn of, as headers can hold it: no control characters, at most `MAX_WARNINGS`, none too long."""
        texts = list(self._warnings)
        if len(texts) > MAX_WARNINGS:
            texts[MAX_WARNINGS - 1 :] = [f"{len(texts) - MAX_WARNINGS + 1} more warnings"]
        return [_printable(text) for text in texts]

    async def body(self) -> bytes:
        """Return the whole body.

        Raises:
            ApiError: 413 beyond `MAX_BODY_BYTES`, 429 when the user's other requests hold too much, 504 after
                `BODY_SECONDS`.
        """
        declared = self.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > MAX_BODY_BYTES:
            raise too_large(MAX_BODY_BYTES)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await self._received()
        except TimeoutError:
            text = "Timeout: request did not complete within the allotted timeout"
            raise ApiError(504, "Timeout", text) from None
        if self.trail is not None:
            self.trail.asked_for(body, self.headers.get("content-type", ""))
        return body

    async def _received(self) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > MAX_BODY_BYTES:
                raise too_large(MAX_BODY_BYTES)
            if self._bodies is not None:
                self._bodies.hold(self._user, len(chunk))
                self._size += len(chunk)
            chunks.append(chunk)
            self._length = size
            if not message.get("more_body", False):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)
            if len(chunk) >= PIECE_BYTES:
                await self.give_way()


def _printable(text: str) -> str:
    if len(text) > _MAX_WARNING_CHARACTERS:
        text = text[: _MAX_WARNING_CHARACTERS - 3] + "..."
    return text if text.isprintable() else "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


class Disconnected(Exception):
    """The client hung up; there is nobody to answer."""


class Answer:
    """A whole response."""

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self,
        body: bytes = b"",
        *,
        status: int = 200,
        content_type: str = "application/json",
        headers: tuple[Header, ...] = (),
    ) -> None:
        self.body = body
        self.status = status
        self.content_type = content_type
        self.headers = headers

    @classmethod
    def json(cls, value: Any, *, status: int = 200, headers: tuple[Header, ...] = ()) -> Answer:
        """Return a JSON response."""
        return cls(encode_json(value), status=status, headers=headers)

    @classmethod
    def text(cls, value: str, *, status: int = 200) -> Answer:
        """Return a plain text response."""
        return cls(value.encode(), status=status, content_type="text/plain; charset=utf-8")

    @classmethod
    def error(cls, error: ApiError) -> Answer:
        """Return the wire Status of an error."""
        headers = tuple((k.encode(), v.encode()) for k, v in error.headers.items())
        return cls.json(error.status(), status=error.code, headers=headers)


class Pieces:
    """A long text whose parts, objects of the store, are copied as it is read, so that it is never whole in memory."""

    __slots__ = ("_between", "_parts", "length")

    def __init__(self, parts: Sequence[bytes | memoryview], between: bytes) -> None:
        self._parts = parts
        self._between = between
        self.length = sum(map(len, parts)) + len(between) * (len(parts) - 1)

    @classmethod
    def of(cls, text: bytes) -> Pieces:
        """Return a text that is whole."""
        if len(text) <= SENT_BYTES:
            return cls((text,), b"")
        view = memoryview(text)
        return cls([view[at : at + SENT_BYTES] for at in range(0, len(text), SENT_BYTES)], b"")

    def __iter__(self) -> Iterator[bytes]:
        """Yield the text in pieces of `SENT_BYTES` or a part more."""
        parts, begin, size = self._parts, 0, 0
        for end, part in enumerate(parts, 1):
            size += len(part)
            if size >= SENT_BYTES and end < len(parts):
                yield self._between.join((*parts[begin:end], b""))
                begin, size = end, 0
        yield self._between.join(parts[begin:])


class PiecesAnswer(Answer):
    """A response of pieces."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: Pieces) -> None:
        super().__init__()
        self.pieces = pieces

    @property
    def whole(self) -> bytes:
        """The body in one."""
        return b"".join(self.pieces)


class LateAnswer(Answer):
    """A response whose body takes long to make: `encode` is called in a thread, so that nobody else waits for it."""

    __slots__ = ("_encode",)

    def __init__(self, encode: Callable[[], bytes], *, content_type: str, status: int = 200) -> None:
        super().__init__(content_type=content_type, status=status)
        self._encode = encode

    async def encoded(self, request: Incoming) -> bytes:
        """Return the body."""
        return await request.in_turn(self._encode)


class Streaming:
    """A response whose body arrives in pieces, each sent at once. The iterator is closed on disconnect."""

    __slots__ = ("chunks", "content_type", "status")

    def __init__(
        self, chunks: AsyncIterator[bytes], *, content_type: str = "application/json", status: int = 200
    ) -> None:
        self.chunks = chunks
        self.content_type = content_type
        self.status = status


Result: TypeAlias = Answer | Streaming
