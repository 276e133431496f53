"""One call of grpc.health.v1.Health/Check over cleartext HTTP/2, without sockets: what a gRPC probe is.

Expected flow: write `request()`, then `feed` what arrives, and write what that returns, until `done`; ask `status()`.

gRPC (grpc/doc/PROTOCOL-HTTP2.md) and protobuf as far as a call with one small message each way needs them; grpcio would
be 20 MB in the control plane.
"""

from __future__ import annotations

import struct
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError

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
_STREAM = 1


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
        self._connection = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._received = 0
        self._body = b""
        self._fields: dict[str, str] = {}

    def request(self) -> bytes:
        """Return everything that the client says by itself."""
        name = self._service.encode()
        message = b"\x0a" + _encoded(len(name)) + name if name else b""
        self._connection.initiate_connection()
        self._connection.send_headers(
            _STREAM,
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", "/grpc.health.v1.Health/Check"),
                (":authority", self._authority),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                ("user-agent", "kube-probe/1.33"),
            ],
        )
        body = struct.pack("!BI", 0, len(message)) + message
        self._connection.send_data(_STREAM, body, end_stream=True)
        return self._connection.data_to_send()

    def feed(self, data: bytes) -> bytes:
        """Take what the server sent; return what it is to be answered. Raises CallFailed: this is no HTTP/2."""
        if not self._received and data.startswith(b"HTTP/1."):
            raise CallFailed(UNAVAILABLE, "error reading server preface: the server speaks HTTP/1")
        self._received += len(data)
        if self._received > LIMIT:
            raise CallFailed("ResourceExhausted", "received message larger than max")
        try:
            for event in self._connection.receive_data(data):
                self._take(event)
        except (ProtocolError, UnicodeDecodeError) as error:
            raise CallFailed("Internal", f"malformed HTTP/2: {error}") from None
        return self._connection.data_to_send()

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

    def _take(self, event: Event) -> None:
        match event:
            case ResponseReceived(headers=fields) | TrailersReceived(headers=fields):
                self._fields.update((str(name), str(value)) for name, value in fields or ())
            case DataReceived(data=data):
                self._body += data or b""
            case StreamEnded():
                self.done = True
            case StreamReset(error_code=code):
                raise CallFailed(
                    "Internal", f"stream terminated by RST_STREAM with error code: {int(code or 0)}"
                )
            case ConnectionTerminated(last_stream_id=last) if (last or 0) < _STREAM:
                raise CallFailed(UNAVAILABLE, "the connection is draining")


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
