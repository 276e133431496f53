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
from trainshed.kube.meta import golang
from trainshed.kube.meta.causes import invalid as invalid_value
from trainshed.kube.meta.causes import invalid_shown
from trainshed.kube.meta.errors import ApiError, bad_request, invalid
from trainshed.kube.meta.objects import Object, metadata_of, spec_of
from trainshed.kube.patch.managedfields import track_update
from trainshed.kube.policy.attributes import Attributes
from trainshed.kube.wire.negotiate import for_plain
from trainshed.kube.wire.options import CreateOptions


def _disallowed(path: Object, why: str) -> ApiError:
    texts = ", ".join(f"{name}:{golang.text(path.get(name.lower()))}" for name in ("Path", "Verb"))
    shown = f"authorization.NonResourceAttributes{{{texts}}}"
    cause = invalid_shown("spec.nonResourceAttributes", shown, why)
    return invalid("", "authorization.k8s.io", "", [cause])


def attributes_of(user: User, spec: Object) -> Attributes:
    """Return what an access review asks. Raises `ApiError` 422 unless it is about one thing."""
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        raise _disallowed(path, "cannot be specified in combination with resourceAttributes")
    if resource is None and path is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise invalid(
            "", "authorization.k8s.io", "", [invalid_value("spec.resourceAttributes", "null", text)]
        )
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


def _subject(call: Call, spec: Object) -> Attributes:
    """Return what a review asks about a user that it names. Raises `ApiError` 400, 422."""
    if not spec.get("user") and not spec.get("groups"):
        text = "at least one of user or group must be specified"
        raise invalid("", "authorization.k8s.io", "", [invalid_value("spec.user", "", text)])
    if call.route.namespace and spec.get("nonResourceAttributes") is not None:
        raise _disallowed(spec["nonResourceAttributes"], "disallowed on this kind of request")
    attributes = attributes_of(User(spec.get("user", ""), tuple(spec.get("groups") or ())), spec)
    if call.route.namespace and attributes.namespace != call.route.namespace:
        cause = invalid_value(
            "spec.resourceAttributes.namespace", attributes.namespace, "must match metadata.namespace"
        )
        raise invalid("", "authorization.k8s.io", "", [cause])
    return attributes


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


def _status(core: Core, call: Call, spec: Object) -> Object:
    """Return the answer to the question in `spec`."""
    match call.kind.resource.plural:
        case "selfsubjectaccessreviews":  # kubectl auth can-i
            return _decision(core, attributes_of(call.user, spec))
        case "selfsubjectrulesreviews":  # kubectl auth can-i --list
            if not spec.get("namespace"):
                raise bad_request("no namespace on request")
            return core.authorizer.rules(call.user, spec["namespace"])
        case "selfsubjectreviews":  # kubectl auth whoami
            return {"userInfo": call.user.as_object()}
        case "tokenreviews":
            return _token(core, call.now, spec)
    return _decision(core, _subject(call, spec))


async def create(core: Core, call: Call) -> Answer:
    """Answer a review: the question comes back with its status."""
    resource = call.kind.resource
    wanted = for_plain(call.request.headers.get("accept"))
    review = await read_object(call, "ignore")
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
        "status": _status(core, call, spec),
    }
    if resource.plural == "selfsubjectreviews":
        del out["spec"]
        out["metadata"]["creationTimestamp"] = call.timestamp
    return yaml_answer(out, 201) if wanted.form == "yaml" else Answer.json(out, status=201)
