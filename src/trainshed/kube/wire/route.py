"""What a request asks for, from its method, path and query alone.

Source: the request info resolver of the API server library (`k8s.io/apiserver/pkg/endpoints/request`).
"""

from __future__ import annotations

import msgspec

_VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


class Route(msgspec.Struct, frozen=True):
    """A resource request.

    `namespace` is None for cluster-scoped paths and for a namespaced resource across all namespaces; `name` is
    empty for a collection. `rest` is what follows the subresource (a proxied path).
    """

    verb: str
    group: str
    version: str
    plural: str
    namespace: str | None = None
    name: str = ""
    subresource: str = ""
    rest: str = ""


def parse(method: str, path: str, *, watch: bool = False) -> Route | None:
    """Return the resource request at `path`, or None when the path names no resource."""
    parts = [part for part in path.split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    prefixed = rest[0] == "watch" and len(rest) > 1  # deprecated, still used by old clients
    if prefixed:
        watch, rest = True, rest[1:]
    namespace: str | None = None
    if (
        rest[0] == "namespaces"
        and len(rest) > 2
        and not (len(rest) == 3 and group == "" and rest[2] in _NAMESPACE_SUBRESOURCES)
    ):
        namespace, rest = rest[1], rest[2:]
    plural = rest[0]
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    return Route(
        verb="watch" if prefixed and method == "GET" else _verb(method, name, watch),
        group=group,
        version=version,
        plural=plural,
        namespace=namespace,
        name=name,
        subresource=subresource,
        rest="/".join(rest[3:]),
    )


def _verb(method: str, name: str, watch: bool) -> str:
    verb = _VERBS.get(method, method.lower())
    if verb == "get" and not name:
        return "watch" if watch else "list"
    if verb == "delete" and not name:
        return "deletecollection"
    return verb
