"""SPDY/3.1 frames of the server side, without I/O.

kubectl up to 1.29 speaks SPDY for exec, attach and cp, and every kubectl speaks it for port-forward (inside
a WebSocket from 1.31 on). Feed received bytes to `Connection.receive`, act on the events, and send what
`Connection.take` returns. Windows are neither announced nor honoured, as the clients' library does not
implement them; pings are answered here.

Source: draft-mbelshe-httpbis-spdy-00 with the framing of SPDY/3.1.
"""

from __future__ import annotations

import struct
import zlib
from typing import TypeAlias

import msgspec

MAX_DATA = 32 * 1024
"""Bytes of payload in one data frame that we send."""

_MAX_HEADERS = 64 * 1024
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_FIN = 0x01
_VERSION = 3
_LENGTH = struct.Struct("!I")

# The compression dictionary of the SPDY/3 specification: these names, each behind its length, then the text.
_NAMES = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges "
    "age allow authorization cache-control connection content-base content-encoding content-language "
    "content-length content-location content-md5 content-range content-type date etag expect expires from "
    "host if-match if-modified-since if-none-match if-range if-unmodified-since last-modified location "
    "max-forwards pragma proxy-authenticate proxy-authorization range referer retry-after server te trailer "
    "transfer-encoding upgrade user-agent vary via warning www-authenticate method get status 200_OK version "
    "HTTP/1.1 url public set-cookie keep-alive origin"
)
_TEXT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(_LENGTH.pack(len(name)) + name.replace("_", " ").encode() for name in _NAMES.split())
    + _TEXT.encode()
)


class SpdyError(Exception):
    """The peer broke the protocol: the connection cannot go on."""


class StreamOpened(msgspec.Struct, frozen=True):
    """The client opened a stream. Answer with `reply`. `end`: it will send no data."""

    stream: int
    headers: dict[str, str]
    end: bool


class Data(msgspec.Struct, frozen=True):
    """Payload of a stream, possibly empty. `end`: the client sends no more on it."""

    stream: int
    data: bytes
    end: bool


class Reset(msgspec.Struct, frozen=True):
    """The client gave up a stream."""

    stream: int


class GoAway(msgspec.Struct, frozen=True):
    """The client opens no more streams and is about to leave."""


Event: TypeAlias = StreamOpened | Data | Reset | GoAway


class Connection:
    """One SPDY connection, server side."""

    def __init__(self) -> None:
        self._in = bytearray()
        self._out = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def receive(self, data: bytes) -> list[Event]:
        """Return the events in received bytes; incomplete frames wait for more.

        Raises:
            SpdyError: the bytes are not SPDY/3.
        """
        self._in += data
        events: list[Event] = []
        while len(self._in) >= 8:
            size = int.from_bytes(self._in[5:8])
            if len(self._in) < 8 + size:
                break
            head, body = bytes(self._in[:8]), bytes(self._in[8 : 8 + size])
            del self._in[: 8 + size]
            event = self._control(head, body) if head[0] & 0x80 else self._data(head, body)
            if event is not None:
                events.append(event)
        return events

    def take(self) -> bytes:
        """Return what has to be sent now, in order, and forget it."""
        out = bytes(self._out)
        self._out.clear()
        return out

    def reply(self, stream: int) -> None:
        """Accept a stream that the client opened; there are no headers to tell it."""
        packed = self._deflate.compress(_LENGTH.pack(0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        self._frame(_SYN_REPLY, _LENGTH.pack(stream) + packed)

    def send(self, stream: int, data: bytes, *, end: bool = False) -> None:
        """Queue payload for a stream in frames of at most `MAX_DATA` bytes; `end` closes our half."""
        for at in range(0, len(data), MAX_DATA) or (0,):
            piece = data[at : at + MAX_DATA]
            last = end and at + MAX_DATA >= len(data)
            if piece or last:
                self._out += _LENGTH.pack(stream) + bytes([_FIN if last else 0]) + len(piece).to_bytes(3)
                self._out += piece

    def goaway(self) -> None:
        """Say that the connection ends in good order."""
        self._frame(_GOAWAY, struct.pack("!II", 0, 0))

    def _frame(self, kind: int, body: bytes, flags: int = 0) -> None:
        self._out += struct.pack("!HHB", 0x8000 | _VERSION, kind, flags) + len(body).to_bytes(3) + body

    def _data(self, head: bytes, body: bytes) -> Event:
        return Data(int.from_bytes(head[:4]), body, bool(head[4] & _FIN))

    def _control(self, head: bytes, body: bytes) -> Event | None:
        version, kind = struct.unpack("!HH", head[:4])
        if version & 0x7FFF != _VERSION:
            raise SpdyError(f"frame of SPDY version {version & 0x7FFF}")
        if kind == _SYN_STREAM:
            if len(body) < 10:
                raise SpdyError("truncated SYN_STREAM")
            stream = int.from_bytes(body[:4]) & 0x7FFFFFFF
            return StreamOpened(stream, self._headers(body[10:]), bool(head[4] & _FIN))
        if kind == _RST_STREAM and len(body) >= 8:
            return Reset(int.from_bytes(body[:4]) & 0x7FFFFFFF)
        if kind == _GOAWAY:
            return GoAway()
        if kind == _PING and len(body) >= 4 and body[3] & 1:  # odd: the client asks
            self._frame(_PING, body[:4])
        return None  # SETTINGS, WINDOW_UPDATE, HEADERS and answers to pings need no action

    def _headers(self, packed: bytes) -> dict[str, str]:
        try:
            block = self._inflate.decompress(packed, _MAX_HEADERS)
        except zlib.error as error:
            raise SpdyError(f"headers do not decompress: {error}") from error
        if self._inflate.unconsumed_tail:
            raise SpdyError(f"headers are larger than {_MAX_HEADERS} bytes")
        texts: list[str] = []
        at = 4
        for _ in range(2 * int.from_bytes(block[:4])):
            size = int.from_bytes(block[at : at + 4])
            if at + 4 + size > len(block):
                raise SpdyError("truncated headers")
            texts.append(block[at + 4 : at + 4 + size].decode("latin-1"))
            at += 4 + size
        return {name.lower(): value for name, value in zip(texts[::2], texts[1::2], strict=True)}
