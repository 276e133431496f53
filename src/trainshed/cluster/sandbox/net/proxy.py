"""The way out for pods without a route: an HTTP proxy (CONNECT, and absolute http:// requests).

The agent points `HTTP_PROXY` and `HTTPS_PROXY` of pods at it. One thread per connection: connections are
few and long, names are resolved by the host's C library (which blocks), and a thread costs 60 kB.
Addresses of the host's loopback, of link-local services and of the cluster are refused: what listens on
127.0.0.1 of the host often trusts every caller.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import select
import socket

from trainshed.cluster.sandbox.loop import READ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainshed.cluster.sandbox.loop import Loop

_MAX_HEAD = 65536
_MAX_CONNECTIONS = 512
_TIMEOUT = 30.0  # seconds to send a request, or to connect
_IDLE = 3600.0  # seconds without a byte
_STACK = 256 * 1024  # bytes; the default of 8 MiB is address space only, but limits may count it
_HOP_HEADERS = (b"proxy-connection", b"proxy-authorization", b"connection", b"keep-alive")
_FORBIDDEN = ("127.", "0.", "169.254.", "10.88.", "10.96.")


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
    """Accepts on `listener`, a socket inside the cluster network, and connects from the host's."""

    def __init__(self, loop: Loop, listener: socket.socket) -> None:
        self._listener = listener
        self._connections = 0
        _thread.stack_size(_STACK)
        loop.watch(listener.fileno(), READ, self._accept)

    def _accept(self, events: int) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return
        if self._connections >= _MAX_CONNECTIONS:
            client.close()
            return
        self._connections += 1
        try:
            _thread.start_new_thread(self._serve, (client,))
        except RuntimeError:
            self._connections -= 1
            client.close()

    def _serve(self, client: socket.socket) -> None:
        try:
            with client:
                client.settimeout(_TIMEOUT)
                try:
                    _serve_one(client)
                except Refused as refused:
                    body = f"{refused.reason}\n".encode()
                    head = f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain\r\n"
                    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                    client.sendall(head.encode() + body)
        except OSError:
            pass  # one of the two has gone
        finally:
            self._connections -= 1


def _serve_one(client: socket.socket) -> None:
    head, rest = _read_head(client)
    target = parse_request(head)
    with _connect(target.host, target.port) as server:
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
    if not host or (port and not port.isdigit()):
        raise Refused("400 Bad Request", f"not a host and port: {text!r}")
    return host, int(port) if port else default


def is_forbidden(address: str) -> bool:
    """Whether pods may not go there: the host's loopback, link-local, and the cluster's own networks."""
    address = address.removeprefix("::ffff:").lower()
    return address.startswith(_FORBIDDEN) or address in ("::1", "::") or address.startswith("fe80:")


def _connect(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Refused("502 Bad Gateway", f"cannot resolve {host}: {error}") from None
    failure = "no address"
    for family, kind, protocol, _, address in found:
        if is_forbidden(str(address[0])):
            raise Refused("403 Forbidden", f"{host} is an address of this machine or of the cluster")
        sock = socket.socket(family, kind, protocol)
        sock.settimeout(_TIMEOUT)
        try:
            sock.connect(address)
        except OSError as error:
            failure = str(error)
            sock.close()
            continue
        return sock
    raise Refused("502 Bad Gateway", f"cannot connect to {host}:{port}: {failure}")


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
            with contextlib.suppress(OSError):
                other[fd].shutdown(socket.SHUT_WR)
