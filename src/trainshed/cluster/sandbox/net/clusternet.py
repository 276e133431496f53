"""The cluster network: one namespace with a bridge, and each pod's own namespace on it."""

from __future__ import annotations

import os
import socket

from trainshed.cluster.sandbox.addresses import API_ADDRESS, GATEWAY, POD_PREFIX_LENGTH, SERVICE_NETWORK
from trainshed.cluster.sandbox.linux import syscalls
from trainshed.cluster.sandbox.linux.netlink import NETLINK_NETFILTER, NetworkNamespace, address_of
from trainshed.cluster.sandbox.net import senders

BRIDGE = "trainshed0"
MTU = 65_535
"""In bytes, the most that a veth and a bridge take: frames never leave the machine, and every one of them costs."""
SEGMENT = 200_000
"""In bytes, how much TCP data pods hand each other at a time: in packets of 64 KiB a GiB costs half as much CPU
time again."""
_LOOPBACK = 1  # the index of `lo` in every namespace


def enter_new_cluster_network() -> None:
    """Move this process into a new network namespace with the bridge and its addresses. Raises OSError."""
    syscalls.unshare(syscalls.CLONE_NEWNET)
    network = NetworkNamespace()
    network.set_up(_LOOPBACK)
    network.add_bridge(BRIDGE, address_of(GATEWAY), MTU)
    bridge = socket.if_nametoindex(BRIDGE)
    network.allow_large_segments(BRIDGE, SEGMENT)
    network.add_address(bridge, GATEWAY, POD_PREFIX_LENGTH)
    network.add_address(bridge, API_ADDRESS, 32)
    # What is sent to a Service arrives here, and is refused where nobody listens.
    network.add_local_network(SERVICE_NETWORK, _LOOPBACK)
    network.close()
    _leave_frames_alone()


def enter_new_pod_network(cluster: int, ip: str) -> None:
    """Move this process into a new network namespace, joined by a veth to the cluster's (a descriptor).

    The peer is named after the last two bytes of the address, which no two pods share. Raises OSError.
    """
    syscalls.setns(cluster, syscalls.CLONE_NEWNET)
    outside = NetworkNamespace()
    bridge = socket.if_nametoindex(BRIDGE)
    syscalls.unshare(syscalls.CLONE_NEWNET)
    inside = NetworkNamespace()
    own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        high, low = socket.inet_aton(ip)[2:]
        name = f"pod{high}-{low}"
        outside.add_veth(name, bridge, "eth0", address_of(ip), own, MTU)
        outside.allow_large_segments(name, SEGMENT)
        _keep_to(outside, name, ip)
    finally:
        os.close(own)
        outside.close()
    inside.set_up(_LOOPBACK)
    interface = socket.if_nametoindex("eth0")
    inside.allow_large_segments("eth0", SEGMENT)
    inside.add_address(interface, ip, POD_PREFIX_LENGTH)
    inside.set_up(interface)
    inside.add_default_route(GATEWAY)
    inside.close()


def open_translator() -> int:
    """Have this process's namespace forward; return a netlink socket by which its nf_tables are set. Raises OSError."""
    _set("net/ipv4/ip_forward", "1")
    for interface in ("all", BRIDGE):  # nobody need be told that there is a shorter way than through here
        _set(f"net/ipv4/conf/{interface}/send_redirects", "0")
    found = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
    found.bind((0, 0))
    return found.detach()


def _leave_frames_alone() -> None:
    """Have what pods say to each other pass no packet filter, where the kernel has one for bridges."""
    try:
        _set("net/bridge/bridge-nf-call-iptables", "0")
    except OSError:
        pass  # it has none, or one for all of the machine


def _set(name: str, value: str) -> None:
    with open(f"/proc/sys/{name}", "w") as file:
        file.write(value)


def _keep_to(network: NetworkNamespace, name: str, ip: str) -> None:
    """Drop what a pod sends under others' addresses; say so in the log where the kernel cannot (it lacks `cls_bpf`)."""
    try:
        network.filter_incoming(network.index_of(name), senders.program(address_of(ip), ip))
    except OSError as error:
        os.write(2, f"pods may send under the addresses of others: {error}\n".encode())


def open_sockets(count: int) -> list[int]:
    """Return descriptors of unconnected TCP sockets of this process's namespace. Raises OSError."""
    return [socket.socket(socket.AF_INET, socket.SOCK_STREAM).detach() for _ in range(count)]


def open_listener(ip: str, port: int, kind: str) -> socket.socket:
    """Return a TCP listener or a UDP socket on an address of this process's namespace. Raises OSError."""
    udp = kind == "udp"
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM if udp else socket.SOCK_STREAM)
    try:
        if not udp:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((ip, port))
        if not udp:
            sock.listen(1024)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock
