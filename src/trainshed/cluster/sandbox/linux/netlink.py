"""The part of rtnetlink that pods need: bridge, veth, address, up, default route, local network.

pyroute2 does all of this and more, at 24 MiB of memory and 124 ms of import in a process that is forked for
every pod. Layout of messages: rtnetlink(7), linux/rtnetlink.h, linux/if_link.h.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct

NETLINK_NETFILTER = 12
NLM_F_REQUEST = 0x1
NLM_F_ACK = 0x4
NLM_F_EXCL = 0x200
NLM_F_CREATE = 0x400
RTM_NEWLINK = 16
RTM_NEWADDR = 20
RTM_NEWROUTE = 24
RTM_NEWQDISC = 36
RTM_NEWTFILTER = 44
_NLMSG_ERROR = 2

_IFF_UP = 1
_IFLA_ADDRESS = 1
_IFLA_IFNAME = 3
_IFLA_MTU = 4
_IFLA_MASTER = 10
_IFLA_LINKINFO = 18
_IFLA_NET_NS_FD = 28
_IFLA_GSO_IPV4_MAX_SIZE = 63
_IFLA_GRO_IPV4_MAX_SIZE = 64
_IFLA_INFO_KIND = 1
_IFLA_INFO_DATA = 2
_VETH_INFO_PEER = 1
_IFA_ADDRESS = 1
_IFA_LOCAL = 2
_RTA_GATEWAY = 5
_RT_TABLE_MAIN = 254
_RTPROT_BOOT = 3
_RTN_UNICAST = 1
_RTA_DST = 1
_RTA_OIF = 4
_RT_TABLE_LOCAL = 255
_RT_SCOPE_HOST = 254
_RTN_LOCAL = 2
_SIOCGIFINDEX = 0x8933
_CLSACT, _CLSACT_INGRESS = 0xFFFFFFF1, 0xFFFFFFF2
_EVERY_PROTOCOL = 0x0003
_TCA_KIND = 1
_TCA_OPTIONS = 2
_TCA_BPF_OPS_LEN = 4
_TCA_BPF_OPS = 5
_TCA_BPF_FLAGS = 8
_BPF_DIRECT_ACTION = 1


def attribute(kind: int, value: bytes) -> bytes:
    """Encode one attribute, padded to four bytes."""
    length = 4 + len(value)
    return struct.pack("=HH", length, kind) + value + bytes(-length % 4)


def interface(flags: int = 0, change: int = 0, index: int = 0) -> bytes:
    """Encode struct ifinfomsg."""
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, change)


def traffic(index: int, parent: int, handle: int = 0, info: int = 0) -> bytes:
    """Encode struct tcmsg."""
    return struct.pack("=BxHiIII", socket.AF_UNSPEC, 0, index, handle, parent, info)


def message(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    """Encode struct nlmsghdr and its body."""
    return struct.pack("=IHHII", 16 + len(body), kind, flags, sequence, 0) + body


def address_of(ip: str) -> bytes:
    """Return the hardware address of a pod, from its IP: neighbours' caches stay right when it is reused."""
    return b"\x0a\x58" + socket.inet_aton(ip)


