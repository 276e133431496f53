"""What a pod may send: frames of its own hardware address and IP.

Pods have NET_RAW, as containers do, and write whole frames with it: answers to what others ask by ARP for the gateway,
after which their traffic comes here, or answers of the DNS. So the bridge's end of a pod's veth looks at the frames
that come out of the pod (classic BPF at the ingress of the veth: tc-bpf(8), linux/filter.h). Pods have no IPv6 between
them.
"""

from __future__ import annotations

import socket
import struct

_SOURCE, _TYPE = 6, 12
_IP, _ARP = 0x0800, 0x0806
_IP_SOURCE = 14 + 12
_ARP_HARDWARE, _ARP_SOURCE = 14 + 8, 14 + 14
_LOAD_WORD, _LOAD_HALF, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x28, 0x15, 0x06
_PASS, _DROP = 0, 2  # TC_ACT_OK, TC_ACT_SHOT


def program(hardware: bytes, ip: str) -> bytes:
    """Return the instructions that let pass what a pod of these addresses sends, and drop what it makes up."""
    (address,) = struct.unpack("!I", socket.inet_aton(ip))
    high, low = struct.unpack("!IH", hardware)
    common = _is(_LOAD_WORD, _SOURCE, high) + _is(_LOAD_HALF, _SOURCE + 4, low)
    of_ip = [*_is(_LOAD_WORD, _IP_SOURCE, address), _result(_PASS)]
    of_arp = _is(_LOAD_WORD, _ARP_HARDWARE, high) + _is(_LOAD_HALF, _ARP_HARDWARE + 4, low)
    of_arp += [(_LOAD_WORD, 0, 0, _ARP_SOURCE), (_JUMP_IF_EQUAL, 2, 0, address)]
    of_arp += [
        (_JUMP_IF_EQUAL, 1, 0, 0),
        _result(_DROP),
        _result(_PASS),
    ]  # 0.0.0.0: it asks whether an address is free
    out = [*common, (_LOAD_HALF, 0, 0, _TYPE)]
    out += [(_JUMP_IF_EQUAL, 0, len(of_ip), _IP), *of_ip]
    out += [(_JUMP_IF_EQUAL, 1, 0, _ARP), _result(_DROP), *of_arp]
    return b"".join(struct.pack("=HBBI", *each) for each in out)


_Instruction = tuple[int, int, int, int]


def _is(load: int, offset: int, value: int) -> list[_Instruction]:
    """Go on where the word or half word at an offset is `value`, else drop."""
    return [(load, 0, 0, offset), (_JUMP_IF_EQUAL, 1, 0, value), _result(_DROP)]


def _result(action: int) -> _Instruction:
    return (_RETURN, 0, 0, action)
