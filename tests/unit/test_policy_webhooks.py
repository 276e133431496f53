"""Which webhooks a request concerns, and what their answers mean."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import CONFIGMAPS, NAMESPACES, PODS, VALIDATINGWEBHOOKS
from trainshed.kube.policy.webhooks import Admitted, Hook, concerns, hooks_of, unmatched, verdict

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
    assert concerns(hook(rules=[{**ANY, **rule}]), asked()) is matches


def test_versions_and_subresources() -> None:
    other = {**ANY, "apiVersions": ["v2"]}
    assert concerns(hook(rules=[other]), asked())
    assert not concerns(hook(rules=[other], matchPolicy="Exact"), asked())
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
    assert concerns(hook(**spec), asked()) is matches


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
    with pytest.raises(ValueError, match="match condition c0"):
        unmatched(rule("object.nothing == 1"), made)


def answer(**response: Any) -> bytes:
    return msgspec.json.encode({"response": {"uid": "u", "allowed": True, **response}})


def test_answers() -> None:
    patch = base64.b64encode(b'[{"op":"remove","path":"/a"}]').decode()
    found = verdict(hook(), answer(patch=patch, patchType="JSONPatch", warnings=["w"]), "u")
    assert found.patch == [{"op": "remove", "path": "/a"}] and found.warnings == ("w",)
    refused = verdict(hook(), answer(allowed=False, status={"code": 200, "reason": "Why"}), "u").refusal
    assert refused is not None and refused.code == 400
    assert refused.message == 'admission webhook "h.example.com" denied the request: Why'


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"nonsense", "could not decode"),
        (b"[]", "absent"),
        (b"{}", "absent"),
        (answer(uid="v"), "expected response.uid"),
        (answer(patch="e30=", patchType="Merge"), "unsupported"),
        (answer(patch="###", patchType="JSONPatch"), "cannot be decoded"),
    ],
)
def test_answers_that_are_none(body: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        verdict(hook(), body, "u")