class NetworkNamespace:
    """A netlink socket of the network namespace that the process was in when it was opened.

    Every method raises OSError with the kernel's answer.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._socket.bind((0, 0))
        self._sequence = 0

    def close(self) -> None:
        """Close the socket; the namespace stays as it is."""
        self._socket.close()

    def _request(self, kind: int, flags: int, body: bytes) -> None:
        self._sequence += 1
        flags |= NLM_F_REQUEST | NLM_F_ACK
        self._socket.send(message(kind, flags, self._sequence, body))
        while True:
            answer = self._socket.recv(65536)
            _, found, _, sequence, _ = struct.unpack_from("=IHHII", answer)
            if found != _NLMSG_ERROR or sequence != self._sequence:
                continue
            (code,) = struct.unpack_from("=i", answer, 16)
            if code:
                raise OSError(-code, os.strerror(-code))
            return

    def add_bridge(self, name: str, hardware: bytes, mtu: int) -> None:
        """Create a bridge that is up; `mtu` is in bytes.

        A fixed hardware address: else it is the lowest of its ports'.
        """
        body = interface(_IFF_UP, _IFF_UP)
        body += attribute(_IFLA_IFNAME, name.encode() + b"\0")
        body += attribute(_IFLA_ADDRESS, hardware)
        body += attribute(_IFLA_MTU, struct.pack("=I", mtu))
        body += attribute(_IFLA_LINKINFO, attribute(_IFLA_INFO_KIND, b"bridge"))
        self._request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body)

    def add_veth(
        self, name: str, bridge: int, peer: str, hardware: bytes, peer_namespace: int, mtu: int
    ) -> None:
        """Create a pair: `name` here, up, on the bridge with that index; `peer` in the namespace of an fd. `mtu` is in
        bytes."""
        other = interface()
        other += attribute(_IFLA_IFNAME, peer.encode() + b"\0")
        other += attribute(_IFLA_ADDRESS, hardware)
        other += attribute(_IFLA_MTU, struct.pack("=I", mtu))
        other += attribute(_IFLA_NET_NS_FD, struct.pack("=I", peer_namespace))
        info = attribute(_IFLA_INFO_KIND, b"veth")
        info += attribute(_IFLA_INFO_DATA, attribute(_VETH_INFO_PEER, other))
        body = interface(_IFF_UP, _IFF_UP)
        body += attribute(_IFLA_IFNAME, name.encode() + b"\0")
        body += attribute(_IFLA_MTU, struct.pack("=I", mtu))
        body += attribute(_IFLA_MASTER, struct.pack("=I", bridge))
        body += attribute(_IFLA_LINKINFO, info)
        self._request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body)

    def allow_large_segments(self, name: str, size: int) -> None:
        """Let the kernel hand over TCP data in parts of up to `size` bytes, more than a packet is long.

        Kernels before 6.3 know nothing of it, and some kinds of interfaces refuse: those go on with packets.
        """
        limit = struct.pack("=I", size)
        body = interface() + attribute(_IFLA_IFNAME, name.encode() + b"\0")
        body += attribute(_IFLA_GSO_IPV4_MAX_SIZE, limit) + attribute(_IFLA_GRO_IPV4_MAX_SIZE, limit)
        try:
            self._request(RTM_NEWLINK, 0, body)
        except OSError:
            pass

    def index_of(self, name: str) -> int:
        """Return the index of an interface of this namespace."""
        answer = fcntl.ioctl(self._socket, _SIOCGIFINDEX, struct.pack("16si20x", name.encode(), 0))
        (index,) = struct.unpack_from("=i", answer, 16)
        return int(index)

    def filter_incoming(self, index: int, program: bytes) -> None:
        """Have an interface ask a program of classic BPF about each frame that comes in (tc-bpf(8))."""
        body = traffic(index, _CLSACT, handle=_CLSACT & 0xFFFF0000) + attribute(_TCA_KIND, b"clsact\0")
        self._request(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, body)
        options = attribute(_TCA_BPF_OPS_LEN, struct.pack("=H", len(program) // 8))
        options += attribute(_TCA_BPF_OPS, program)
        options += attribute(_TCA_BPF_FLAGS, struct.pack("=I", _BPF_DIRECT_ACTION))
        body = traffic(index, _CLSACT_INGRESS, info=1 << 16 | socket.htons(_EVERY_PROTOCOL))
        body += attribute(_TCA_KIND, b"bpf\0") + attribute(_TCA_OPTIONS, options)
        self._request(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, body)

    def set_up(self, index: int) -> None:
        """Bring an interface up."""
        self._request(RTM_NEWLINK, 0, interface(_IFF_UP, _IFF_UP, index))

    def add_address(self, index: int, ip: str, prefix: int) -> None:
        """Give an interface an IPv4 address; one that it has already is let pass."""
        body = struct.pack("=BBBBI", socket.AF_INET, prefix, 0, 0, index)
        body += attribute(_IFA_LOCAL, socket.inet_aton(ip)) + attribute(_IFA_ADDRESS, socket.inet_aton(ip))
        try:
            self._request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, body)
        except FileExistsError:
            return

    def add_default_route(self, gateway: str) -> None:
        """Send everything that is not local to `gateway`."""
        body = struct.pack("=8BI", socket.AF_INET, 0, 0, 0, _RT_TABLE_MAIN, _RTPROT_BOOT, 0, _RTN_UNICAST, 0)
        body += attribute(_RTA_GATEWAY, socket.inet_aton(gateway))
        self._request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, body)

    def add_local_network(self, network: str, index: int) -> None:
        """Make every address of an IPv4 network, as `10.0.0.0/8`, one of this namespace; `index` is that of `lo`."""
        ip, _, prefix = network.partition("/")
        place = (_RT_TABLE_LOCAL, _RTPROT_BOOT, _RT_SCOPE_HOST, _RTN_LOCAL)
        body = struct.pack("=8BI", socket.AF_INET, int(prefix), 0, 0, *place, 0)
        body += attribute(_RTA_DST, socket.inet_aton(ip)) + attribute(_RTA_OIF, struct.pack("=I", index))
        self._request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, body)


def is_unsupported(error: OSError) -> bool:
    """Return whether the kernel lacks the kind of interface that was asked for."""
    return error.errno in (errno.EOPNOTSUPP, errno.ENODEV)
