"""Streams into pods: exec, attach and port-forward over WebSocket and SPDY.

The API server finds the pod and authorises the user, then calls one of the functions below; each
answers the request completely. They raise `ApiError` only before anything was sent, so the caller answers
it like any other error (`rejection` does that for both kinds of scope).
"""

from __future__ import annotations

from collections.abc import Sequence

from trainshed.cluster.apiserver.streams import portforward, spdychannels, websocket, wschannels
from trainshed.cluster.apiserver.streams.protocol import EXTENSION, RawConnection, Upgrade
from trainshed.cluster.apiserver.streams.remotecommand import Channels, bridge
from trainshed.cluster.apiserver.streams.spdychannels import SpdyChannels
from trainshed.cluster.apiserver.streams.spdysession import Session
from trainshed.cluster.apiserver.streams.websocket import Tunnel
from trainshed.cluster.apiserver.streams.wschannels import WebSocketChannels
from trainshed.cluster.backend import ExecRequest, ExecSession, NodeBackend
from trainshed.kube.meta.errors import ApiError, bad_request
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.wire.asgi import Handshake, Scope, headers_of
from trainshed.kube.wire.options import PortForwardOptions
from trainshed.kube.wire.request import parse_query


async def serve_exec(handshake: Handshake, backend: NodeBackend, pod: Object, request: ExecRequest) -> None:
    """Run a command in a container and connect it to the client.

    Raises:
        ApiError: 400 when the request is no upgrade, or no command that can run; what the backend raises.
    """
    _check(handshake.scope, request)
    if not request.command:
        raise bad_request("you must specify at least 1 command for the container")
    if any("\0" in word for word in request.command):
        raise bad_request("a command cannot hold the character NUL")
    session = await backend.exec(pod, request)
    await _serve(handshake, session, request, report_exit=True)


async def serve_attach(handshake: Handshake, backend: NodeBackend, pod: Object, request: ExecRequest) -> None:
    """Connect the client to the main process of a container, until either ends.

    Raises:
        ApiError: as `serve_exec`.
    """
    _check(handshake.scope, request)
    session = await backend.attach(pod, request)
    await _serve(handshake, session, request, report_exit=False)


async def serve_port_forward(handshake: Handshake, backend: NodeBackend, pod: Object) -> None:
    """Connect the client to ports of a pod; the ports come in stream headers, or in the query.

    Raises:
        ApiError: 400 when the request is no upgrade, speaks no known protocol or names no valid port.
    """
    scope, receive, send = handshake
    if scope["type"] == "websocket":
        supported = (portforward.TUNNEL_PROTOCOL, *portforward.CHANNEL_PROTOCOLS)
        protocol = websocket.choose(scope.get("subprotocols") or (), supported)
        if protocol == portforward.TUNNEL_PROTOCOL:
            socket = await websocket.accept(receive, send, protocol)
            await portforward.forward_spdy(Session(Tunnel(socket)), backend, pod)
            return
        ports = PortForwardOptions.decode(parse_query(scope.get("query_string", b""))).ports
        if not ports:
            raise bad_request('query parameter "ports" is required')
        socket = await websocket.accept(receive, send, protocol)
        await portforward.forward_channels(socket, backend, pod, ports)
        return
    connection, _ = await _accept_spdy(scope, (portforward.SPDY_PROTOCOL,))
    await portforward.forward_spdy(Session(connection), backend, pod)


def _check(scope: Scope, request: ExecRequest) -> None:
    """Refuse what cannot be served before a process starts."""
    if scope["type"] == "websocket":
        websocket.choose(scope.get("subprotocols") or (), wschannels.PROTOCOLS)
    else:
        _offer(scope, spdychannels.PROTOCOLS)
    if not (request.stdin or request.stdout or request.stderr):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")


async def _serve(
    handshake: Handshake, session: ExecSession, request: ExecRequest, *, report_exit: bool
) -> None:
    try:
        channels = await _open(handshake, request)
    except BaseException:
        await session.close()
        raise
    if channels is None:
        await session.close()
        return
    await bridge(session, channels, report_exit=report_exit)


async def _open(handshake: Handshake, request: ExecRequest) -> Channels | None:
    """Complete the upgrade; None when the client left before it opened its streams."""
    scope, receive, send = handshake
    if scope["type"] == "websocket":
        protocol = websocket.choose(scope.get("subprotocols") or (), wschannels.PROTOCOLS)
        socket = await websocket.accept(receive, send, protocol)
        channels = WebSocketChannels(socket, request)
        await channels.begin()
        return channels
    connection, protocol = await _accept_spdy(scope, spdychannels.PROTOCOLS)
    try:
        return await SpdyChannels.open(Session(connection), protocol, request)
    except TimeoutError:
        return None


def _offer(scope: Scope, supported: Sequence[str]) -> tuple[Upgrade, str]:
    """Return the client's offer of an upgrade to SPDY, and the stream protocol to speak over it."""
    upgrade = section(scope, "extensions").get(EXTENSION)
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
