"""Logs and watches over WebSocket, as browsers read them: one message per chunk.

Source: recorded from Kubernetes 1.36: `base64.binary.k8s.io` gives base64 in text messages,
`binary.k8s.io` or no subprotocol gives binary ones; the first message is empty, unknown names are 403.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator

from trainshed.cluster.apiserver.streams import websocket
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.wire.asgi import Receive, Scope, Send

_BASE64 = "base64.binary.k8s.io"
_PROTOCOLS = (_BASE64, "binary.k8s.io")


async def serve_chunks(
    scope: Scope, receive: Receive, send: Send, chunks: AsyncIterator[bytes], *, text: bool = False
) -> None:
    """Send each chunk as one message until they end or the client leaves, which cancels their source.

    Args:
        text: without a subprotocol, send text messages (watch events are JSON) instead of binary ones.

    Raises:
        ApiError: 403 when only unknown subprotocols are offered.
    """
    try:
        protocol = websocket.choose(scope.get("subprotocols") or (), _PROTOCOLS)
    except ApiError as error:
        raise ApiError(403, "Forbidden", error.message) from error

    def encode(data: bytes) -> bytes | str:
        if protocol == _BASE64:
            return base64.b64encode(data).decode()
        return data.decode() if text and not protocol else data

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
