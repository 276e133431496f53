"""`serviceaccounts/token`: issue a token for a ServiceAccount."""

from __future__ import annotations

from trainshed.cluster.apiserver.admission.parts import admitted
from trainshed.cluster.apiserver.body import read_request
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.http import Answer
from trainshed.cluster.apiserver.tokens import DEFAULT_AUDIENCE, DEFAULT_SECONDS, MAX_SECONDS, MIN_SECONDS
from trainshed.cluster.store import keys
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import bad_request, conflict, invalid, not_found
from trainshed.kube.meta.objects import Object, metadata_of, spec_of
from trainshed.kube.meta.resources import NODES, PODS, SECRETS
from trainshed.kube.meta.times import format_time
from trainshed.kube.wire.options import CreateOptions

_BINDABLE = {resource.kind: resource for resource in (PODS, SECRETS, NODES)}


async def create(core: Core, call: Call) -> Answer:
    """Return the TokenRequest with its status filled in."""
    options = CreateOptions.decode(call.request.query)
    request = await read_request(call, "io.k8s.api.authentication.v1.TokenRequest")
    name, namespace = call.route.name, call.route.namespace or ""
    account = core.store.get(call.kind.key(namespace, name))
    if account is None:
        raise call.kind.missing(name)
    kind = ("authentication.k8s.io", "v1", "TokenRequest")
    request = await admitted(core, call, _asked_for(request), kind, dry_run=bool(options.dry_run))
    spec = {key: value for key, value in spec_of(request).items() if value is not None}
    seconds = _seconds(spec)
    audiences = spec.get("audiences") or [DEFAULT_AUDIENCE]
    bound = _bound(core, namespace, spec.get("boundObjectRef"), name)
    token = core.authenticator.issuer.issue(
        account.obj, audiences=audiences, seconds=seconds, now=call.now, bound=bound
    )
    given = {key: value for key, value in metadata_of(request).items() if value is not None}
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": call.timestamp}
    out = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {**metadata, **given},
        "spec": {"boundObjectRef": None, **spec, "audiences": audiences, "expirationSeconds": seconds},
        "status": {"token": token, "expirationTimestamp": format_time(int(call.now) + seconds)},
    }
    return Answer.json(out, status=201)


def _asked_for(request: Object) -> Object:
    """Return a request as admission sees it: with its default, and an empty status."""
    spec = {
        "audiences": None,
        "boundObjectRef": None,
        "expirationSeconds": DEFAULT_SECONDS,
        **spec_of(request),
    }
    return {**request, "spec": spec, "status": {"token": "", "expirationTimestamp": None}}


def _seconds(spec: Object) -> int:
    seconds: int | None = spec.get("expirationSeconds")
    if seconds is None:
        return DEFAULT_SECONDS
    if isinstance(seconds, bool) or not isinstance(seconds, int):
        raise bad_request("spec.expirationSeconds must be an integer")
    problem = ""
    if seconds < MIN_SECONDS:
        problem = "may not specify a duration less than 10 minutes"
    elif seconds > MAX_SECONDS:
        problem = "may not specify a duration larger than 2^32 seconds"
    if problem:
        cause = causes.invalid("spec.expirationSeconds", seconds, problem)
        raise invalid("TokenRequest", "authentication.k8s.io", "", [cause])
    return seconds


def _go_kind(reference: Object) -> str:
    group, _, version = str(reference.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={reference.get('kind') or ''}"


def _bound(core: Core, namespace: str, reference: Object | None, account: str) -> dict[str, Object]:
    """Return what the token is bound to, each part by its name in the token: an object, and of a pod its node.

    Raises:
        ApiError: 400, 404 or 409 when the token cannot be bound to what is named.
    """
    if reference is None:
        return {}
    group = str(reference.get("apiVersion") or "").rpartition("/")[0]
    kind = reference.get("kind")
    resource = _BINDABLE.get(kind) if not group and isinstance(kind, str) else None
    if resource is None:
        raise bad_request(f"cannot bind token to object of type {_go_kind(reference)}")
    name = reference.get("name") or ""
    if not name:
        raise bad_request("Name parameter required.")
    stored = core.store.get(keys.of(resource, namespace if resource.namespaced else None, name))
    if stored is None:
        raise not_found(resource.plural, "", name)
    obj = stored.obj
    if resource is PODS and spec_of(obj).get("serviceAccountName") != account:
        why = f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
        raise bad_request(why)
    if reference.get("uid") not in (None, "", obj["metadata"]["uid"]):
        why = (
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. The"
            " object might have been deleted and then recreated"
        )
        raise conflict(resource.kind, "", name, why)
    bound = {resource.kind.lower(): obj}
    node = spec_of(obj).get("nodeName") if resource is PODS else None
    if node:
        its = core.store.get(keys.of(NODES, None, node))
        bound["node"] = {"metadata": {"name": node}} if its is None else its.obj
    return bound
