"""A request over a connection that somebody else has opened, TLS included: how the API server calls webhooks and other
API servers.

TLS runs over memory, since a connection into a pod comes from the node and is no socket of this process.
Imported with the first webhook: `h11` and the client's contexts cost memory that most clusters never need.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

import h11
import msgspec

from trainshed.cluster.backend import ByteStream

T = TypeVar("T")

MAX_ANSWER_BYTES = 3 * 1024 * 1024
_PIECE_BYTES = 64 * 1024


class CallFailed(Exception):
    """The call was not answered with 200; the text says why."""


def context(ca_pem: bytes, *, insecure: bool = False) -> ssl.SSLContext:
    """Return a client's context that trusts `ca_pem`, or what the system trusts where that is empty.

    Args:
        insecure: any certificate will do.
    """
    try:
        made = ssl.create_default_context(cadata=ca_pem.decode() if ca_pem else None)
        if insecure:
            made.check_hostname = False
            made.verify_mode = ssl.CERT_NONE
        return made
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
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""  # who hangs up without an end of TLS has ended, too; HTTP tells whether that was too early

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


class _Plain:
    """A byte stream without TLS."""

    def __init__(self, stream: ByteStream) -> None:
        self.read, self.write = stream.read, stream.write

    async def handshake(self) -> None:
        return


class Head(msgspec.Struct, frozen=True):
    """How an answer begins; names of headers are in lower case."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]


class Exchange:
    """One HTTP/1.1 request and its answer. `host` is the name that the certificate has to have; no `trust`, no TLS.

    Every method raises `CallFailed` when TLS or HTTP fails, OSError when the connection breaks.
    """

    def __init__(self, stream: ByteStream, trust: ssl.SSLContext | None, host: str) -> None:
        self._secure = _Plain(stream) if trust is None else _Secure(stream, trust, host)
        self._connection = h11.Connection(our_role=h11.CLIENT)
        self._drained = False

    async def send(
        self, method: str, target: str, headers: Sequence[tuple[bytes, bytes]], body: bytes = b""
    ) -> Head:
        """Send the request; return how the answer begins. After 101 the connection is a tunnel."""
        try:
            await self._secure.handshake()
            request = h11.Request(method=method, target=target, headers=list(headers))
            parts = [request, *([h11.Data(body)] if body else []), h11.EndOfMessage()]
            for event in parts:
                if data := self._connection.send(event):
                    await self._secure.write(data)
            while True:
                got = await self._event()
                if isinstance(got, h11.Response):
                    return Head(got.status_code, list(got.headers))
                if isinstance(got, h11.InformationalResponse) and got.status_code == 101:
                    return Head(101, list(got.headers))
                if isinstance(got, h11.ConnectionClosed):
                    raise CallFailed("EOF")
        except ssl.SSLError as error:
            raise _tls_failed(error) from error
        except (h11.RemoteProtocolError, h11.LocalProtocolError) as error:
            raise CallFailed(f"malformed HTTP response: {error}") from error

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes."""
        try:
            while True:
                got = await self._event()
                if isinstance(got, h11.Data):
                    yield bytes(got.data)
                elif isinstance(got, h11.EndOfMessage | h11.ConnectionClosed):
                    return
        except ssl.SSLError as error:
            raise _tls_failed(error) from error
        except h11.RemoteProtocolError as error:
            raise CallFailed(f"malformed HTTP response: {error}") from error

    async def whole(self, limit: int = MAX_ANSWER_BYTES) -> bytes:
        """Return the body, which may have at most `limit` bytes."""
        out = bytearray()
        async for piece in self.body():
            out += piece
            if len(out) > limit:
                raise CallFailed("the answer is too long")
        return bytes(out)

    async def read(self) -> bytes:
        """Return the next bytes of a tunnel; empty at its end."""
        early, _ = self._connection.trailing_data
        if early and not self._drained:
            self._drained = True
            return bytes(early)
        try:
            return await self._secure.read()
        except ssl.SSLError as error:
            raise _tls_failed(error) from error

    async def write(self, data: bytes) -> None:
        """Send bytes through a tunnel."""
        try:
            await self._secure.write(data)
        except ssl.SSLError as error:
            raise _tls_failed(error) from error

    async def _event(self) -> object:
        while True:
            got = self._connection.next_event()
            if got is h11.PAUSED:
                return h11.ConnectionClosed()
            if got is not h11.NEED_DATA:
                return got
            self._connection.receive_data(await self._secure.read())


def _tls_failed(error: ssl.SSLError) -> CallFailed:
    if isinstance(error, ssl.SSLCertVerificationError):
        why = _UNTRUSTED.get(error.verify_code, error.verify_message)
        return CallFailed(f"tls: failed to verify certificate: x509: {why}")
    if error.reason == "WRONG_VERSION_NUMBER" or error.reason == "HTTP_REQUEST":
        return CallFailed("http: server gave HTTP response to HTTPS client")
    return CallFailed(f"tls: {error.reason or error}")


_UNTRUSTED = dict.fromkeys((18, 19, 20, 21), "certificate signed by unknown authority") | dict.fromkeys(
    (9, 10), "certificate has expired or is not yet valid"
)
"""What Go says where OpenSSL has a code (X509_V_ERR_*); for others, its own words."""


class Reply(msgspec.Struct, frozen=True):
    """An answer whole."""

    status: int
    content_type: str
    body: bytes


async def post(stream: ByteStream, trust: ssl.SSLContext, host: str, path: str, body: bytes) -> Reply:
    """Return the answer to a POST of JSON; `host` is the name that the certificate has to have.

    Raises:
        CallFailed: TLS or HTTP fails.
        OSError: the connection breaks.
    """
    headers = [
        (b"host", host.encode()),
        (b"content-type", b"application/json"),
        (b"accept", b"application/json, */*"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    exchange = Exchange(stream, trust, host)
    head = await exchange.send("POST", path, headers, body)
    said = next((value for name, value in head.headers if name == b"content-type"), b"")
    return Reply(head.status, said.decode("latin-1"), await exchange.whole())
