"""One POST over a connection that somebody else has opened, TLS included: how the API server calls webhooks.

TLS runs over memory, since a connection into a pod comes from the node and is no socket of this process.
Imported with the first webhook: `h11` and the client's contexts cost memory that most clusters never need.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import TypeVar

import h11

from trainshed.cluster.backend import ByteStream

T = TypeVar("T")

MAX_ANSWER_BYTES = 3 * 1024 * 1024
_PIECE_BYTES = 64 * 1024


class CallFailed(Exception):
    """The call was not answered with 200; the text says why."""


def context(ca_pem: bytes) -> ssl.SSLContext:
    """Return a client's context that trusts `ca_pem`, or what the system trusts where that is empty."""
    try:
        return ssl.create_default_context(cadata=ca_pem.decode() if ca_pem else None)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise CallFailed(f"unable to load root certificates: {error}") from error


class _Secure:
    """TLS over a byte stream."""

    def __init__(self, stream: ByteStream, context: ssl.SSLContext, server_name: str) -> None:
        self._stream = stream
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)

    async def handshake(self) -> None:
        await self._until(self._tls.do_handshake)

    async def write(self, data: bytes) -> None:
        await self._until(lambda: self._tls.write(data))

    async def read(self) -> bytes:
        try:
            return await self._until(lambda: self._tls.read(_PIECE_BYTES))
        except ssl.SSLZeroReturnError:
            return b""

    async def _until(self, step: Callable[[], T]) -> T:
        while True:
            try:
                done = step()
            except ssl.SSLWantReadError:
                await self._flush()
                data = await self._stream.read()
                if data:
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()
            else:
                await self._flush()
                return done

    async def _flush(self) -> None:
        if data := self._outgoing.read():
            await self._stream.write(data)


async def post(stream: ByteStream, trust: ssl.SSLContext, host: str, path: str, body: bytes) -> bytes:
    """Return the body of the answer to a POST of JSON; `host` is the name that the certificate has to have.

    Raises:
        CallFailed: TLS fails, or the answer is not 200.
        OSError: the connection breaks.
    """
    try:
        secure = _Secure(stream, trust, host)
        await secure.handshake()
        return await _exchange(secure.write, secure.read, host, path, body)
    except ssl.SSLError as error:
        raise CallFailed(f"tls: {getattr(error, 'verify_message', '') or error.reason or error}") from error


async def _exchange(
    write: Callable[[bytes], Awaitable[None]],
    read: Callable[[], Awaitable[bytes]],
    host: str,
    path: str,
    body: bytes,
) -> bytes:
    connection = h11.Connection(our_role=h11.CLIENT)
    headers = [
        ("Host", host),
        ("Content-Type", "application/json"),
        ("Accept", "application/json"),
        ("Content-Length", str(len(body))),
        ("Connection", "close"),
    ]
    for event in (
        h11.Request(method="POST", target=path, headers=headers),
        h11.Data(body),
        h11.EndOfMessage(),
    ):
        if data := connection.send(event):
            await write(data)
    status, answer = 0, b""
    try:
        while True:
            got = connection.next_event()
            if got is h11.NEED_DATA:
                connection.receive_data(await read())
            elif isinstance(got, h11.Response):
                status = got.status_code
            elif isinstance(got, h11.Data):
                answer += bytes(got.data)
                if len(answer) > MAX_ANSWER_BYTES:
                    raise CallFailed("the answer is too long")
            elif isinstance(got, h11.EndOfMessage | h11.ConnectionClosed):
                break
    except h11.RemoteProtocolError as error:
        raise CallFailed(f"malformed HTTP response: {error}") from error
    if status != 200:
        text = answer[:200].decode(errors="replace").strip()
        raise CallFailed(f"the server responded with status {status}{f': {text}' if text else ''}")
    return answer
