"""Questions to the authorizer: what a user may do. Source: the Kubernetes documentation, "CEL in Kubernetes"."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeAlias

import msgspec

from trainshed.kube.cel.library.overloads import member
from trainshed.kube.cel.values import EvaluationError
from trainshed.kube.meta import names
from trainshed.kube.meta.objects import Object

Asked: TypeAlias = Callable[[Object, Object], tuple[bool, str]]
"""Whether a user (`userInfo`) may do what the `spec` of a SubjectAccessReview says, and why."""


class Authorizer(msgspec.Struct, frozen=True):
    """The authorizer, asked for one user."""

    type_name: ClassVar[str] = "kubernetes.authorization.Authorizer"
    asks: Asked
    user: Object
    request: Object | None = None
    """The attributes of the resource that the request at hand is about."""


class PathCheck(msgspec.Struct, frozen=True):
    """A question about a path of the server."""

    type_name: ClassVar[str] = "kubernetes.authorization.PathCheck"
    of: Authorizer
    path: str


class GroupCheck(msgspec.Struct, frozen=True):
    """A question about an API group."""

    type_name: ClassVar[str] = "kubernetes.authorization.GroupCheck"
    of: Authorizer
    group: str


class ResourceCheck(msgspec.Struct, frozen=True):
    """A question about a resource."""

    type_name: ClassVar[str] = "kubernetes.authorization.ResourceCheck"
    of: Authorizer
    attributes: Object


class Decision(msgspec.Struct, frozen=True):
    """What the authorizer said."""

    type_name: ClassVar[str] = "kubernetes.authorization.Decision"
    allowed: bool
    reason: str


@member("path", Authorizer, str)
def _path(held: Authorizer, path: str) -> PathCheck:
    if not path:
        raise EvaluationError("path must not be empty")
    return PathCheck(held, path)


@member("serviceAccount", Authorizer, str, str)
def _service_account(held: Authorizer, namespace: str, name: str) -> Authorizer:
    if names.dns_subdomain(name):
        raise EvaluationError("Invalid service account name")
    if names.dns_label(namespace):
        raise EvaluationError("Invalid service account namespace")
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    user: Object = {"username": f"system:serviceaccount:{namespace}:{name}", "groups": groups}
    return Authorizer(held.asks, user, held.request)


def _with(held: ResourceCheck, **said: str) -> ResourceCheck:
    return ResourceCheck(held.of, {**held.attributes, **said})


@member("check", PathCheck, str)
def _check_path(held: PathCheck, verb: str) -> Decision:
    return Decision(*held.of.asks(held.of.user, {"nonResourceAttributes": {"path": held.path, "verb": verb}}))


@member("check", ResourceCheck, str)
def _check_resource(held: ResourceCheck, verb: str) -> Decision:
    return Decision(*held.of.asks(held.of.user, {"resourceAttributes": {**held.attributes, "verb": verb}}))


member("group", Authorizer, str)(GroupCheck)
member("resource", GroupCheck, str)(
    lambda held, plural: ResourceCheck(held.of, {"group": held.group, "version": "*", "resource": plural})
)
member("subresource", ResourceCheck, str)(lambda held, value: _with(held, subresource=value))
member("namespace", ResourceCheck, str)(lambda held, value: _with(held, namespace=value))
member("name", ResourceCheck, str)(lambda held, value: _with(held, name=value))
# A rule of RBAC does not look at selectors, so they change no answer.
member("fieldSelector", ResourceCheck, str)(lambda held, value: held)
member("labelSelector", ResourceCheck, str)(lambda held, value: held)
member("allowed", Decision)(lambda held: held.allowed)
member("reason", Decision)(lambda held: held.reason)
member("errored", Decision)(lambda held: False)
member("error", Decision)(lambda held: "")
