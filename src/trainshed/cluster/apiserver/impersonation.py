"""Acting as somebody else: the `Impersonate-*` headers of `kubectl --as`.

Source: `apiserver/pkg/endpoints/filters/impersonation.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

from trainshed.cluster.apiserver.access import (
    AUTHENTICATED,
    NOBODY,
    SERVICE_ACCOUNT_PREFIX,
    Authorizer,
    User,
)
from trainshed.cluster.apiserver.http import Incoming
from trainshed.kube.meta.errors import bad_request, forbidden
from trainshed.kube.policy.attributes import Attributes
from trainshed.kube.wire.asgi import headers_of

_GROUP = "authentication.k8s.io"
_EXTRA = b"impersonate-extra-"


class _Wanted(NamedTuple):
    """A part of who somebody wants to be, as the authorizer is asked for it."""

    resource: str
    name: str
    namespace: str = ""
    group: str = ""
    subresource: str = ""


def acting(authorizer: Authorizer, request: Incoming, user: User) -> User:
    """Return the user that the request is made as: `user`, or who it names.

    Raises:
        ApiError: 400 for parts of a user without the user, 403 unless `user` may be all of it.
    """
    if "impersonate-" not in " ".join(request.headers):
        return user
    scope = request.scope
    name = request.headers.get("impersonate-user", "")
    uid = request.headers.get("impersonate-uid", "")
    groups = headers_of(scope, "impersonate-group")
    extra: dict[str, tuple[str, ...]] = {}
    for key, value in _extras(request):
        extra[key] = (*extra.get(key, ()), value)
    if not name:
        if groups or extra or uid:
            raise bad_request("requested groups without impersonating a user")
        return user
    wanted = [_Wanted("users", name), *(_Wanted("groups", group) for group in groups)]
    if uid:
        wanted.append(_Wanted("uids", uid, group=_GROUP))
    wanted += [
        _Wanted("userextras", value, group=_GROUP, subresource=key)
        for key, values in extra.items()
        for value in values
    ]
    parts = name.split(":")
    if name.startswith(SERVICE_ACCOUNT_PREFIX) and len(parts) == 4 and all(parts):
        _, _, namespace, account = parts
        wanted[0] = _Wanted("serviceaccounts", account, namespace)
        if not groups:
            groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    for part in wanted:
        _check(authorizer, user, part)
    if name == NOBODY.username:
        return NOBODY
    return User(name, tuple(dict.fromkeys([*groups, AUTHENTICATED])), uid, extra)


def _extras(request: Incoming) -> Iterator[tuple[str, str]]:
    for name, value in request.scope["headers"]:
        if name.startswith(_EXTRA):
            yield unquote(name.removeprefix(_EXTRA).decode("latin-1")).lower(), value.decode("latin-1")


def _check(authorizer: Authorizer, user: User, part: _Wanted) -> None:
    allowed, _ = authorizer.authorize(
        Attributes(
            user=user.username,
            groups=user.groups,
            verb="impersonate",
            group=part.group,
            resource=part.resource,
            subresource=part.subresource,
            namespace=part.namespace,
            name=part.name,
        )
    )
    if allowed:
        return
    where = f'in the namespace "{part.namespace}"' if part.namespace else "at the cluster scope"
    resource = f"{part.resource}/{part.subresource}" if part.subresource else part.resource
    why = (
        f'User "{user.username}" cannot impersonate resource "{resource}" in API group "{part.group}" {where}'
    )
    raise forbidden(part.resource, part.group, part.name, why)
