"""Types of the ASGI interface, and errors as answers to a request of either scope."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

import msgspec

from trainshed.kube.meta.errors import ApiError

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


def headers_of(scope: Scope, name: str) -> list[str]:
    """Return the values of a header (lower-case name), one per line and per comma-separated part."""
    wanted = name.encode()
    lines = [value.decode("latin-1") for key, value in scope.get("headers", ()) if key.lower() == wanted]
    return [part.strip() for line in lines for part in line.split(",") if part.strip()]


async def reject(scope: Scope, send: Send, error: ApiError) -> None:
    """Answer with the error's Status; works before a WebSocket is accepted as well as for plain requests."""
    prefix = "websocket.http" if scope["type"] == "websocket" else "http"
    body = msgspec.json.encode(error.status())
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(key.lower().encode(), value.encode()) for key, value in error.headers.items()]
    await send({"type": f"{prefix}.response.start", "status": error.code, "headers": headers})
    await send({"type": f"{prefix}.response.body", "body": body})
