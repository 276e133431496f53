"""Connections that the kernel keeps track of, as far as they have to be forgotten.

Layout of messages: linux/netfilter/nfnetlink_conntrack.h.
"""

from __future__ import annotations

import os
import socket
import struct

from trainshed.cluster.sandbox.linux.netlink import NLM_F_ACK, NLM_F_REQUEST, message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    Address: TypeAlias = tuple[str, int]

_SUBSYSTEM = 1
_GET, _DELETE = 1, 2
_DUMP = 0x300
_ERROR, _DONE = 2, 3
_NESTED = 0xC000
_UDP = 17
_HEAD = struct.pack("!BBH", socket.AF_INET, 0, 0)


class Connections:
    """Those of the network namespace in which the netlink socket was opened."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._sequence = 1 << 30  # transactions on the same socket have those below

    def forget_datagrams(self, is_stale: Callable[[Address, Address], bool]) -> None:
        """Forget those of UDP, by where the client sends to and who answers. Raises OSError."""
        found = [
            original
            for original, reply in self._all()
            if _protocol(original) == _UDP and is_stale(_address(original, 2, 3), _address(reply, 1, 2))
        ]
        for original in found:
            try:
                body = struct.pack("=HH", 4 + len(original), 0x8001) + original
                list(self._ask(_DELETE, NLM_F_ACK, body))
            except FileNotFoundError:
                continue  # it has ended by itself

    def _all(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield (original, reply): a connection as seen from each of its ends."""
        for body in self._ask(_GET, _DUMP, b""):
            parts = _attributes(body[4:])
            if 1 in parts and 2 in parts:
                yield parts[1], parts[2]

    def _ask(self, kind: int, flags: int, body: bytes) -> Iterator[bytes]:
        self._sequence += 1
        request = message(_SUBSYSTEM << 8 | kind, NLM_F_REQUEST | flags, self._sequence, _HEAD + body)
        self._socket.sendall(request)
        while True:
            answer, at = self._socket.recv(1 << 17), 0
            while at + 16 <= len(answer):
                size, found, _, sequence, _ = struct.unpack_from("=IHHII", answer, at)
                content = answer[at + 16 : at + size]
                at += max(16, (size + 3) & ~3)
                if sequence != self._sequence:
                    continue
                if found in (_ERROR, _DONE):
                    code = struct.unpack_from("=i", content)[0] if len(content) >= 4 else 0
                    if code:
                        raise OSError(-code, os.strerror(-code))
                    return
                yield content


def _attributes(data: bytes) -> dict[int, bytes]:
    found, at = {}, 0
    while at + 4 <= len(data):
        size, kind = struct.unpack_from("=HH", data, at)
        found[kind & ~_NESTED] = data[at + 4 : at + size]
        at += max(4, (size + 3) & ~3)
    return found


def _protocol(tuple_: bytes) -> int:
    number = _attributes(_attributes(tuple_).get(2, b"")).get(1, b"")
    return number[0] if number else 0


def _address(tuple_: bytes, ip: int, port: int) -> Address:
    """Return one end of a tuple: the kinds of the attributes of its address and port."""
    parts = _attributes(tuple_)
    where, what = _attributes(parts.get(1, b"")).get(ip, bytes(4)), _attributes(parts.get(2, b""))
    return socket.inet_ntoa(where[:4]), struct.unpack("!H", what.get(port, bytes(2))[:2])[0]
