"""DNS messages, as far as a resolver for one zone needs them: read a question, answer it (RFC 1035).

Answers to anything else are the upstream server's own bytes. dnslib would do it, at 3.8 MiB of memory.
"""

from __future__ import annotations

import socket
import struct

TYPE_A = 1
TYPE_PTR = 12
TYPE_AAAA = 28
TYPE_SOA = 6
TYPE_ANY = 255
CLASS_IN = 1
NOERROR = 0
FORMERR = 1
SERVFAIL = 2
NXDOMAIN = 3

MAX_UDP = 512
_HEADER = struct.Struct("!6H")
_QR = 0x8000
_AA = 0x0400
_TC = 0x0200
_RD = 0x0100
_RA = 0x0080
_OPCODE = 0x7800


class Question:
    """The single question of a query. `name` is lower case without the trailing dot."""

    def __init__(self, ident: int, flags: int, name: str, kind: int, raw: bytes, size: int) -> None:
        self.ident = ident
        self.flags = flags
        self.name = name
        self.kind = kind
        self.raw = raw
        self.size = size


def parse_query(data: bytes) -> Question:
    """Read a query. Raises ValueError when it is not one, or asks more than one question."""
    if len(data) < _HEADER.size:
        raise ValueError("short message")
    ident, flags, questions, _, _, additional = _HEADER.unpack_from(data)
    if flags & (_QR | _OPCODE) or questions != 1:
        raise ValueError("not a single standard query")
    labels, offset = [], _HEADER.size
    while True:
        if offset >= len(data):
            raise ValueError("name runs over the end")
        length = data[offset]
        offset += 1
        if length == 0:
            break
        if length > 63 or offset + length > len(data):  # a question has nothing to point back to
            raise ValueError("bad label")
        labels.append(data[offset : offset + length].decode("latin-1").lower())
        offset += length
    if offset + 4 > len(data):
        raise ValueError("no type and class")
    kind, _ = struct.unpack_from("!2H", data, offset)
    offset += 4
    size = MAX_UDP
    # EDNS (RFC 6891): the OPT record's class is how much the client takes over UDP.
    if additional and data[offset : offset + 3] == b"\0\0\x29" and offset + 5 <= len(data):
        size = max(MAX_UDP, struct.unpack_from("!H", data, offset + 3)[0])
    return Question(ident, flags, ".".join(labels), kind, data[_HEADER.size : offset], size)


def encode_name(name: str) -> bytes:
    """Encode a name without compression."""
    out = b""
    for label in name.split("."):
        if label:
            raw = label.encode("latin-1")
            out += bytes([len(raw)]) + raw
    return out + b"\0"


def answer(
    question: Question,
    code: int = NOERROR,
    addresses: tuple[str, ...] = (),
    *,
    pointers: tuple[str, ...] = (),
    ttl: int = 5,
    zone: str = "",
) -> bytes:
    """Return a response with A or PTR records; without any, the zone's SOA for negative caching."""
    records = []
    for address in addresses:
        records.append(_record(b"\xc0\x0c", TYPE_A, ttl, socket.inet_aton(address)))
    for pointer in pointers:
        records.append(_record(b"\xc0\x0c", TYPE_PTR, ttl, encode_name(pointer)))
    authority = b""
    if not records and zone:
        server = encode_name(f"ns.dns.{zone}")
        mailbox = encode_name(f"hostmaster.{zone}")
        times = struct.pack("!5I", 1, 7200, 1800, 86400, ttl)
        authority = _record(encode_name(zone), TYPE_SOA, ttl, server + mailbox + times)
    flags = _QR | _AA | _RA | (question.flags & _RD) | code
    counts = (1, len(records), 1 if authority else 0, 0)
    return _HEADER.pack(question.ident, flags, *counts) + question.raw + b"".join(records) + authority


def _record(name: bytes, kind: int, ttl: int, data: bytes) -> bytes:
    return name + struct.pack("!HHIH", kind, CLASS_IN, ttl, len(data)) + data


def truncate(response: bytes, size: int) -> bytes:
    """Return the response, or its header and question with TC set when it is above `size` bytes."""
    if len(response) <= size:
        return response
    ident, flags, *_ = _HEADER.unpack_from(response)
    offset = _HEADER.size
    while response[offset]:
        offset += 1 + response[offset]
    question = response[_HEADER.size : offset + 5]
    return _HEADER.pack(ident, flags | _TC, 1, 0, 0, 0) + question


def failure(query: bytes, code: int) -> bytes:
    """Return an error response to a query that may be unreadable; empty when it has no id."""
    if len(query) < _HEADER.size:
        return b""
    ident, flags, *_ = _HEADER.unpack_from(query)
    if code == FORMERR:
        return _HEADER.pack(ident, _QR | _RA | code, 0, 0, 0, 0)
    question = parse_query(query)
    return _HEADER.pack(ident, _QR | _RA | (flags & _RD) | code, 1, 0, 0, 0) + question.raw
