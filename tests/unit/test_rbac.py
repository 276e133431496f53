"""RBAC evaluation: rules, bindings, subjects, aggregation."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.kube.policy.attributes import Attributes
from trainshed.kube.served.rbac import Policy, aggregated_rules, allowed, authorize


def role(name: str, *rules: Any, namespace: str = "", labels: Any = None, **extra: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels or {}}
    if namespace:
        metadata["namespace"] = namespace
    return {"metadata": metadata, "rules": list(rules), **extra}


def rule(
    verbs: str, resources: str = "", groups: str = "", names: str = "", urls: str = ""
) -> dict[str, Any]:
    out: dict[str, Any] = {"verbs": verbs.split()}
    if resources:
        out["resources"] = resources.split()
        out["apiGroups"] = groups.split(",")
    if names:
        out["resourceNames"] = names.split()
    if urls:
        out["nonResourceURLs"] = urls.split()
    return out


def binding(name: str, kind: str, role_name: str, *subjects: Any, namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    return {"metadata": metadata, "roleRef": {"kind": kind, "name": role_name}, "subjects": list(subjects)}


def asks(verb: str, resource: str = "pods", **fields: Any) -> Attributes:
    name, _, subresource = resource.partition("/")
    return Attributes(
        user=fields.pop("user", "ann"), verb=verb, resource=name, subresource=subresource, **fields
    )


ANN = {"kind": "User", "name": "ann"}


@pytest.mark.parametrize(
    ("granted", "request_", "expected"),
    [
        (rule("get list", "pods"), asks("get"), True),
        (rule("get list", "pods"), asks("delete"), False),
        (rule("*", "*", "*"), asks("delete", "jobs/status", group="batch"), True),
        (rule("get", "pods"), asks("get", "pods/log"), False),
        (rule("get", "pods/log"), asks("get", "pods/log"), True),
        (rule("get", "pods/log"), asks("get", "pods"), False),
        (rule("get", "*/scale", "*"), asks("get", "deployments/scale", group="apps"), True),
        (rule("get", "*/scale", "*"), asks("get", "deployments", group="apps"), False),
        (rule("get", "jobs", "batch"), asks("get", "jobs", group="batch"), True),
        (rule("get", "jobs", "batch"), asks("get", "jobs"), False),
        (rule("get", "jobs", ",batch"), asks("get", "jobs"), True),
        (rule("get", "pods", names="a b"), asks("get", name="b"), True),
        (rule("get", "pods", names="a b"), asks("get", name="c"), False),
        (rule("list", "pods", names="a"), asks("list"), False),
        (rule("get", urls="/healthz /metrics/*"), asks("get", "", path="/healthz"), True),
        (rule("get", urls="/healthz /metrics/*"), asks("get", "", path="/metrics/x"), True),
        (rule("get", urls="/healthz"), asks("get", "", path="/healthz/x"), False),
        (rule("get", urls="*"), asks("get", "", path="/any"), True),
        (rule("get", "*", "*"), asks("get", "", path="/any"), False),
        (rule("get", urls="*"), asks("get", "pods"), False),
    ],
)
def test_rules(granted: Any, request_: Attributes, expected: bool) -> None:
    assert allowed([granted], request_) is expected


def test_role_binding_holds_in_its_namespace_only() -> None:
    roles = [role("r", rule("get", "pods"), namespace="a")]
    bindings = [binding("b", "Role", "r", ANN, namespace="a")]
    assert authorize(asks("get", namespace="a"), roles=roles, role_bindings=bindings) == (
        True,
        'RBAC: allowed by RoleBinding "b/a" of Role "r" to User "ann"',
    )
    assert authorize(asks("get", namespace="b"), roles=roles, role_bindings=bindings) == (False, "")
    assert authorize(asks("get"), roles=roles, role_bindings=bindings) == (False, "")
    assert authorize(asks("get", namespace="a", user="bob"), roles=roles, role_bindings=bindings)[0] is False


def test_role_binding_to_a_cluster_role() -> None:
    policy = Policy(
        cluster_roles=[role("view", rule("get", "pods"), rule("get", urls="*"))],
        role_bindings=[binding("b", "ClusterRole", "view", ANN, namespace="a")],
    )
    assert policy.authorize(asks("get", namespace="a"))[0]
    assert not policy.authorize(asks("get", namespace="b"))[0]
    assert not policy.authorize(asks("get", "", path="/metrics"))[0]


def test_cluster_role_binding_holds_everywhere() -> None:
    policy = Policy(
        cluster_roles=[role("view", rule("get", "pods nodes"), rule("get", urls="/metrics"))],
        cluster_role_bindings=[binding("b", "ClusterRole", "view", ANN)],
    )
    assert policy.authorize(asks("get", namespace="a"))[0]
    assert policy.authorize(asks("get", "nodes"))[0]
    assert policy.authorize(asks("get", "", path="/metrics"))[0]


@pytest.mark.parametrize(
    ("subject", "user", "groups", "expected"),
    [
        ({"kind": "Group", "name": "g"}, "x", ("g",), True),
        ({"kind": "Group", "name": "g"}, "g", (), False),
        ({"kind": "User", "name": "g"}, "x", ("g",), False),
        ({"kind": "ServiceAccount", "name": "sa", "namespace": "b"}, "system:serviceaccount:b:sa", (), True),
        ({"kind": "ServiceAccount", "name": "sa"}, "system:serviceaccount:a:sa", (), True),
        ({"kind": "ServiceAccount", "name": "sa"}, "system:serviceaccount:b:sa", (), False),
        ({"kind": "Robot", "name": "x"}, "x", (), False),
    ],
)
def test_subjects(subject: Any, user: str, groups: tuple[str, ...], expected: bool) -> None:
    policy = Policy(
        roles=[role("r", rule("get", "pods"), namespace="a")],
        role_bindings=[binding("b", "Role", "r", subject, namespace="a")],
    )
    assert policy.authorize(asks("get", namespace="a", user=user, groups=groups))[0] is expected


def test_masters_need_no_roles() -> None:
    assert authorize(asks("delete", groups=("system:masters",)))[0]
    rules = Policy().rules_for("x", ["system:masters"], "default")
    assert rules["resourceRules"] == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]


def test_binding_to_a_missing_role_grants_nothing() -> None:
    assert not authorize(asks("get"), cluster_role_bindings=[binding("b", "ClusterRole", "none", ANN)])[0]


def test_aggregation_follows_labels_over_levels() -> None:
    view = role("view", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"to-view": "true"}}]})
    edit = role(
        "edit",
        labels={"to-edit": "true"},
        aggregationRule={
            "clusterRoleSelectors": [
                {"matchLabels": {"to-edit": "true"}},
                {"matchLabels": {"to-view": "true"}},
            ]
        },
    )
    jobs = role("jobs-view", rule("get", "jobs", "batch"), labels={"to-view": "true"})
    jobs_edit = role("jobs-edit", rule("delete", "jobs", "batch"), labels={"to-edit": "true"})
    everything = [view, edit, jobs, jobs_edit]
    assert aggregated_rules(view, everything) == jobs["rules"]
    assert aggregated_rules(edit, everything) == [*jobs_edit["rules"], *jobs["rules"]]
    policy = Policy(
        cluster_roles=everything, cluster_role_bindings=[binding("b", "ClusterRole", "edit", ANN)]
    )
    assert policy.authorize(asks("delete", "jobs", group="batch"))[0]


class Compared(dict[str, Any]):
    """A rule that counts how often it is compared with another."""

    count = 0
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        Compared.count += 1
        return super().__eq__(other)


def test_rules_are_not_compared_each_with_each() -> None:
    """A role with tens of thousands would keep everybody waiting for minutes, whenever any role changes."""
    rules = [Compared(rule("get", f"r{number % 2_000}", "batch")) for number in range(4_000)]
    jobs = role("jobs", *rules, labels={"to-view": "true"})
    view = role("view", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"to-view": "true"}}]})
    assert len(aggregated_rules(view, [view, jobs])) == 2_000
    assert aggregated_rules(jobs, [view, jobs]) is jobs["rules"]
    assert Compared.count == 0


def test_a_malformed_aggregation_selects_nothing() -> None:
    bad = {"matchExpressions": [{"key": "a", "operator": "Bogus"}]}
    good = {"matchLabels": {"to-view": "true"}}
    jobs = role("jobs", rule("get", "jobs", "batch"), labels={"to-view": "true"})
    view = role("view", aggregationRule={"clusterRoleSelectors": [bad, good]})
    assert aggregated_rules(view, [view, jobs]) == jobs["rules"]


def test_rules_for_a_user() -> None:
    policy = Policy(
        roles=[role("r", rule("get", "pods"), namespace="a")],
        cluster_roles=[role("c", rule("get", urls="/x"), rule("list", "nodes", names="n"))],
        role_bindings=[binding("b", "Role", "r", ANN, namespace="a")],
        cluster_role_bindings=[binding("b", "ClusterRole", "c", ANN)],
    )
    nodes = {"verbs": ["list"], "apiGroups": [""], "resources": ["nodes"], "resourceNames": ["n"]}
    pods = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
    paths = [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]
    assert policy.rules_for("ann", [], "a") == {
        "resourceRules": [nodes, pods],
        "nonResourceRules": paths,
        "incomplete": False,
    }
    assert policy.rules_for("ann", [], "b")["resourceRules"] == [nodes]
    assert policy.rules_for("bob", [], "a") == {
        "resourceRules": [],
        "nonResourceRules": [],
        "incomplete": False,
    }
