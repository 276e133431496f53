"""Streams into pods: exec, attach and port-forward over WebSocket and SPDY.

The API server finds the pod and authorises the user, then calls one of the functions below; each
answers the request completely. They raise `ApiError` only before anything was sent, so the caller answers
it like any other error (`reject` does that for both kinds of scope).
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qs

import msgspec

from trainshed.cluster.apiserver.streams import portforward, spdychannels, websocket, wschannels
from trainshed.cluster.apiserver.streams.binary import serve_chunks
from trainshed.cluster.apiserver.streams.protocol import EXTENSION, RawConnection, Upgrade, server_options
from trainshed.cluster.apiserver.streams.rejection import reject
from trainshed.cluster.apiserver.streams.remotecommand import Channels, bridge
from trainshed.cluster.apiserver.streams.spdychannels import SpdyChannels
from trainshed.cluster.apiserver.streams.spdysession import Session
from trainshed.cluster.apiserver.streams.websocket import Tunnel
from trainshed.cluster.apiserver.streams.wschannels import WebSocketChannels
from trainshed.cluster.backend import ExecSession, NodeBackend
from trainshed.kube.meta.errors import ApiError, bad_request
from trainshed.kube.meta.objects import Object
from trainshed.kube.wire.asgi import Receive, Scope, Send, headers_of

__all__ = [
    "reject",
    "serve_attach",
    "serve_chunks",
    "serve_exec",
    "serve_port_forward",
    "server_options",
]


async def serve_exec(
    scope: Scope,
    receive: Receive,
    send: Send,
    backend: NodeBackend,
    pod: Object,
    container: str,
    command: Sequence[str],
    stdin: bool,
    stdout: bool,
    stderr: bool,
    tty: bool,
) -> None:
    """Run a command in a container and connect it to the client.

    Raises:
        ApiError: 400 when the request is no upgrade or nothing was asked for; what the backend raises.
    """
    _check(scope, stdin=stdin, stdout=stdout, stderr=stderr)
    if not command:
        raise bad_request("you must specify at least 1 command for the container")
    session = await backend.exec(pod, container, command, stdin=stdin, tty=tty)
    wanted = _Wanted(stdin, stdout, stderr, tty)
    await _serve(scope, receive, send, session, wanted, report_exit=True)


async def serve_attach(
    scope: Scope,
    receive: Receive,
    send: Send,
    backend: NodeBackend,
    pod: Object,
    container: str,
    stdin: bool,
    stdout: bool,
    stderr: bool,
    tty: bool,
) -> None:
    """Connect the client to the main process of a container, until either ends.

    Raises:
        ApiError: as `serve_exec`.
    """
    _check(scope, stdin=stdin, stdout=stdout, stderr=stderr)
    session = await backend.attach(pod, container, stdin=stdin, tty=tty)
    wanted = _Wanted(stdin, stdout, stderr, tty)
    await _serve(scope, receive, send, session, wanted, report_exit=False)


async def serve_port_forward(
    scope: Scope, receive: Receive, send: Send, backend: NodeBackend, pod: Object
) -> None:
    """Connect the client to ports of a pod; the ports come in stream headers, or in the query.

    Raises:
        ApiError: 400 when the request is no upgrade, speaks no known protocol or names no valid port.
    """
    if scope["type"] == "websocket":
        supported = (portforward.TUNNEL_PROTOCOL, *portforward.CHANNEL_PROTOCOLS)
        protocol = websocket.choose(scope.get("subprotocols") or (), supported)
        if protocol == portforward.TUNNEL_PROTOCOL:
            socket = await websocket.accept(scope, receive, send, protocol)
            await portforward.forward_spdy(Session(Tunnel(socket)), backend, pod)
            return
        ports = _ports(scope)
        socket = await websocket.accept(scope, receive, send, protocol)
        await portforward.forward_channels(socket, backend, pod, ports)
        return
    connection, _ = await _accept_spdy(scope, (portforward.SPDY_PROTOCOL,))
    await portforward.forward_spdy(Session(connection), backend, pod)


class _Wanted(msgspec.Struct, frozen=True):
    """Which streams the client asked for in the query."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


def _check(scope: Scope, *, stdin: bool, stdout: bool, stderr: bool) -> None:
    """Refuse what cannot be served before a process starts."""
    if scope["type"] == "websocket":
        websocket.choose(scope.get("subprotocols") or (), wschannels.PROTOCOLS)
    else:
        _offer(scope, spdychannels.PROTOCOLS)
    if not (stdin or stdout or stderr):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")


async def _serve(
    scope: Scope,
    receive: Receive,
    send: Send,
    session: ExecSession,
    wanted: _Wanted,
    *,
    report_exit: bool,
) -> None:
    try:
        channels = await _open(scope, receive, send, wanted)
    except BaseException:
        await session.close()
        raise
    if channels is None:
        await session.close()
        return
    await bridge(session, channels, report_exit=report_exit)


async def _open(scope: Scope, receive: Receive, send: Send, wanted: _Wanted) -> Channels | None:
    """Complete the upgrade; None when the client left before it opened its streams."""
    if scope["type"] == "websocket":
        protocol = websocket.choose(scope.get("subprotocols") or (), wschannels.PROTOCOLS)
        socket = await websocket.accept(scope, receive, send, protocol)
        return WebSocketChannels(socket, stdin=wanted.stdin)
    connection, protocol = await _accept_spdy(scope, spdychannels.PROTOCOLS)
    try:
        return await SpdyChannels.open(
            Session(connection),
            protocol,
            stdin=wanted.stdin,
            stdout=wanted.stdout,
            stderr=wanted.stderr,
            tty=wanted.tty,
        )
    except TimeoutError:
        return None


def _offer(scope: Scope, supported: Sequence[str]) -> tuple[Upgrade, str]:
    """Return the client's offer of an upgrade to SPDY, and the stream protocol to speak over it."""
    upgrade = (scope.get("extensions") or {}).get(EXTENSION)
    if not isinstance(upgrade, Upgrade) or not upgrade.name.lower().startswith("spdy/3.1"):
        raise bad_request("Upgrade request required")
    offered = headers_of(scope, "x-stream-protocol-version")
    if not offered:
        return upgrade, supported[-1]
    for name in offered:
        if name in supported:
            return upgrade, name
    raise ApiError(
        403, "Forbidden", f"unable to upgrade: none of {', '.join(offered)} is among {', '.join(supported)}"
    )


async def _accept_spdy(scope: Scope, supported: Sequence[str]) -> tuple[RawConnection, str]:
    upgrade, protocol = _offer(scope, supported)
    connection = await upgrade.accept([(b"x-stream-protocol-version", protocol.encode())])
    return connection, protocol


def _ports(scope: Scope) -> list[int]:
    """Return the ports of the query `?ports=80&ports=8080,9090`."""
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
    texts = [part for value in query.get("ports", ()) for part in value.split(",")]
    if not texts:
        raise bad_request('query parameter "ports" is required')
    ports: list[int] = []
    for text in texts:
        if not text.isdecimal() or not 0 < int(text) < 65536:
            raise bad_request(f'unable to parse "{text}" as a port')
        ports.append(int(text))
    return ports
