"""Questions about users: who am I, may I, who is this token. Nothing is stored.

Source: the authentication.k8s.io and authorization.k8s.io API references.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from trainshed.cluster.apiserver.access import User
from trainshed.cluster.apiserver.body import read_object
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.http import Answer
from trainshed.cluster.apiserver.tokens import DEFAULT_AUDIENCE, InvalidToken
from trainshed.kube.meta.causes import required
from trainshed.kube.meta.errors import bad_request, invalid
from trainshed.kube.meta.objects import Object
from trainshed.kube.served.rbac import Attributes

_STAR = "*"


def attributes_of(user: User, spec: Object) -> Attributes:
    """Return what an access review asks. Raises `ApiError` 400 unless it is about one thing."""
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (path is None):
        raise bad_request("exactly one of nonResourceAttributes or resourceAttributes must be specified")
    if path is not None:
        return Attributes(
            user=user.username,
            groups=user.groups,
            verb=path.get("verb", ""),
            path=path.get("path", "") or "/",
        )
    assert resource is not None
    return Attributes(
        user=user.username,
        groups=user.groups,
        verb=resource.get("verb", ""),
        group=resource.get("group", ""),
        resource=resource.get("resource", ""),
        subresource=resource.get("subresource", ""),
        namespace=resource.get("namespace", ""),
        name=resource.get("name", ""),
    )


def _decision(core: Core, attributes: Attributes) -> Object:
    allowed, why = core.authorizer.authorize(attributes)
    return {"allowed": allowed, "reason": why} if why else {"allowed": allowed}


async def self_subject_access(core: Core, call: Call, review: Object) -> Object:
    """`kubectl auth can-i`."""
    return {"status": _decision(core, attributes_of(call.user, review.get("spec") or {}))}


async def subject_access(core: Core, call: Call, review: Object) -> Object:
    """The same about another user."""
    spec = review.get("spec") or {}
    if not spec.get("user") and not spec.get("groups"):
        raise invalid(
            call.kind.resource.kind,
            call.kind.resource.group,
            "",
            [required("spec.user", "at least one of user or group must be specified")],
        )
    user = User(spec.get("user", ""), tuple(spec.get("groups") or ()))
    attributes = attributes_of(user, spec)
    if call.route.namespace and attributes.namespace != call.route.namespace:
        raise bad_request("spec.resourceAttributes.namespace must match namespace")
    return {"status": _decision(core, attributes)}


async def self_subject_rules(core: Core, call: Call, review: Object) -> Object:
    """`kubectl auth can-i --list`."""
    namespace = (review.get("spec") or {}).get("namespace") or "default"
    return {"status": core.authorizer.rules(call.user, namespace)}


async def self_subject(core: Core, call: Call, review: Object) -> Object:
    """`kubectl auth whoami`."""
    del core, review
    return {"status": {"userInfo": call.user.as_object()}}


async def token(core: Core, call: Call, review: Object) -> Object:
    """Whose token is this."""
    spec = review.get("spec") or {}
    audiences = spec.get("audiences") or [DEFAULT_AUDIENCE]
    try:
        user = core.authenticator.identify(spec.get("token") or "", call.now, audiences)
    except InvalidToken as error:
        return {"status": {"authenticated": False, "error": str(error), "user": {}}}
    return {"status": {"authenticated": True, "user": user.as_object(), "audiences": audiences}}


_REVIEWS: dict[str, Callable[[Core, Call, Object], Awaitable[Object]]] = {
    "selfsubjectaccessreviews": self_subject_access,
    "subjectaccessreviews": subject_access,
    "localsubjectaccessreviews": subject_access,
    "selfsubjectrulesreviews": self_subject_rules,
    "selfsubjectreviews": self_subject,
    "tokenreviews": token,
}


async def create(core: Core, call: Call) -> Answer:
    """Answer a review: the question comes back with its status."""
    resource = call.kind.resource
    review = await read_object(call, "ignore")
    answered = await _REVIEWS[resource.plural](core, call, review)
    out = {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": {"creationTimestamp": None, **(review.get("metadata") or {})},
        "spec": review.get("spec") or {},
        **answered,
    }
    if resource.plural == "selfsubjectreviews":
        del out["spec"]
    return Answer.json(out, status=201)
