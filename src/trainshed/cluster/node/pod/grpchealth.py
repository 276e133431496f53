"""One call of grpc.health.v1.Health/Check over cleartext HTTP/2, without sockets: what a gRPC probe is.

Expected flow: write `request()`, then `feed` what arrives, and write what that returns, until `done`; ask `status()`.

As much of HTTP/2 (RFC 9113), HPACK (RFC 7541) and gRPC (grpc/doc/PROTOCOL-HTTP2.md) as a call with one small message
each way needs: the whole answer fits into the windows that both ends begin with. h2 would be three packages for a
protocol of which a probe speaks five kinds of frames; grpcio is 20 MB in the control plane.
"""

from __future__ import annotations

import struct
from urllib.parse import unquote

LIMIT = 64 * 1024
"""Bytes of an answer. A server that sends more is no health service."""

SERVING = "SERVING"
_STATUSES = ("UNKNOWN", SERVING, "NOT_SERVING", "SERVICE_UNKNOWN")
_CODES = (
    "OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists", "PermissionDenied",
    "ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented", "Internal", "Unavailable",
    "DataLoss", "Unauthenticated",
)  # fmt: skip
UNAVAILABLE, UNIMPLEMENTED = "Unavailable", "Unimplemented"

_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _CONTINUATION = 0, 1, 3, 4, 6, 7, 9
_END_STREAM, _ACK, _END_HEADERS, _PADDED, _PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
_STREAM = 1
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADER_TABLE_SIZE = 1
_STATIC_ENTRIES = 61
_STATIC_STATUSES = {8: "200", 9: "204", 10: "206", 11: "304", 12: "400", 13: "404", 14: "500"}
# Symbols by the length of their code in bits (RFC 7541, appendix B); codes count up through them. The rest, control
# and 8-bit characters, gRPC encodes with `%`.
_HUFFMAN = {
    5: "012aceiost", 6: " %-./3456789=A_bdfghlmnpru", 7: ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz", 8: "&*,;XZ",
    10: '!"()?', 11: "'+|", 12: "#>", 13: "\0$@[]~", 14: "^}", 15: "<`{",
}  # fmt: skip


class CallFailed(Exception):
    """The call has no answer: `code` is gRPC's name of what went wrong, the text its description."""

    def __init__(self, code: str, description: str) -> None:
        super().__init__(f"rpc error: code = {code} desc = {description}")
        self.code = code
        self.description = description


class HealthCall:
    """One call. `authority` is host and port; an empty `service` asks for the server as a whole."""

    def __init__(self, authority: str, service: str = "") -> None:
        self.done = False
        self._authority = authority
        self._service = service
        self._received = 0
        self._buffer = b""
        self._block = b""
        self._ends = False
        self._body = b""
        self._fields: dict[str, str] = {}
        self._table: list[tuple[str, str]] = []

    def request(self) -> bytes:
        """Return everything that the client says by itself."""
        fields = (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/grpc.health.v1.Health/Check"),
            (":authority", self._authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "kube-probe/1.33"),
        )
        name = self._service.encode()
        message = b"\x0a" + _encoded(len(name)) + name if name else b""
        return b"".join(
            (
                _PREFACE,
                # No dynamic table: whoever heeds that sends each field in full.
                _frame(_SETTINGS, 0, 0, struct.pack("!HI", _HEADER_TABLE_SIZE, 0)),
                _frame(_HEADERS, _END_HEADERS, _STREAM, b"".join(_literal(*field) for field in fields)),
                _frame(_DATA, _END_STREAM, _STREAM, struct.pack("!BI", 0, len(message)) + message),
            )
        )

    def feed(self, data: bytes) -> bytes:
        """Take what the server sent; return what it is to be answered. Raises CallFailed: this is no HTTP/2."""
        self._received += len(data)
        if self._received > LIMIT:
            raise CallFailed("ResourceExhausted", "received message larger than max")
        self._buffer += data
        out = b""
        while not self.done and len(self._buffer) >= 9:
            length = int.from_bytes(self._buffer[:3], "big")
            kind, flags, stream = struct.unpack_from("!BBI", self._buffer, 3)
            if length > LIMIT:
                raise CallFailed(UNAVAILABLE, "error reading server preface: http2: frame too large")
            if len(self._buffer) < 9 + length:
                break
            payload, self._buffer = self._buffer[9 : 9 + length], self._buffer[9 + length :]
            try:
                out += self._frame(kind, flags, stream & 0x7FFFFFFF, payload)
            except (IndexError, ValueError, struct.error):
                raise CallFailed("Internal", "malformed HTTP/2 frame") from None
        return out

    def end(self) -> None:
        """Take note that the server has closed the connection. Raises CallFailed when it owed an answer."""
        if not self.done:
            raise CallFailed(UNAVAILABLE, "error reading from server: EOF")

    def status(self) -> str:
        """Return the serving status of the answer, as the protocol names it. Raises CallFailed."""
        http = self._fields.get(":status", "")
        code = self._fields.get("grpc-status")
        if code is None:
            if http not in ("", "200"):
                raise CallFailed("Unknown", f"unexpected HTTP status code received from server: {http}")
            raise CallFailed("Internal", "server closed the stream without sending trailers")
        if code != "0":
            known = code.isascii() and code.isdigit() and int(code) < len(_CODES)
            name = _CODES[int(code)] if known else f"Code({code})"
            raise CallFailed(name, unquote(self._fields.get("grpc-message", "")))
        if len(self._body) < 5 or self._body[0]:
            raise CallFailed("Internal", "the answer is not one plain message")
        try:
            number = _serving_status(self._body[5 : 5 + struct.unpack_from("!I", self._body, 1)[0]])
        except (IndexError, ValueError):
            raise CallFailed("Internal", "grpc: failed to unmarshal the received message") from None
        return _STATUSES[number] if number < len(_STATUSES) else str(number)

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        if kind == _SETTINGS and not flags & _ACK:
            return _frame(_SETTINGS, _ACK, 0, b"")
        if kind == _PING and not flags & _ACK:
            return _frame(_PING, _ACK, 0, payload)
        if kind == _GOAWAY and struct.unpack_from("!I", payload)[0] < _STREAM:
            raise CallFailed(UNAVAILABLE, "the connection is draining")
        if stream != _STREAM:
            return b""
        if kind == _RST_STREAM:
            (code,) = struct.unpack("!I", payload)
            raise CallFailed("Internal", f"stream terminated by RST_STREAM with error code: {code}")
        if kind == _HEADERS:
            self._block, self._ends = _unpadded(flags, payload, _PRIORITY), bool(flags & _END_STREAM)
        elif kind == _CONTINUATION:
            self._block += payload
        elif kind == _DATA:
            self._body += _unpadded(flags, payload, 0)
            self.done = bool(flags & _END_STREAM)
        if kind in (_HEADERS, _CONTINUATION) and flags & _END_HEADERS:
            self._fields.update(_fields(self._block, self._table))
            self.done = self._ends
        return b""


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack("!BBI", kind, flags, stream) + payload


