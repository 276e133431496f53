"""SPDY framing: any cut of the byte stream gives the same events, and hostile bytes end in one error."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.spdy_client import SpdyClient, control
from trainshed.cluster.apiserver.streams.spdy import (
    DICTIONARY,
    MAX_DATA,
    Connection,
    Data,
    GoAway,
    Reset,
    SpdyError,
    StreamOpened,
)


def test_dictionary_is_that_of_the_specification() -> None:
    """Every SPDY/3 header block starts with this Adler-32 of the dictionary."""
    assert len(DICTIONARY) == 1423
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2


def _conversation() -> bytes:
    client = SpdyClient()
    error, first = client.open({"streamtype": "error", "Port": "80"}, end=True)
    stdin, second = client.open({"streamtype": "stdin"})
    return b"".join(
        [
            control(4, bytes(4)),  # SETTINGS
            first,
            second,
            client.data(stdin, b"hello"),
            control(9, struct.pack("!II", error, 100)),  # WINDOW_UPDATE
            client.data(stdin, b"", end=True),
            control(3, struct.pack("!II", error, 5)),
            control(7, bytes(8)),
        ]
    )


EVENTS = [
    StreamOpened(1, {"streamtype": "error", "port": "80"}, True),
    StreamOpened(3, {"streamtype": "stdin"}, False),
    Data(3, b"hello", False),
    Data(3, b"", True),
    Reset(1),
    GoAway(),
]


@given(st.lists(st.integers(min_value=1, max_value=40), max_size=20))
def test_any_cut_gives_the_same_events(sizes: list[int]) -> None:
    connection, data, events = Connection(), _conversation(), []
    for size in sizes:
        events += connection.receive(data[:size])
        data = data[size:]
    events += connection.receive(data)
    assert events == EVENTS


def test_pings_of_the_client_are_answered_and_answers_are_not() -> None:
    connection = Connection()
    assert connection.receive(control(6, struct.pack("!I", 7)) + control(6, struct.pack("!I", 8))) == []
    assert connection.take() == control(6, struct.pack("!I", 7))
    assert connection.take() == b""


def test_what_the_server_sends_reaches_a_client() -> None:
    connection, client = Connection(), SpdyClient()
    connection.reply(1)
    connection.reply(3)
    connection.send(1, b"a" * (MAX_DATA + 1), end=True)
    connection.send(3, b"")
    connection.send(3, b"", end=True)
    connection.goaway()
    frames = client.receive(connection.take())
    assert frames == [
        ("reply", 1, struct.pack("!I", 0), False),
        ("reply", 3, struct.pack("!I", 0), False),
        ("data", 1, b"a" * MAX_DATA, False),
        ("data", 1, b"a", True),
        ("data", 3, b"", True),
        ("goaway", 0, struct.pack("!I", 0), False),
    ]


def _bomb() -> bytes:
    deflate = zlib.compressobj(zdict=DICTIONARY)
    packed = deflate.compress(bytes(10_000_000)) + deflate.flush(zlib.Z_SYNC_FLUSH)
    return control(1, bytes(10) + packed)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (struct.pack("!HHB", 0x8002, 1, 0) + bytes(3), "version 2"),
        (control(1, b"short"), "truncated"),
        (control(1, bytes(10) + b"no zlib"), "decompress"),
        (_bomb(), "larger than"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"\x80\x01" + bytes(0x5), None),
    ],
)
def test_broken_frames(data: bytes, message: str | None) -> None:
    """The last case is a data frame by its first bit: waiting for the rest of it is all one can do."""
    connection = Connection()
    if message is None:
        assert connection.receive(data) == []
    else:
        with pytest.raises(SpdyError, match=message):
            connection.receive(data)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_never_raise_anything_else(data: bytes) -> None:
    try:
        Connection().receive(data)
    except SpdyError:
        pass
