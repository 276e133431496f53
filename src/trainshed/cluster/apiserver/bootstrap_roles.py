"""The roles and bindings that a cluster starts with.

`admin`, `edit` and `view` grant what upstream's grant for the kinds served here, which is declared with the kinds, and
collect more through aggregation labels, which manifests of operators use. Source: "Default roles and role
bindings", API reference "Using RBAC Authorization".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainshed.kube.builtin.kind import Builtin
from trainshed.kube.builtin.registry import BUILTINS
from trainshed.kube.meta.objects import Object

_GROUP = "rbac.authorization.k8s.io"
_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_HEALTH = ("/healthz", "/healthz/*", "/livez", "/livez/*", "/readyz", "/readyz/*")
_ISSUER = (
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/",
    "/openid/v1/jwks",
    "/openid/v1/jwks/",
)
_BOOTSTRAPPING = {"kubernetes.io/bootstrapping": "rbac-defaults"}


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str]) -> Object:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def _declared(parts_of: Callable[[Builtin], Sequence[str]], verbs: Sequence[str]) -> list[Object]:
    """Return one rule per group with what its kinds declare to be viewed or edited."""
    found: dict[str, list[str]] = {}
    for kind in BUILTINS:
        resource = kind.info.resource
        for part in parts_of(kind):
            name = f"{resource.plural}/{part}" if part else resource.plural
            found.setdefault(resource.group, []).append(name)
    return [_rule(group, resources, verbs) for group, resources in found.items()]


def _paths(paths: Sequence[str]) -> Object:
    return {"nonResourceURLs": list(paths), "verbs": ["get"]}


def _role(
    name: str, rules: list[Object], *, labels: dict[str, str] | None = None, collects: str = ""
) -> Object:
    out: Object = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {**_BOOTSTRAPPING, **(labels or {})}},
        "rules": rules,
    }
    if collects:
        selector = {"matchLabels": {f"{_GROUP}/aggregate-to-{collects}": "true"}}
        out["aggregationRule"] = {"clusterRoleSelectors": [selector]}
    return out


def _binding(name: str, role: str, groups: Sequence[str]) -> Object:
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": dict(_BOOTSTRAPPING)},
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _GROUP, "kind": "Group", "name": group} for group in groups],
    }


def cluster_roles() -> list[Object]:
    """Return the ClusterRoles that exist from the start."""
    everything: list[Object] = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]
    view = _declared(lambda kind: kind.viewed, _READ)
    edit = _declared(lambda kind: kind.edited, _WRITE)
    edit += [
        _rule("", ("pods/attach", "pods/exec", "pods/portforward", "secrets"), _READ),
        _rule("coordination.k8s.io", ("leases",), _READ),
        _rule("", ("serviceaccounts/token",), ("create",)),
        _rule("", ("serviceaccounts",), ("impersonate",)),
    ]
    admin = [
        _rule(_GROUP, ("rolebindings", "roles"), (*_READ, *_WRITE)),
        _rule("authorization.k8s.io", ("localsubjectaccessreviews",), ("create",)),
    ]
    discovery = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/")
    public = (*_HEALTH, "/version", "/version/")
    reviews = [
        _rule("authorization.k8s.io", ("selfsubjectaccessreviews", "selfsubjectrulesreviews"), ("create",)),
        _rule("authentication.k8s.io", ("selfsubjectreviews",), ("create",)),
    ]

    def labels(target: str) -> dict[str, str]:
        return {f"{_GROUP}/aggregate-to-{target}": "true"}

    return [
        _role("cluster-admin", everything),
        _role("admin", [], collects="admin"),
        _role("edit", [], labels=labels("admin"), collects="edit"),
        _role("view", [], labels=labels("edit"), collects="view"),
        _role("system:aggregate-to-admin", admin, labels=labels("admin")),
        _role("system:aggregate-to-edit", edit, labels=labels("edit")),
        _role("system:aggregate-to-view", view, labels=labels("view")),
        _role("system:discovery", [_paths((*discovery, *public))]),
        _role("system:public-info-viewer", [_paths(public)]),
        _role("system:basic-user", reviews),
        _role("system:monitoring", [_paths((*_HEALTH, "/metrics", "/metrics/slis"))]),
        _role("system:service-account-issuer-discovery", [_paths(_ISSUER)]),
        _role(
            "system:auth-delegator",
            [
                _rule("authentication.k8s.io", ("tokenreviews",), ("create",)),
                _rule("authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
            ],
        ),
    ]


def cluster_role_bindings() -> list[Object]:
    """Return the ClusterRoleBindings that exist from the start."""
    everyone, known = "system:unauthenticated", "system:authenticated"
    return [
        _binding("cluster-admin", "cluster-admin", ["system:masters"]),
        _binding("system:basic-user", "system:basic-user", [known]),
        _binding("system:discovery", "system:discovery", [known]),
        _binding("system:monitoring", "system:monitoring", ["system:monitoring"]),
        _binding(
            "system:service-account-issuer-discovery",
            "system:service-account-issuer-discovery",
            ["system:serviceaccounts"],
        ),
        _binding("system:public-info-viewer", "system:public-info-viewer", [known, everyone]),
    ]