def _unpadded(flags: int, payload: bytes, priority: int) -> bytes:
    """Return a frame's content without its padding and, where that flag may be set, its priority."""
    if flags & _PADDED:
        payload = payload[1 : len(payload) - payload[0]]
    return payload[5:] if flags & priority else payload


def _integer(value: int, prefix: int, first: int) -> bytes:
    """Encode an integer behind the high bits `first` of its first byte (RFC 7541, 5.1)."""
    limit = (1 << prefix) - 1
    if value < limit:
        return bytes([first | value])
    return bytes([first | limit]) + _encoded(value - limit)


def _literal(name: str, value: str) -> bytes:
    """Encode a field that nobody is to remember, in plain text."""
    parts = (name.encode(), value.encode())
    return b"\0" + b"".join(_integer(len(part), 7, 0) + part for part in parts)


class _Block:
    """Reads a header block. Raises IndexError or ValueError for what is none."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def rest(self) -> bool:
        """Whether there is more."""
        return self._at < len(self._data)

    def peek(self) -> int:
        """Return the next byte without taking it."""
        return self._data[self._at]

    def integer(self, prefix: int) -> int:
        """Return the next integer; its prefix has that many bits."""
        limit = (1 << prefix) - 1
        value, shift = self._take() & limit, 0
        if value < limit:
            return value
        while shift < 28:
            byte = self._take()
            value += (byte & 0x7F) << shift
            shift += 7
            if byte < 128:
                return value
        raise ValueError("integer too large")

    def text(self) -> str:
        """Return the next string; characters that have no place in gRPC's fields are `?`."""
        coded = self.peek() & 0x80
        length = self.integer(7)
        if self._at + length > len(self._data):
            raise ValueError("string runs over the end")
        raw = self._data[self._at : self._at + length]
        self._at += length
        return _decode_huffman(raw) if coded else raw.decode("latin-1")

    def _take(self) -> int:
        byte = self._data[self._at]
        self._at += 1
        return byte


def _fields(data: bytes, table: list[tuple[str, str]]) -> dict[str, str]:
    """Return the fields of a header block; adds to the dynamic `table`, newest first.

    Of the static table only the status codes have a meaning here. Nothing is evicted: an answer has few fields.
    """
    out: dict[str, str] = {}
    block = _Block(data)
    while block.rest:
        first = block.peek()
        if first & 0x80:
            name, value = _entry(block.integer(7), table)
        elif first & 0xE0 == 0x20:
            block.integer(5)  # a new size of the table
            continue
        else:
            kept = bool(first & 0x40)
            index = block.integer(6 if kept else 4)
            name = _entry(index, table)[0] if index else block.text()
            value = block.text()
            if kept:
                table.insert(0, (name, value))
        out[name] = value
    return out


def _entry(index: int, table: list[tuple[str, str]]) -> tuple[str, str]:
    if index > _STATIC_ENTRIES:
        return table[index - _STATIC_ENTRIES - 1]
    status = _STATIC_STATUSES.get(index)
    return ("", "") if status is None else (":status", status)


def _huffman_codes() -> dict[tuple[int, int], str]:
    codes, code, before = {}, 0, 0
    for length, symbols in _HUFFMAN.items():
        code <<= length - before
        for symbol in symbols:
            codes[length, code] = symbol
            code += 1
        before = length
    return codes


_SYMBOLS = _huffman_codes()


def _decode_huffman(raw: bytes) -> str:
    out, code, length = "", 0, 0
    for byte in raw:
        for bit in range(7, -1, -1):
            code, length = code << 1 | byte >> bit & 1, length + 1
            if (length, code) in _SYMBOLS:
                out += _SYMBOLS[length, code]
                code = length = 0
            elif length > 30:
                return out + "?"
    return out


def _serving_status(message: bytes) -> int:
    """Return field 1 of a HealthCheckResponse; 0 when it is left out, as proto3 does with zeros."""
    status, at = 0, 0
    while at < len(message):
        tag, at = _varint(message, at)
        if tag & 7 == 0:
            value, at = _varint(message, at)
            status = value if tag >> 3 == 1 else status
        elif tag & 7 == 2:
            length, at = _varint(message, at)
            at += length
        else:
            raise ValueError("unexpected wire type")
    return status


def _encoded(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("varint too long")
