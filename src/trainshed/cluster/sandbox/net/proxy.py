"""The way out for pods without a route: an HTTP proxy (CONNECT, and absolute http:// requests).

The agent points `HTTP_PROXY` and `HTTPS_PROXY` of pods at it. One thread per connection: connections are
few and long, names are resolved by the host's C library (which blocks), and a thread costs 60 kB.
Addresses of the host's loopback and of link-local services are refused: what listens on 127.0.0.1 of the
host often trusts every caller.

Many clients know no NO_PROXY, or no networks in it, so what pods reach by themselves is reached through the
proxy too: names are first those of the cluster, and pods and the API are dialled inside its network.
"""

from __future__ import annotations

import _thread
import os
import select
import socket

from trainshed.cluster.sandbox.addresses import (
    DNS_PORT,
    GATEWAY,
    PROXY_PORT,
    is_cluster,
    is_local,
    is_pod,
    is_service,
)
from trainshed.cluster.sandbox.loop import READ
from trainshed.cluster.sandbox.net.budget import Budget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trainshed.cluster.sandbox.loop import Loop
    from trainshed.cluster.sandbox.net.inside import Inside

_MAX_HEAD = 65536
_MAX_CONNECTIONS, _MAX_CONNECTIONS_OF_CLIENT = 512, 128
_TIMEOUT = 30.0  # seconds to send a request, or to connect
_IDLE = 3600.0  # seconds without a byte
_STACK = 256 * 1024  # bytes; the default of 8 MiB is address space only, but limits may count it
_HOP_HEADERS = (b"proxy-connection", b"proxy-authorization", b"connection", b"keep-alive")


class Refused(Exception):
    """The request is answered with an error instead of a connection."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Target:
    """Where a request wants to go, and what is to be sent there first."""

    def __init__(self, host: str, port: int, head: bytes, tunnel: bool) -> None:
        self.host = host
        self.port = port
        self.head = head
        self.tunnel = tunnel


class Proxy:
    """Accepts on `listener`, a socket inside the cluster network, and connects there or from the host's."""

    def __init__(self, loop: Loop, listener: socket.socket, inside: Inside) -> None:
        self._inside = inside
        self._listener = listener
        self._connections = Budget(_MAX_CONNECTIONS, _MAX_CONNECTIONS_OF_CLIENT)
        self._lock = _thread.allocate_lock()
        _thread.stack_size(_STACK)
        loop.watch(listener.fileno(), READ, self._accept)

    def _accept(self, events: int) -> None:
        try:
            client, address = self._listener.accept()
        except OSError:
            return
        name = str(address[0])
        with self._lock:
            taken = self._connections.take(name)
        if not taken:
            client.close()
            return
        try:
            _thread.start_new_thread(self._serve, (client, name))
        except RuntimeError:
            self._give(name)
            client.close()

    def _give(self, name: str) -> None:
        with self._lock:
            self._connections.give(name)

    def _serve(self, client: socket.socket, address: str) -> None:
        try:
            with client:
                client.settimeout(_TIMEOUT)
                try:
                    _serve_one(client, address, self._inside)
                except Refused as refused:
                    body = f"{refused.reason}\n".encode()
                    head = f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain\r\n"
                    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                    client.sendall(head.encode() + body)
        except OSError:
            pass  # one of the two has gone
        finally:
            self._give(address)


def _serve_one(client: socket.socket, address: str, inside: Inside) -> None:
    head, rest = _read_head(client)
    target = parse_request(head)
    with _connect(target, address, inside) as server:
        if target.tunnel:
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        server.sendall(target.head + rest)
        _relay(client, server)


