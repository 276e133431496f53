"""One Service by nftables, for 0018: `nftables.py IP PORT ENDPOINT-IP ENDPOINT-PORT`, in the cluster's namespace.

prerouting    ip daddr IP tcp dport PORT  dnat to ENDPOINT-IP:ENDPOINT-PORT
postrouting   ct status dnat              masquerade, for pods are neighbours
"""
# ruff: noqa: T201

from __future__ import annotations

import os
import socket
import struct
import sys

NETFILTER, NFT = 12, 10
IPV4 = struct.pack("BBH", socket.AF_INET, 0, 0)
BATCH = struct.pack("BBH", 0, 0, socket.htons(NFT))
TABLE, CHAIN, RULE = 0xA00, 0xA03, 0xA06
DNAT_STATUS = struct.pack("I", 1 << 5)


def attribute(kind: int, *data: bytes) -> bytes:
    body = b"".join(data)
    return struct.pack("HH", 4 + len(body), kind) + body + b"\0" * (-len(body) % 4)


def nested(kind: int, *data: bytes) -> bytes:
    return attribute(kind | 0x8000, *data)


def number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack(">I", value))


def text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def message(kind: int, flags: int, body: bytes, sequence: int) -> bytes:
    return struct.pack("IHHII", 16 + len(body), kind, flags, sequence, 0) + body


def chain(name: str, hook: int, priority: int) -> bytes:
    where = nested(4, number(1, hook), attribute(2, struct.pack(">i", priority)))
    return text(1, "t") + text(3, name) + where + text(7, "nat")


def expression(name: str, *data: bytes) -> bytes:
    return nested(1, text(1, name), nested(2, *data))


def payload(base: int, offset: int, length: int) -> bytes:
    return expression("payload", number(1, 1), number(2, base), number(3, offset), number(4, length))


def compare(value: bytes, *, equal: bool = True) -> bytes:
    return expression("cmp", number(1, 1), number(2, 0 if equal else 1), nested(3, attribute(1, value)))


def immediate(register: int, value: bytes) -> bytes:
    return expression("immediate", number(1, register), nested(2, attribute(1, value)))


def rule(name: str, *expressions: bytes) -> bytes:
    return text(1, "t") + text(2, name) + nested(4, *expressions)


def main(ip: str, port: str, endpoint: str, endpoint_port: str) -> None:
    """Add the rules and print what the kernel says to each."""
    forwards = rule(
        "pre",
        payload(1, 16, 4),
        compare(socket.inet_aton(ip)),
        expression("meta", number(2, 16), number(1, 1)),
        compare(bytes([socket.IPPROTO_TCP])),
        payload(2, 2, 2),
        compare(struct.pack(">H", int(port))),
        immediate(1, socket.inet_aton(endpoint)),
        immediate(2, struct.pack(">H", int(endpoint_port))),
        expression("nat", number(1, 1), number(2, 2), number(3, 1), number(5, 2)),
    )
    masks = (nested(4, attribute(1, DNAT_STATUS)), nested(5, attribute(1, bytes(4))))
    hides = rule(
        "post",
        expression("ct", number(2, 2), number(1, 1)),
        expression("bitwise", number(1, 1), number(2, 1), number(3, 4), *masks),
        compare(bytes(4), equal=False),
        expression("masq"),
    )
    wanted = [
        (TABLE, text(1, "t")),
        (CHAIN, chain("pre", 0, -100)),
        (CHAIN, chain("post", 4, 100)),
        (RULE, forwards),
        (RULE, hides),
    ]
    batch = [message(kind, 0x405, IPV4 + body, index) for index, (kind, body) in enumerate(wanted, 2)]
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETFILTER) as sock:
        sock.bind((0, 0))
        sock.settimeout(5)
        sock.send(b"".join([message(0x10, 1, BATCH, 1), *batch, message(0x11, 1, BATCH, 99)]))
        for _ in batch:
            (failed,) = struct.unpack_from("i", sock.recv(65536), 16)
            print(os.strerror(-failed) if failed else "ok")


if __name__ == "__main__":
    main(*sys.argv[1:])
