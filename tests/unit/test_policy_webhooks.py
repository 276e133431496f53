"""Which webhooks a request concerns, and what their answers mean."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import CONFIGMAPS, NAMESPACES, PODS, VALIDATINGWEBHOOKS
from trainshed.kube.policy.webhooks import Admitted, Hook, concerns, hooks_of, review_of, unmatched

ANY = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}


def asked(**fields: Any) -> Admitted:
    values: dict[str, Any] = {
        "resource": PODS,
        "subresource": "",
        "operation": "CREATE",
        "name": "p",
        "namespace": "team",
        "object": {"metadata": {"name": "p", "labels": {"app": "a"}}},
        "old": None,
        "user": {"username": "me"},
        "options": {},
        "dry_run": False,
        "namespace_labels": {"stage": "test"},
    }
    return Admitted(**{**values, **fields})


def hook(**spec: Any) -> Hook:
    return Hook("h.example.com", "c", {"rules": [ANY], **spec})


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        ({}, True),
        ({"operations": ["UPDATE"]}, False),
        ({"operations": ["CREATE", "UPDATE"]}, True),
        ({"apiGroups": ["apps"]}, False),
        ({"apiGroups": [""], "resources": ["pods"]}, True),
        ({"resources": ["pods/status"]}, False),
        ({"resources": ["configmaps"]}, False),
        ({"resources": ["*/*"]}, True),
        ({"scope": "Cluster"}, False),
        ({"scope": "Namespaced"}, True),
    ],
)
def test_rules(rule: Object, matches: bool) -> None:
    assert (concerns(hook(rules=[{**ANY, **rule}]), asked()) is not None) is matches


def test_versions_and_subresources() -> None:
    other = hook(rules=[{**ANY, "apiVersions": ["v2"]}])
    assert concerns(other, asked()) is None, "not served"
    served = asked(others=("v2", "v3"))
    assert concerns(other, served) == "v2"
    assert concerns(hook(rules=[*other.spec["rules"], ANY]), served) == "v1", "its own version comes first"
    assert concerns(hook(rules=other.spec["rules"], matchPolicy="Exact"), served) is None
    status = asked(subresource="status")
    assert not concerns(hook(), status)
    assert concerns(hook(rules=[{**ANY, "resources": ["pods/*"]}]), status)


@pytest.mark.parametrize(
    ("spec", "matches"),
    [
        ({"namespaceSelector": {"matchLabels": {"stage": "test"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"stage": "live"}}}, False),
        ({"objectSelector": {"matchLabels": {"app": "a"}}}, True),
        ({"objectSelector": {"matchLabels": {"app": "b"}}}, False),
    ],
)
def test_selectors(spec: Object, matches: bool) -> None:
    assert (concerns(hook(**spec), asked()) is not None) is matches


def test_the_object_before_an_update_is_looked_at_too() -> None:
    chosen = hook(objectSelector={"matchLabels": {"app": "b"}})
    assert concerns(chosen, asked(operation="UPDATE", old={"metadata": {"labels": {"app": "b"}}}))


def test_a_namespace_is_selected_by_its_own_labels() -> None:
    made = asked(
        resource=NAMESPACES, namespace="", object={"metadata": {"name": "n", "labels": {"stage": "live"}}}
    )
    assert concerns(hook(namespaceSelector={"matchLabels": {"stage": "live"}}), made)
    assert not concerns(hook(namespaceSelector={"matchLabels": {"stage": "test"}}), made)


def test_nobody_is_asked_about_webhooks() -> None:
    assert not concerns(hook(), asked(resource=VALIDATINGWEBHOOKS, namespace=""))


def test_order_is_by_name_of_the_configuration() -> None:
    made = [
        {"metadata": {"name": name}, "webhooks": [{"name": f"{name}1"}, {"name": f"{name}2"}]}
        for name in "ba"
    ]
    assert [found.name for found in hooks_of(made)] == ["a1", "a2", "b1", "b2"]


def test_match_conditions() -> None:
    def rule(*expressions: str) -> Hook:
        return hook(matchConditions=[{"name": f"c{i}", "expression": e} for i, e in enumerate(expressions)])

    made = asked(resource=CONFIGMAPS)
    assert not unmatched(rule("request.operation == 'CREATE'", "object.metadata.name == 'p'"), made)
    assert unmatched(rule("request.userInfo.username == 'you'"), made)
    assert unmatched(rule("object.nothing == 1", "false"), made), "one that says no decides"
    with pytest.raises(
        ValueError, match=r"^expression 'object.nothing == 1' resulted in error: no such key: nothing$"
    ):
        unmatched(rule("object.nothing == 1"), made)
    with pytest.raises(
        ValueError, match=r"^\[expression 'object.a == 1' .*, expression 'object.b == 1' .*\]$"
    ):
        unmatched(rule("object.a == 1", "object.b == 1"), made)


def test_the_review_has_the_first_version_that_is_known() -> None:
    assert review_of(hook(admissionReviewVersions=["v9", "v1beta1", "v1"]), asked(), "u")["apiVersion"] == (
        "admission.k8s.io/v1beta1"
    )
    shown = review_of(hook(), asked(others=("v2",), seen_as="v2", name=""), "u")["request"]
    assert (shown["resource"]["version"], shown["requestResource"]["version"]) == ("v2", "v1")
    assert (shown["kind"]["version"], shown["requestKind"]["version"]) == ("v2", "v1")
    assert "name" not in shown
    scaled = review_of(hook(), asked(kind=("autoscaling", "v1", "Scale"), subresource="scale"), "u")[
        "request"
    ]
    assert scaled["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert (scaled["resource"]["resource"], scaled["subResource"]) == ("pods", "scale")
