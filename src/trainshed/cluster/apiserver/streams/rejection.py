"""Errors as answers to a request of either scope."""

from __future__ import annotations

import msgspec

from trainshed.kube.meta.errors import ApiError
from trainshed.kube.wire.asgi import Scope, Send


async def reject(scope: Scope, send: Send, error: ApiError) -> None:
    """Answer with the error's Status; works before a WebSocket is accepted as well as for plain requests."""
    prefix = "websocket.http" if scope["type"] == "websocket" else "http"
    body = msgspec.json.encode(error.status())
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(key.lower().encode(), value.encode()) for key, value in error.headers.items()]
    await send({"type": f"{prefix}.response.start", "status": error.code, "headers": headers})
    await send({"type": f"{prefix}.response.body", "body": body})
