"""Logs and watches over WebSocket, as browsers read them: one message per chunk.

Source: recorded from Kubernetes. Logs (1.36): `base64.binary.k8s.io` gives base64 in text messages, `binary.k8s.io`
or no subprotocol gives binary ones; the first message is empty, unknown names are 403. Watches (1.33): events are
text, whatever the one subprotocol is, which is echoed; several are 400.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence

from trainshed.cluster.apiserver.streams import websocket
from trainshed.kube.meta.errors import ApiError, bad_request
from trainshed.kube.wire.asgi import Receive, Scope, Send

_BASE64 = "base64.binary.k8s.io"
_PROTOCOLS = (_BASE64, "binary.k8s.io")


async def serve_chunks(
    scope: Scope, receive: Receive, send: Send, chunks: AsyncIterator[bytes], *, text: bool = False
) -> None:
    """Send each chunk as one message until they end or the client leaves, which cancels their source.

    Args:
        text: the chunks are the events of a watch, which is JSON.

    Raises:
        ApiError: 403 when only unknown subprotocols are offered, 400 for several to a watch.
    """
    offered = scope.get("subprotocols") or ()
    protocol = _only(offered) if text else _chosen(offered)

    def encode(data: bytes) -> bytes | str:
        if text:
            return data.decode()
        return base64.b64encode(data).decode() if protocol == _BASE64 else data

    socket = await websocket.accept(receive, send, protocol)

    async def pump() -> None:
        if not text:
            await socket.send(encode(b""))
        async for chunk in chunks:
            await socket.send(encode(chunk))

    async def wait_for_client() -> None:
        while await socket.read() is not None:
            pass

    tasks = [asyncio.create_task(pump()), asyncio.create_task(wait_for_client())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await socket.close()


def _chosen(offered: Sequence[str]) -> str:
    try:
        return websocket.choose(offered, _PROTOCOLS)
    except ApiError as error:
        raise ApiError(403, "Forbidden", error.message) from error


def _only(offered: Sequence[str]) -> str:
    if len(offered) > 1:
        raise bad_request("a watch takes one subprotocol at most")
    return offered[0] if offered else ""
