"""Whether a user may do something: role-based access control over the roles in the store."""

from __future__ import annotations

from typing import Protocol

from trainshed.cluster.apiserver.identity import User
from trainshed.cluster.store import Compacted, Store
from trainshed.kube.meta.objects import Object
from trainshed.kube.served.rbac import Attributes, Policy

_PREFIX = "/rbac.authorization.k8s.io/"


class Authorizer(Protocol):
    """Decides. Both methods are called once or more per request and must not block."""

    def authorize(self, attributes: Attributes) -> tuple[bool, str]:
        """Return whether the request is allowed, and why."""
        ...

    def rules(self, user: User, namespace: str) -> Object:
        """Return the `status` of a SelfSubjectRulesReview."""
        ...


class RbacAuthorizer:
    """Evaluates Roles and bindings as they are in the store now.

    The index over them is rebuilt when one of them changed since the last question, which a watch tells.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watch = store.watch(_PREFIX, store.revision)
        self._policy: Policy | None = None

    def authorize(self, attributes: Attributes) -> tuple[bool, str]:
        return self._current().authorize(attributes)

    def rules(self, user: User, namespace: str) -> Object:
        return self._current().rules_for(user.username, user.groups, namespace)

    def _current(self) -> Policy:
        try:
            changed = bool(self._watch.drain())
        except Compacted:
            self._watch = self._store.watch(_PREFIX, self._store.revision)
            changed = True
        if self._policy is None or changed:
            self._policy = Policy(
                self._objects("roles"),
                self._objects("rolebindings"),
                self._objects("clusterroles"),
                self._objects("clusterrolebindings"),
            )
        return self._policy

    def _objects(self, plural: str) -> list[Object]:
        return [stored.obj for stored in self._store.list(f"{_PREFIX}{plural}/")[0]]
