"""Service account tokens of a pod: asked of the API server, renewed before they end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

import msgspec

from trainshed.client.client import Client
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.times import parse_time

REFRESH_FRACTION = 0.8
"""A token is renewed after this part of its life (pkg/kubelet/token)."""
POSTPONE_SECONDS = 60.0
"""A token that could not be renewed is kept, and asked for again after this."""


class TokenRequest(msgspec.Struct, frozen=True):
    """A token of the pod's service account."""

    audience: str
    expiration_seconds: int


class Token(msgspec.Struct, frozen=True):
    """An issued token, and when to renew it."""

    text: str
    refresh_at: float


IssueToken = Callable[[Object, TokenRequest], Awaitable[Token]]


def token_issuer(client: Client) -> IssueToken:
    """Return a function that asks the API server for a token bound to a pod."""

    async def issue(pod: Object, request: TokenRequest) -> Token:
        metadata = pod["metadata"]
        asked = time.time()
        answer = await client.create_token(
            pod["spec"].get("serviceAccountName") or "default",
            metadata["namespace"],
            audiences=[request.audience] if request.audience else [],
            expiration_seconds=request.expiration_seconds,
            bound_pod={"name": metadata["name"], "uid": metadata["uid"]},
        )
        expires = parse_time(answer["status"]["expirationTimestamp"])
        return Token(answer["status"]["token"], asked + (expires - asked) * REFRESH_FRACTION)

    return issue


class Tokens:
    """The tokens of one pod."""

    def __init__(self, issue: IssueToken) -> None:
        self._issue = issue
        self._held: dict[TokenRequest, Token] = {}

    @property
    def refresh_at(self) -> float | None:
        """When the oldest should be renewed; None without any."""
        return min((token.refresh_at for token in self._held.values()), default=None)

    async def obtain(self, pod: Object, wanted: Iterable[TokenRequest]) -> Mapping[TokenRequest, Token]:
        """Return a token for each request, new ones where they are due. Raises ApiError when one that the
        pod has never had is refused."""
        now = time.time()
        due = [r for r in set(wanted) if r not in self._held or self._held[r].refresh_at <= now]
        try:
            issued = await asyncio.gather(*(self._issue(pod, request) for request in due))
        except ApiError:
            if not all(request in self._held for request in due):
                raise
            issued = [Token(self._held[request].text, now + POSTPONE_SECONDS) for request in due]
        self._held.update(zip(due, issued, strict=True))
        return dict(self._held)
