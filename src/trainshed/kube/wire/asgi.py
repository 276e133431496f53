"""The ASGI interface, through which requests reach the API server: from sockets, and directly from its process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Header: TypeAlias = tuple[bytes, bytes]

CLIENT_CERTIFICATE = "trainshed.client_certificate"
"""Where a server puts the verified certificate of a client, as DER: in the scope itself, where no header leads."""


class Handshake(NamedTuple):
    """A request to leave HTTP, and both ways of its connection: what ASGI hands to an application."""

    scope: Scope
    receive: Receive
    send: Send


def headers_of(scope: Scope, name: str) -> list[str]:
    """Return the values of a header (lower-case name), one per line and per comma-separated part."""
    wanted = name.encode()
    lines = [value.decode("latin-1") for key, value in scope.get("headers", ()) if key.lower() == wanted]
    return [part.strip() for line in lines for part in line.split(",") if part.strip()]
