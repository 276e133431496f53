"""Questions about users: who am I, may I, who is this token. Nothing is stored.

Source: the authentication.k8s.io and authorization.k8s.io API references.
"""

from __future__ import annotations

from trainshed.cluster.apiserver.access import User
from trainshed.cluster.apiserver.body import read_object
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.http import Answer
from trainshed.cluster.apiserver.options import managed
from trainshed.cluster.apiserver.rendering import yaml_answer
from trainshed.cluster.apiserver.tokens import DEFAULT_AUDIENCE, InvalidToken
from trainshed.kube.meta.errors import OTHER_NAMESPACE, bad_request, invalid
from trainshed.kube.meta.objects import Object, metadata_of, spec_of
from trainshed.kube.patch.managedfields import track_update
from trainshed.kube.policy.accessreviews import evaluation_error, review_causes
from trainshed.kube.policy.attributes import Attributes
from trainshed.kube.wire.negotiate import for_plain
from trainshed.kube.wire.options import CreateOptions


def attributes_of(user: User, spec: Object) -> Attributes:
    """Return what an access review asks, which is about one thing."""
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
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


def _decision(core: Core, user: User, spec: Object) -> Object:
    """Return whether somebody may do what a review asks."""
    allowed, why = core.authorizer.authorize(attributes_of(user, spec))
    out: Object = {"allowed": allowed, "reason": why} if why else {"allowed": allowed}
    unread = evaluation_error(spec)
    return {**out, "evaluationError": unread} if unread else out


def _token(core: Core, now: float, spec: Object) -> Object:
    audiences = spec.get("audiences") or [DEFAULT_AUDIENCE]
    token = spec.get("token") or ""
    try:
        user = core.authenticator.identify(token, now, audiences)
    except InvalidToken:
        return {"error": "invalid bearer token", "user": {}}
    return {
        "authenticated": True,
        "user": user.as_object(),
        "audiences": core.authenticator.audiences(token, now, audiences),
    }


def _status(core: Core, call: Call, review: Object) -> Object:
    """Return the answer to a question. Raises `ApiError` 400, 422."""
    spec = spec_of(review)
    match call.kind.resource.plural:
        case "selfsubjectrulesreviews":  # kubectl auth can-i --list
            if not spec.get("namespace"):
                raise bad_request("no namespace on request")
            return core.authorizer.rules(call.user, spec["namespace"])
        case "selfsubjectreviews":  # kubectl auth whoami
            return {"userInfo": call.user.as_object()}
        case "tokenreviews":
            if not spec.get("token"):
                raise bad_request("token is required for TokenReview in authentication")
            return _token(core, call.now, spec)
        case "selfsubjectaccessreviews":  # kubectl auth can-i
            about, user = "self", call.user
        case _:
            about, user = "others", User(spec.get("user", ""), tuple(spec.get("groups") or ()))
    wrong = list(review_causes(review, about=about, namespace=call.route.namespace))
    if wrong:
        raise invalid("", "authorization.k8s.io", "", wrong)
    return _decision(core, user, spec)


def _placed(call: Call, review: Object) -> Object:
    """Return a question as one of its namespace. Raises `ApiError` 400 when it names another."""
    metadata = {key: value for key, value in metadata_of(review).items() if key != "namespace"}
    if call.route.namespace is not None:
        if metadata_of(review).get("namespace") not in (None, "", call.route.namespace):
            raise bad_request(OTHER_NAMESPACE)
        metadata["namespace"] = call.route.namespace
    return {**review, "metadata": metadata}


async def create(core: Core, call: Call) -> Answer:
    """Answer a review: the question comes back with its status."""
    resource = call.kind.resource
    wanted = for_plain(call.request.headers.get("accept"))
    review = _placed(call, await read_object(call, "ignore"))
    spec = spec_of(review)
    if resource.plural == "tokenreviews":
        await core.authenticator.prepare(spec.get("token") or "")
    options = managed(CreateOptions.decode(call.request.query), call.request)
    # The answer is of itself, not the question with a status.
    of_rules = resource.plural == "selfsubjectrulesreviews"
    tracked = (
        {"metadata": {}}
        if of_rules
        else track_update(
            None, review, call.kind.schema, manager=options.field_manager, subresource="", now=call.timestamp
        )
    )
    out: Object = {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": {"creationTimestamp": None, **metadata_of(tracked)},
        "spec": {} if of_rules else spec,
        "status": _status(core, call, review),
    }
    if resource.plural == "selfsubjectreviews":
        del out["spec"]
        out["metadata"] = {"creationTimestamp": call.timestamp}
    return yaml_answer(out, 201) if wanted.form == "yaml" else Answer.json(out, status=201)