def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        if len(data) > _MAX_HEAD:
            raise Refused("431 Request Header Fields Too Large", "the request's head is above 64 KiB")
        more = client.recv(8192)
        if not more:
            raise ConnectionResetError
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def parse_request(head: bytes) -> Target:
    """Read a request head without its final empty line. Raises Refused."""
    line, *headers = head.split(b"\r\n")
    parts = line.split(b" ")
    if len(parts) != 3:
        raise Refused("400 Bad Request", "not an HTTP request line")
    method, url, version = parts
    if method == b"CONNECT":
        host, port = _authority(url, 443)
        return Target(host, port, b"", tunnel=True)
    if not url.lower().startswith(b"http://"):
        raise Refused("400 Bad Request", "this is a proxy: CONNECT or a whole http:// address, please")
    authority, _, path = url[len(b"http://") :].partition(b"/")
    host, port = _authority(authority.rpartition(b"@")[2], 80)
    kept = [header for header in headers if header.partition(b":")[0].strip().lower() not in _HOP_HEADERS]
    # One request per connection: the next one may be for another server.
    lines = [method + b" /" + path + b" " + version, *kept, b"Connection: close", b"", b""]
    return Target(host, port, b"\r\n".join(lines), tunnel=False)


def _authority(raw: bytes, default: int) -> tuple[str, int]:
    text = raw.decode("latin-1")
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    else:
        host, _, port = text.partition(":")
    if not host or (port and not (port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 65536)):
        raise Refused("400 Bad Request", f"not a host and port: {text!r}")
    return host, int(port) if port else default


def is_inside(address: str, port: int) -> bool:
    """Return whether pods reach the IPv4 address by themselves: a pod's or a Service's; not what is the cluster's own
    at the node's."""
    own = address == GATEWAY and port in (DNS_PORT, PROXY_PORT)
    return is_service(address) or (is_pod(address) and not own)


def is_forbidden(address: str) -> bool:
    """Return whether the proxy may not go there from the host: its loopback, link-local, the cluster's networks."""
    address = address.removeprefix("::ffff:").lower()
    return is_cluster(address) or is_local(address)


def _connect(target: Target, client: str, inside: Inside) -> socket.socket:
    host, port = target.host, target.port
    failure = "no address"
    for family, address in _resolve(host, port, client, inside):
        ip = str(address[0]).removeprefix("::ffff:")
        try:
            if is_inside(ip, port):
                return inside.dial(ip, port, _TIMEOUT)
            if is_forbidden(ip):
                raise Refused("403 Forbidden", f"{host} is {ip}: an address of this machine")
            return _dial(family, address)
        except OSError as error:
            failure = str(error)
    raise Refused("502 Bad Gateway", f"cannot connect to {host}:{port}: {failure}")


def _resolve(host: str, port: int, client: str, inside: Inside) -> list[tuple[int, tuple[Any, ...]]]:
    """Return (family, socket address) of each address, in the one spelling that the kernel has for it."""
    host = inside.canonical(host, client)
    known = inside.find(host, client)
    if known == ():
        raise Refused(
            "502 Bad Gateway", f"{host} has no address: no such Service, or none of its pods is ready"
        )
    flags = socket.AI_NUMERICHOST if known else 0
    found: list[tuple[int, tuple[Any, ...]]] = []
    for name in known or (host,):
        try:
            entries = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=flags)
        except (OSError, ValueError) as error:
            raise Refused("502 Bad Gateway", f"cannot resolve {host}: {error}") from None
        found += [(family, address) for family, _, _, _, address in entries]
    return found


def _dial(family: int, address: tuple[Any, ...]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.settimeout(_TIMEOUT)
        sock.connect(address)
    except BaseException:
        sock.close()
        raise
    return sock


def _relay(client: socket.socket, server: socket.socket) -> None:
    """Copy both ways until both ends are closed."""
    for sock in (client, server):
        sock.settimeout(_IDLE)
    other = {client.fileno(): server, server.fileno(): client}
    mine = {client.fileno(): client, server.fileno(): server}
    poll = select.poll()
    for fd in mine:
        poll.register(fd, select.POLLIN)
    while mine:
        ready = poll.poll(_IDLE * 1000)
        if not ready:
            return
        for fd, _ in ready:
            data = os.read(fd, 65536)
            if data:
                other[fd].sendall(data)
                continue
            poll.unregister(fd)
            del mine[fd]
            try:
                other[fd].shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it has gone
