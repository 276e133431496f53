"""A gRPC health call without sockets: what it sends, and what it makes of what a server answers."""

from __future__ import annotations

import struct

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded
from hypothesis import given
from hypothesis import strategies as st

from trainshed.cluster.node.pod.grpchealth import LIMIT, CallFailed, HealthCall

STATUS_200 = b"\x88"  # the static table's `:status: 200`


def frame(kind: int, flags: int, payload: bytes, stream: int = 1) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack("!BBI", kind, flags, stream) + payload


def message(body: bytes) -> bytes:
    return struct.pack("!BI", 0, len(body)) + body


def field(name: str, value: str) -> bytes:
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


TRAILERS = frame(1, 0x5, field("grpc-status", "0"))
SERVING = frame(1, 0x4, STATUS_200) + frame(0, 0, message(b"\x08\x01")) + TRAILERS


def begun() -> HealthCall:
    call = HealthCall("a:1")
    call.request()
    return call


@pytest.mark.parametrize(
    ("service", "body"),
    [("model", b"\x0a\x05model"), ("", b""), ("s" * 256, b"\x0a\x80\x02" + b"s" * 256)],
)
def test_the_request_names_the_service(service: str, body: bytes) -> None:
    server = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
    events = server.receive_data(HealthCall("10.88.0.7:50051", service).request())
    (asked,) = (event for event in events if isinstance(event, RequestReceived))
    fields = dict(asked.headers)
    assert (fields[":path"], fields[":authority"]) == ("/grpc.health.v1.Health/Check", "10.88.0.7:50051")
    assert [event.data for event in events if isinstance(event, DataReceived)] == [message(body)]
    assert any(isinstance(event, StreamEnded) for event in events)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"\x08\x01", "SERVING"),
        (b"\x08\x02", "NOT_SERVING"),
        (b"\x08\x03", "SERVICE_UNKNOWN"),
        (b"", "UNKNOWN"),
        (b"\x08\x07", "7"),
        (b"\x12\x02hi\x08\x01", "SERVING"),
    ],
)
def test_the_serving_status(body: bytes, status: str) -> None:
    call = begun()
    call.feed(frame(1, 0x4, STATUS_200) + frame(0, 0, message(body)) + TRAILERS)
    assert call.done
    assert call.status() == status


def test_settings_and_pings_are_acknowledged_and_bytes_may_come_one_by_one() -> None:
    call = begun()
    arriving = frame(4, 0, b"", 0) + frame(6, 0, b"12345678", 0) + frame(8, 0, b"\0\0\1\0", 0) + SERVING
    answered = b"".join(call.feed(arriving[at : at + 1]) for at in range(len(arriving)))
    assert answered == frame(4, 1, b"", 0) + frame(6, 1, b"12345678", 0)
    assert call.done and call.status() == "SERVING"


def test_padding_priority_and_continuation() -> None:
    call = begun()
    block = STATUS_200 + field("grpc-message", "x")
    call.feed(frame(1, 0x28, b"\3" + b"\0\0\0\0\1" + block[:4] + b"\0\0\0") + frame(9, 0x4, block[4:]))
    call.feed(frame(0, 0x8, b"\2" + message(b"\x08\x01") + b"\0\0") + TRAILERS)
    assert call.status() == "SERVING"


@pytest.mark.parametrize(
    ("block", "code", "description"),
    [
        (
            STATUS_200 + field("grpc-status", "5") + field("grpc-message", "unknown%20service"),
            "NotFound",
            "unknown service",
        ),
        (STATUS_200 + field("grpc-status", "12"), "Unimplemented", ""),
        (STATUS_200 + field("grpc-status", "99"), "Code(99)", ""),
        # as grpc-go writes it: names and values Huffman coded, the status 5 into the dynamic table
        (STATUS_200 + bytes.fromhex("40889acac8b21234da8f816f"), "NotFound", ""),
        (b"\x8c", "Unknown", "unexpected HTTP status code received from server: 400"),
        (STATUS_200, "Internal", "server closed the stream without sending trailers"),
    ],
)
def test_a_call_without_an_answer(block: bytes, code: str, description: str) -> None:
    call = begun()
    call.feed(frame(1, 0x5, block))
    with pytest.raises(CallFailed) as failed:
        call.status()
    assert (failed.value.code, failed.value.description) == (code, description)


@pytest.mark.parametrize(
    "arriving",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        frame(3, 0, b"\0\0\0\7"),
        frame(7, 0, bytes(8), 0),
        frame(1, 0x4, b"\xff"),
        frame(1, 0x4, b"\0\x7f\xff\xff\xff\xff\xff\xff"),
        frame(6, 0, b"12345678", 0) * (LIMIT // 17 + 1),
    ],
    ids=["http1", "reset", "goaway", "no field", "endless integer", "flood"],
)
def test_what_is_no_answer_fails_the_call(arriving: bytes) -> None:
    with pytest.raises(CallFailed):
        begun().feed(arriving)


def test_an_early_end() -> None:
    call = begun()
    call.feed(SERVING[:-1])
    with pytest.raises(CallFailed, match="EOF"):
        call.end()
    call.feed(SERVING[-1:])
    call.end()


@given(st.binary(max_size=200), st.integers(0, 10), st.integers(0, 255))
def test_no_bytes_break_it(payload: bytes, kind: int, flags: int) -> None:
    call = begun()
    try:
        call.feed(frame(kind, flags, payload))
        call.status()
    except CallFailed:
        pass
