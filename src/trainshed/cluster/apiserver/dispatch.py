"""From a request to the function that serves it, past authentication and authorization."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from trainshed.cluster.apiserver import components, impersonation, metrics, rendering, reviews
from trainshed.cluster.apiserver.access import User
from trainshed.cluster.apiserver.aggregation import Aggregation
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.fairqueue import FairQueue
from trainshed.cluster.apiserver.forwarding import Forwarded, aggregated
from trainshed.cluster.apiserver.http import Answer, Bodies, Incoming, Result
from trainshed.cluster.apiserver.nonresource import NOT_FOUND, NonResource
from trainshed.cluster.apiserver.streams import bearer
from trainshed.cluster.apiserver.subresources import (
    binding,
    eviction,
    kubelet,
    logs,
    proxied,
    scale,
    streaming,
    token,
)
from trainshed.cluster.apiserver.verbs import read, remove, watch, write
from trainshed.kube.meta.errors import ApiError, forbidden, method_not_allowed, no_such_resource, unauthorized
from trainshed.kube.meta.resourceinfo import ResourceInfo
from trainshed.kube.meta.resources import COMPONENTSTATUSES, NODES
from trainshed.kube.policy.attributes import Attributes
from trainshed.kube.wire import route
from trainshed.kube.wire.options import flag
from trainshed.kube.wire.route import Route

Handler = Callable[[Core, Call], Awaitable[Result]]

_OF_GET = re.compile(
    r"/api(/v1)?/?|/apis/[^/]+/[^/]+/?|/version/?|/\.well-known/openid-configuration/?|/openid/v1/jwks/?|/trainshed/.*"
)
"""Paths outside resources that are answered to GET only; others look at no method, as upstream."""
_ONE_NAME = re.compile("metadata\\.name==?([^=!,]+)")
_VERBS: dict[str, Handler] = {
    "get": read.get,
    "list": read.collection,
    "create": write.create,
    "update": write.update,
    "patch": write.patch,
    "delete": remove.delete,
    "deletecollection": remove.delete_collection,
}
_SUBRESOURCES: dict[tuple[str, str], Handler] = {
    ("scale", "get"): scale.get,
    ("scale", "update"): scale.update,
    ("scale", "patch"): scale.patch,
    ("token", "create"): token.create,
    ("binding", "create"): binding.create,
    ("eviction", "create"): eviction.create,
    ("log", "get"): logs.get,
    ("proxy", "get"): kubelet.get,
}
_PARTS_OF_OBJECT = frozenset({"status", "approval", "ephemeralcontainers", "resize", "finalize"})
"""Subresources that are a part of the object, read and written like the object itself."""


def is_handled(info: ResourceInfo, subresource: str, verb: str) -> bool:
    """Return whether something answers a verb of a resource, or of one of its subresources, but with 501."""
    if not subresource or subresource in _PARTS_OF_OBJECT:
        return True
    if subresource in streaming.SUBRESOURCES and (info.resource.group, info.resource.plural) == ("", "pods"):
        return True
    if subresource == "proxy" and info.resource != NODES:
        return True
    return (subresource, verb) in _SUBRESOURCES


def _fits_path(found: Route) -> bool:
    """Return whether a verb is for a collection or an item, as its path is."""
    if found.verb == "create":
        return not found.name
    return bool(found.name) or found.verb not in ("update", "patch")


def _selected_name(found: Route, request: Incoming) -> str:
    """Return the one name that a request on a collection selects: who may read that object may list it alone."""
    if found.verb not in ("list", "watch", "deletecollection"):
        return ""
    match = _ONE_NAME.fullmatch(request.query.get("fieldSelector", ("",))[0])
    return match[1] if match else ""


def _authorization(request: Incoming) -> str:
    """Return the credentials in the headers; from then on those of a WebSocket's opening are not among them.

    Raises `ApiError` 401.
    """
    given = request.headers.get("authorization", "")
    try:
        token, others = bearer.split(request.scope.get("subprotocols") or ())
    except ValueError as error:
        raise unauthorized() from error
    if token:
        request.scope["subprotocols"] = others
    return given or (f"Bearer {token}" if token else "")


class Dispatcher:
    """Serves routed calls. Holds what watchers share."""

    def __init__(self, core: Core, nonresource: NonResource, aggregation: Aggregation) -> None:
        self._core = core
        self._aggregation = aggregation
        self._nonresource = nonresource
        self._frames = watch.Frames()
        self.bodies = Bodies()
        self._queue = FairQueue()

    async def admit(self, request: Incoming) -> Call | Answer | Forwarded:
        """Return the call that a request makes, what is passed on of it, or the answer when it is about no resource.

        Raises:
            ApiError: 401, 403, 404, 405.
        """
        core, now = self._core, self._core.clock()
        authorization = ""
        try:
            authorization = _authorization(request)
            if core.authenticator.providers is not None:
                await core.authenticator.prepare(authorization.partition(" ")[2].strip())
            user = core.authenticator.authenticate(request.scope, authorization, now)
        except ApiError:
            if request.trail is not None:
                request.trail.refused(authorization.partition(" ")[0].lower())
            raise
        request.charge(self.bodies, user.username)
        if not self._queue.begins(user.username):
            await self._queue.turn(user.username)
        found = route.parse(request.method, request.path, watch=flag(request.query, "watch"))
        if request.trail is not None:
            request.trail.known(user, found)
        user = self._impersonated(request, user)
        remote = self._aggregation.serving(request.path)
        if found is None:
            self._check_path(user, request)
            if remote is not None:
                return aggregated(core, self._aggregation, request, remote, user)
            if request.method not in ("GET", "HEAD") and _OF_GET.fullmatch(request.path):
                raise method_not_allowed()
            return await self._nonresource.get(request)
        self._check(user, found, request)
        if remote is not None:
            return aggregated(core, self._aggregation, request, remote, user)
        call = self._call(request, found, user, now)
        if isinstance(call, Call) and proxied.is_asked(call):
            return await proxied.to(core, call)
        return call

    def _call(self, request: Incoming, found: Route, user: User, now: float) -> Call | Answer:
        kind = self._core.kinds.get(found.group, found.version, found.plural)
        if kind is None:
            if not self._core.kinds.registry.has_group(found.group):
                return NOT_FOUND
            raise no_such_resource()
        if kind.resource.namespaced:
            if found.namespace is None and (
                found.name or found.verb == "create" or kind.info.verbs == ("create",)
            ):
                raise no_such_resource()
            if found.namespace is None and found.verb == "deletecollection":
                raise method_not_allowed()
        elif found.namespace is not None:
            raise no_such_resource()
        if found.subresource:
            sub = kind.info.subresources.get(found.subresource)
            if sub is None:
                raise no_such_resource()
            if found.verb not in sub.verbs:
                raise method_not_allowed()
        elif found.name and kind.info.verbs == ("create",):  # a question, which has no name
            raise no_such_resource()
        elif found.verb not in kind.info.verbs or not _fits_path(found):
            raise method_not_allowed()
        if kind.info.deprecation_warning:
            request.warn(kind.info.deprecation_warning)
        return Call(request, found, user, kind, now)

    async def serve(self, call: Call) -> Result:
        """Return what the verb answers. Raises `ApiError`, 406 before anything is written."""
        core, found = self._core, call.route
        if found.subresource:
            return await self._subresource(call)
        if found.verb == "watch":
            return await watch.watch(core, call, self._frames)
        if not call.kind.info.stored:
            if call.kind.resource.group == "metrics.k8s.io":
                return await metrics.read(core, call)
            if call.kind.resource == COMPONENTSTATUSES:
                return await components.read(core, call)
            if call.kind.resource.plural == "bindings":
                return await binding.create(core, call)
            return await reviews.create(core, call)
        handler = _VERBS.get(found.verb)
        if handler is None:
            raise method_not_allowed()
        if found.verb not in ("get", "list"):
            rendering.representation(call)
        return await handler(core, call)

    async def _subresource(self, call: Call) -> Result:
        name, verb = call.route.subresource, call.route.verb
        if name in _PARTS_OF_OBJECT:
            if verb == "get":
                return await read.get(self._core, call)
            rendering.representation(call)
            if verb == "update":
                return await write.update(self._core, call, name)
            return await write.patch(self._core, call, name)
        handler = _SUBRESOURCES.get((name, verb))
        if handler is None:
            raise ApiError(
                501, "NotImplemented", f"this server does not serve {call.kind.resource.plural}/{name}"
            )
        return await handler(self._core, call)

    def _check(self, user: User, found: Route, request: Incoming) -> None:
        """Raise 403 unless the user may do this."""
        allowed, why = self._core.authorizer.authorize(
            Attributes(
                user=user.username,
                groups=user.groups,
                verb=found.verb,
                group=found.group,
                resource=found.plural,
                subresource=found.subresource,
                namespace=found.namespace or "",
                name=found.name or _selected_name(found, request),
            )
        )
        if request.trail is not None:
            request.trail.decided(allowed, why)
        if allowed:
            return
        resource = f"{found.plural}/{found.subresource}" if found.subresource else found.plural
        where = f'in the namespace "{found.namespace}"' if found.namespace else "at the cluster scope"
        text = (
            f'User "{user.username}" cannot {found.verb} resource "{resource}"'
            f' in API group "{found.group}" {where}'
        )
        raise forbidden(found.plural, found.group, found.name, f"{text}: {why}" if why else text)

    def _check_path(self, user: User, request: Incoming) -> None:
        verb = {"GET": "get", "HEAD": "head"}.get(request.method, request.method.lower())
        attributes = Attributes(user=user.username, groups=user.groups, verb=verb, path=request.path)
        allowed, why = self._core.authorizer.authorize(attributes)
        if request.trail is not None:
            request.trail.decided(allowed, why)
        if not allowed:
            text = f'forbidden: User "{user.username}" cannot {verb} path "{request.path}"'
            raise ApiError(403, "Forbidden", text, detailed=True)

    def _impersonated(self, request: Incoming, user: User) -> User:
        """Return the user that the request is made as. Raises `ApiError` 400, 403."""
        who = impersonation.acting(self._core.authorizer, request, user)
        if who is not user and request.trail is not None:
            request.trail.impersonated(who)
        return who
