"""The client side of SPDY/3.1, as much of it as kubectl uses: opens streams, sends data, reads frames."""

from __future__ import annotations

import struct
import zlib

from trainshed.cluster.apiserver.streams.spdy import DICTIONARY


class SpdyClient:
    """Encodes what a client sends and decodes what a server sends. Streams get odd numbers in order."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._next = 1
        self._in = b""

    def open(self, headers: dict[str, str], *, end: bool = False) -> tuple[int, bytes]:
        """Return the new stream's number and the frame that opens it."""
        number, self._next = self._next, self._next + 2
        block = struct.pack("!I", len(headers))
        for name, value in headers.items():
            for text in (name.encode(), value.encode()):
                block += struct.pack("!I", len(text)) + text
        packed = self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return number, control(1, struct.pack("!IIH", number, 0, 0) + packed, flags=1 if end else 0)

    def data(self, stream: int, data: bytes, *, end: bool = False) -> bytes:
        """Return a data frame."""
        return struct.pack("!IB", stream, 1 if end else 0) + len(data).to_bytes(3) + data

    def receive(self, data: bytes) -> list[tuple[str, int, bytes, bool]]:
        """Return (kind, stream, payload, end) of whole frames; replies carry their decompressed headers."""
        self._in += data
        out = []
        while len(self._in) >= 8:
            size = int.from_bytes(self._in[5:8])
            if len(self._in) < 8 + size:
                break
            head, body, self._in = self._in[:8], self._in[8 : 8 + size], self._in[8 + size :]
            end = bool(head[4] & 1)
            if not head[0] & 0x80:
                out.append(("data", int.from_bytes(head[:4]), body, end))
                continue
            kind = {2: "reply", 3: "reset", 6: "ping", 7: "goaway"}[int.from_bytes(head[2:4])]
            payload = self._inflate.decompress(body[4:]) if kind == "reply" else body[4:]
            out.append((kind, int.from_bytes(body[:4]), payload, end))
        return out


def control(kind: int, body: bytes, *, flags: int = 0) -> bytes:
    """Return a control frame of SPDY/3."""
    return struct.pack("!HHB", 0x8003, kind, flags) + len(body).to_bytes(3) + body
