"""The part of nf_tables that Services need: tables, chains, sets, maps, rules, applied as one transaction.

python3-nftables is libnftables, which few machines have, and pyroute2 knows nf_tables in part, at 24 MiB. Layout of
messages: linux/netfilter/nf_tables.h, linux/netfilter/nfnetlink.h; numbers are big-endian but for what registers hold.
"""

from __future__ import annotations

import os
import socket
import struct

from trainshed.cluster.sandbox.linux.netlink import (
    NLM_F_ACK,
    NLM_F_CREATE,
    NLM_F_REQUEST,
    attribute,
    message,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_IPV4 = 2  # NFPROTO_IPV4
_SUBSYSTEM = 10
_BEGIN, _END = 0x10, 0x11
_ERROR = 2
_NESTED = 0x8000
_NEWTABLE, _DELTABLE, _NEWCHAIN, _DELCHAIN, _NEWRULE, _DELRULE = 0, 2, 3, 5, 6, 8
_NEWSET, _DELSET, _NEWSETELEM, _DELSETELEM = 9, 11, 12, 14
_APPEND = 0x800  # NLM_F_APPEND
_TIMEOUT = 10.0

PREROUTING, OUTPUT, POSTROUTING = 0, 3, 4
"""Hooks of base chains."""
RAW_PRIORITY, GUARD_PRIORITY, DNAT_PRIORITY, SNAT_PRIORITY = -300, -150, -100, 100
"""Before connections are tracked, once they are, and where addresses are changed."""
VERDICT = 0
"""The register of verdicts; `REGISTERS` are of four bytes each."""
REGISTERS = tuple(range(8, 24))
_MAP, _EXPIRES, _DYNAMIC = 0x8, 0x10, 0x20
_VERDICTS = 0xFFFFFF00
_GOTO, _DROP, _ACCEPT = -4, 0, 1
_IPS_DST_NAT, _NEW = 1 << 5, 1 << 3
_CT_STATE, _CT_STATUS = 0, 2

Command = tuple[int, int, bytes]
"""Number, flags and body of a message of a transaction."""


def _number(value: int) -> bytes:
    return struct.pack("!I", value & 0xFFFFFFFF)


def _text(value: str) -> bytes:
    return value.encode() + b"\0"


def _nested(kind: int, *parts: bytes) -> bytes:
    return attribute(kind | _NESTED, b"".join(parts))


# What is made and deleted.


class Table:
    """A table of IPv4. Its methods return commands of a transaction; making what is there already changes nothing."""

    def __init__(self, name: str) -> None:
        self._name = attribute(1, _text(name))

    def add(self) -> Command:
        """Make the table."""
        return self._command(_NEWTABLE, NLM_F_CREATE)

    def delete(self) -> Command:
        """Delete the table and all in it; it has to be there."""
        return self._command(_DELTABLE, 0)

    def add_chain(self, name: str) -> Command:
        """Make a chain that others lead to."""
        return self._command(_NEWCHAIN, NLM_F_CREATE, attribute(3, _text(name)))

    def add_base_chain(self, name: str, kind: str, hook: int, priority: int) -> Command:
        """Make a chain that packets come to: of type `nat` the first of each connection."""
        place = _nested(4, attribute(1, _number(hook)), attribute(2, _number(priority)))
        return self._command(
            _NEWCHAIN, NLM_F_CREATE, attribute(3, _text(name)), place, attribute(7, _text(kind))
        )

    def delete_chain(self, name: str) -> Command:
        """Delete a chain without rules to which nothing leads."""
        return self._command(_DELCHAIN, 0, attribute(3, _text(name)))

    def add_rule(self, chain: str, *expressions: bytes) -> Command:
        """Put a rule at the end of a chain."""
        found = _nested(4, *(_nested(1, one) for one in expressions))
        return self._command(_NEWRULE, NLM_F_CREATE | _APPEND, attribute(2, _text(chain)), found)

    def delete_rules(self, chain: str) -> Command:
        """Delete all rules of a chain."""
        return self._command(_DELRULE, 0, attribute(2, _text(chain)))

    def add_set(self, name: str, key_bytes: int, *, size: int, timeout: float = 0) -> Command:
        """Make a set that rules put elements into: each stays for `timeout` seconds, if it is given."""
        kind = _DYNAMIC | (_EXPIRES if timeout else 0)
        parts = [attribute(9, attribute(1, _number(size)))]
        parts += [attribute(11, struct.pack("!Q", int(timeout * 1000)))] if timeout else []
        return self._set(name, kind, key_bytes, *parts)

    def add_map(self, name: str, key_bytes: int, value_bytes: int = 0) -> Command:
        """Make a map from keys to values of so many bytes, or to verdicts."""
        value = _number(value_bytes or 16)
        kind = _number(1 if value_bytes else _VERDICTS)
        return self._set(name, _MAP, key_bytes, attribute(6, kind), attribute(7, value))

    def delete_set(self, name: str) -> Command:
        """Delete a set or a map that no rule uses."""
        return self._command(_DELSET, 0, attribute(2, _text(name)))

    def add_elements(self, name: str, elements: Sequence[tuple[bytes, bytes]]) -> Command:
        """Put (key, data) into a map; `data` is from `value` or `goto`."""
        found = [_nested(1, _nested(1, value(key)), _nested(2, data)) for key, data in elements]
        return self._command(_NEWSETELEM, NLM_F_CREATE, attribute(2, _text(name)), _nested(3, *found))

    def delete_element(self, name: str, key: bytes) -> Command:
        """Take a key out of a map."""
        found = _nested(3, _nested(1, _nested(1, value(key))))
        return self._command(_DELSETELEM, 0, attribute(2, _text(name)), found)

    def _set(self, name: str, kind: int, key_bytes: int, *parts: bytes) -> Command:
        key = attribute(4, _number(1)) + attribute(5, _number(key_bytes))
        own = attribute(2, _text(name)) + attribute(3, _number(kind)) + attribute(10, _number(1))
        return self._command(_NEWSET, NLM_F_CREATE, own, key, *parts)

    def _command(self, kind: int, flags: int, *parts: bytes) -> Command:
        return kind, flags, self._name + b"".join(parts)


# Data.


def value(data: bytes) -> bytes:
    """Return bytes as data."""
    return attribute(1, data)


def goto(chain: str) -> bytes:
    """Return the verdict to go on in another chain, as data."""
    return _nested(2, attribute(1, _number(_GOTO)), attribute(2, _text(chain)))


def accept() -> bytes:
    """Return the verdict to let a packet pass, as data."""
    return _nested(2, attribute(1, _number(_ACCEPT)))


def drop() -> bytes:
    """Return the verdict to throw a packet away, as data."""
    return _nested(2, attribute(1, _number(_DROP)))


# Expressions of rules.


def _expression(name: str, *parts: bytes) -> bytes:
    return attribute(1, _text(name)) + _nested(2, *parts)


def load_network(register: int, offset: int, size: int) -> bytes:
    """Load bytes of the IP header."""
    return _payload(register, 1, offset, size)


def load_transport(register: int, offset: int, size: int) -> bytes:
    """Load bytes of the TCP or UDP header."""
    return _payload(register, 2, offset, size)


def _payload(register: int, base: int, offset: int, size: int) -> bytes:
    fields = (register, base, offset, size)
    return _expression("payload", *(attribute(kind, _number(one)) for kind, one in enumerate(fields, 1)))


def load_protocol(register: int) -> bytes:
    """Load the number of the transport protocol."""
    return _expression("meta", attribute(1, _number(register)), attribute(2, _number(16)))


def load_value(register: int, data: bytes) -> bytes:
    """Load a constant; into `VERDICT` what `goto` or `accept` returns."""
    return _expression(
        "immediate", attribute(1, _number(register)), _nested(2, data if register == VERDICT else value(data))
    )


def load_random(register: int, below: int) -> bytes:
    """Load a random number, as the machine writes it."""
    fields = ((1, register), (2, below), (3, 1))
    return _expression("numgen", *(attribute(kind, _number(one)) for kind, one in fields))


def is_equal(register: int, data: bytes) -> bytes:
    """Go on with the rule if the register has this value."""
    return _compare(register, 0, data)


def differs(register: int, data: bytes) -> bytes:
    """Go on with the rule if the register has another value."""
    return _compare(register, 1, data)


def _compare(register: int, operation: int, data: bytes) -> bytes:
    return _expression(
        "cmp", attribute(1, _number(register)), attribute(2, _number(operation)), _nested(3, value(data))
    )


def is_in(name: str, register: int) -> bytes:
    """Go on with the rule if a set has the key."""
    return _expression("lookup", attribute(1, _text(name)), attribute(2, _number(register)))


def look_up(name: str, register: int, into: int) -> bytes:
    """Load what a map has for the key, or do what that says; go on with the next rule where it has not."""
    return _expression(
        "lookup", attribute(1, _text(name)), attribute(2, _number(register)), attribute(3, _number(into))
    )


def put(name: str, register: int) -> bytes:
    """Put a key into a set; its time begins anew."""
    return _expression(
        "dynset", attribute(1, _text(name)), attribute(3, _number(1)), attribute(4, _number(register))
    )


def has_more_connections(name: str, register: int, most: int) -> bytes:
    """Count the connection for a key of a set; go on with the rule if there are more than `most` now."""
    count = _expression("connlimit", attribute(1, _number(most)), attribute(2, _number(1)))
    return _expression(
        "dynset",
        attribute(1, _text(name)),
        attribute(3, _number(0)),
        attribute(4, _number(register)),
        _nested(7, count),
    )


def is_translated(register: int) -> tuple[bytes, ...]:
    """Go on with the rule if the connection leads elsewhere than its client said."""
    return _has_bit(register, _CT_STATUS, _IPS_DST_NAT)


def is_new(register: int) -> tuple[bytes, ...]:
    """Go on with the rule if this is the first packet of a connection."""
    return _has_bit(register, _CT_STATE, _NEW)


def leave_untracked() -> bytes:
    """Have the packet belong to no connection."""
    return _expression("notrack")


def _has_bit(register: int, key: int, wanted: int) -> tuple[bytes, ...]:
    load = _expression("ct", attribute(1, _number(register)), attribute(2, _number(key)))
    bit, nothing = struct.pack("=I", wanted), bytes(4)
    mask = _expression(
        "bitwise",
        *(attribute(kind, _number(one)) for kind, one in ((1, register), (2, register), (3, 4))),
        _nested(4, value(bit)),
        _nested(5, value(nothing)),
    )
    return load, mask, _compare(register, 1, nothing)


def lead_to(address: int, port: int) -> bytes:
    """Have the connection go to the address and port in these registers."""
    fields = ((1, 1), (2, _IPV4), (3, address), (5, port))
    return _expression("nat", *(attribute(kind, _number(one)) for kind, one in fields))


def masquerade() -> bytes:
    """Have the connection come from this namespace's own address."""
    return _expression("masq")


# The kernel.


class Transactions:
    """A netlink socket (NETLINK_NETFILTER) of the network namespace in which it was opened."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._socket.settimeout(_TIMEOUT)
        self._sequence = 0

    def commit(self, commands: Sequence[Command]) -> None:
        """Have all of it in force, or none. Raises OSError with the kernel's answer."""
        if not commands:
            return
        first = self._sequence + 1
        last = first + len(commands)
        data = [message(_BEGIN, NLM_F_REQUEST, first, _head(0, _SUBSYSTEM))]
        for sequence, (kind, flags, body) in enumerate(commands, first + 1):
            flags |= NLM_F_REQUEST | (NLM_F_ACK if sequence == last else 0)
            data.append(message(_SUBSYSTEM << 8 | kind, flags, sequence, _head(_IPV4) + body))
        data.append(message(_END, NLM_F_REQUEST, last + 1, _head(0, _SUBSYSTEM)))
        self._sequence = last + 1
        self._socket.sendall(b"".join(data))
        self._wait(first, last)

    def _wait(self, first: int, last: int) -> None:
        """Read answers until that to the last command, or to the transaction as a whole."""
        refused = 0
        while True:
            answer, at = self._socket.recv(65536), 0
            while at + 16 <= len(answer):
                size, kind, _, sequence, _ = struct.unpack_from("=IHHII", answer, at)
                if kind == _ERROR and first <= sequence <= last:
                    (code,) = struct.unpack_from("=i", answer, at + 16)
                    refused = refused or -code
                    if sequence in (first, last):
                        if refused:
                            raise OSError(refused, os.strerror(refused))
                        return
                at += max(16, (size + 3) & ~3)


def _head(family: int, resource: int = 0) -> bytes:
    """Return struct nfgenmsg."""
    return struct.pack("!BBH", family, 0, resource)
