"""Who makes a request."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

ANONYMOUS = "system:anonymous"
UNAUTHENTICATED = "system:unauthenticated"
AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"
"""Members may do everything; no role is asked."""

SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"


class User(msgspec.Struct, frozen=True):
    """An authenticated user, as TokenReview and SelfSubjectReview show it."""

    username: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}

    def as_object(self) -> dict[str, object]:
        """Return the wire form `UserInfo`."""
        out: dict[str, object] = {"username": self.username}
        if self.uid:
            out["uid"] = self.uid
        out["groups"] = list(self.groups)
        if self.extra:
            out["extra"] = {key: list(values) for key, values in self.extra.items()}
        return out


NOBODY = User(ANONYMOUS, (UNAUTHENTICATED,))


def service_account(namespace: str, name: str, uid: str, extra: Mapping[str, tuple[str, ...]]) -> User:
    """Return the user that a ServiceAccount token stands for."""
    return User(
        f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}",
        ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED),
        uid,
        extra,
    )
