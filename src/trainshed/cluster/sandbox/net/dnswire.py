"""DNS messages, as far as a resolver for one zone needs them: read a question, answer it (RFC 1035).

Answers to anything else are the upstream server's own bytes. dnslib would do it, at 3.8 MiB of memory.
"""

from __future__ import annotations

import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

TYPE_A = 1
TYPE_CNAME = 5
TYPE_SOA = 6
TYPE_PTR = 12
TYPE_AAAA = 28
TYPE_SRV = 33
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


class Record:
    """One resource record of an answer. An empty `name` is the question's."""

    def __init__(self, kind: int, data: bytes, name: str = "") -> None:
        self.kind = kind
        self.data = data
        self.name = name

    def encode(self, ttl: int) -> bytes:
        """Return its bytes; `ttl` is in seconds."""
        name = encode_name(self.name) if self.name else b"\xc0\x0c"
        return name + struct.pack("!HHIH", self.kind, CLASS_IN, ttl, len(self.data)) + self.data


def address_record(address: str, name: str = "") -> Record:
    """Return an A record."""
    return Record(TYPE_A, socket.inet_aton(address), name)


def pointer_record(target: str) -> Record:
    """Return a PTR record."""
    return Record(TYPE_PTR, encode_name(target))


def alias_record(target: str, name: str = "") -> Record:
    """Return a CNAME record."""
    return Record(TYPE_CNAME, encode_name(target), name)


def service_record(port: int, target: str) -> Record:
    """Return a SRV record; all are of one priority and weight."""
    return Record(TYPE_SRV, struct.pack("!3H", 0, 100, port) + encode_name(target))


def answer(
    question: Question,
    code: int = NOERROR,
    records: Sequence[Record] = (),
    *,
    additional: Sequence[Record] = (),
    ttl: int = 5,
    zone: str = "",
) -> bytes:
    """Return a response with these records; without any, with the zone's SOA for negative caching."""
    body = b"".join(record.encode(ttl) for record in records)
    authority = b""
    if not records and zone:
        server = encode_name(f"ns.dns.{zone}")
        mailbox = encode_name(f"hostmaster.{zone}")
        times = struct.pack("!5I", 1, 7200, 1800, 86400, ttl)
        authority = Record(TYPE_SOA, server + mailbox + times, zone).encode(ttl)
    body += authority + b"".join(record.encode(ttl) for record in additional)
    flags = _QR | _AA | _RA | (question.flags & _RD) | code
    counts = (1, len(records), 1 if authority else 0, len(additional))
    return _HEADER.pack(question.ident, flags, *counts) + question.raw + body


def query(ident: int, name: str, kind: int) -> bytes:
    """Return a query to a resolver."""
    return _HEADER.pack(ident, _RD, 1, 0, 0, 0) + encode_name(name) + struct.pack("!2H", kind, CLASS_IN)


def read_answer(response: bytes) -> tuple[int, list[Record]]:
    """Return the code and the addresses and aliases of a resolver's response. Raises ValueError when it is none."""
    try:
        _, flags, questions, answers, _, _ = _HEADER.unpack_from(response)
        offset = _HEADER.size
        for _ in range(questions):
            _, offset = _read_name(response, offset)
            offset += 4
        found = []
        for _ in range(answers):
            name, offset = _read_name(response, offset)
            kind, _, _, length = struct.unpack_from("!HHIH", response, offset)
            offset += 10
            data = response[offset : offset + length]
            if kind == TYPE_CNAME:
                found.append(alias_record(_read_name(response, offset)[0], name))
            elif (kind, len(data)) in ((TYPE_A, 4), (TYPE_AAAA, 16)):
                found.append(Record(kind, data, name))
            offset += length
    except (struct.error, IndexError) as error:
        raise ValueError("response runs over the end") from error
    return flags & 0xF, found


def _read_name(data: bytes, offset: int) -> tuple[str, int]:
    """Return a name that may point back, and the offset behind it."""
    labels, end = [], 0
    for _ in range(128):
        length = data[offset]
        if length & 0xC0 == 0xC0:
            end = end or offset + 2
            offset = (length & 0x3F) << 8 | data[offset + 1]
        elif length > 63:
            raise ValueError("bad label")
        elif length:
            labels.append(data[offset + 1 : offset + 1 + length].decode("latin-1"))
            offset += 1 + length
        else:
            return ".".join(labels), end or offset + 1
    raise ValueError("endless name")


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
