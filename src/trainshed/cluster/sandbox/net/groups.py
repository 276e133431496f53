"""Endpoints of a route that only some clients have: those of their node (`internalTrafficPolicy: Local`)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from trainshed.cluster.sandbox.wire import Message

    Groups: TypeAlias = tuple[tuple[tuple[str, ...], tuple[tuple[str, int], ...]], ...]
    """Of each group its clients' IP addresses and its endpoints."""


def groups_of(route: Message) -> Groups:
    """Return the groups of a route; empty where all clients have all endpoints."""
    return tuple(
        (
            tuple(str(client) for client in group["clients"]),
            tuple((str(ip), int(port)) for ip, port in group["endpoints"]),
        )
        for group in route.get("groups") or ()
    )
