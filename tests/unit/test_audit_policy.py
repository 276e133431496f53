"""Audit policies: which rule counts for which request."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.kube.meta.objects import Object
from trainshed.kube.policy import audit
from trainshed.kube.policy.attributes import Attributes
from trainshed.kube.policy.audit import Wanted


def policy(*rules: Object, **fields: Any) -> audit.Policy:
    return audit.read({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules), **fields})


def asked(resource: str = "pods", **fields: Any) -> Attributes:
    wanted = {"user": "anna", "groups": ("devs",), "verb": "get", "namespace": "default", **fields}
    return Attributes(resource=resource, **wanted)


def level(rule: Object, request: Attributes) -> str:
    return audit.wanted(policy({"level": "Metadata", **rule}), request).level


@pytest.mark.parametrize(
    ("rule", "request_", "fits"),
    [
        ({}, asked(), True),
        ({"users": ["anna"]}, asked(), True),
        ({"users": ["bob"]}, asked(), False),
        ({"userGroups": ["ops", "devs"]}, asked(), True),
        ({"userGroups": ["ops"]}, asked(), False),
        ({"verbs": ["list"]}, asked(), False),
        ({"namespaces": ["default"]}, asked(), True),
        ({"namespaces": ["other"]}, asked(), False),
        ({"namespaces": [""]}, asked("nodes", namespace=""), True),
        ({"resources": [{"group": ""}]}, asked(), True),
        ({"resources": [{"group": "apps"}]}, asked(), False),
        ({"resources": [{"resources": ["pods"]}]}, asked(), True),
        ({"resources": [{"resources": ["pods"]}]}, asked(subresource="log"), False),
        ({"resources": [{"resources": ["pods/log"]}]}, asked(subresource="log"), True),
        ({"resources": [{"resources": ["pods/*"]}]}, asked(subresource="log"), True),
        ({"resources": [{"resources": ["*/log"]}]}, asked(subresource="log"), True),
        ({"resources": [{"resources": ["*"]}]}, asked(subresource="log"), True),
        ({"resources": [{"resources": ["pods"], "resourceNames": ["a"]}]}, asked(name="a"), True),
        ({"resources": [{"resources": ["pods"], "resourceNames": ["a"]}]}, asked(name="b"), False),
        ({"nonResourceURLs": ["/healthz*"]}, asked("", path="/healthz/ping"), True),
        ({"nonResourceURLs": ["/api"]}, asked("", path="/apis"), False),
        ({"nonResourceURLs": ["*"]}, asked(), False),
        ({"resources": [{"group": ""}]}, asked("", path="/version"), False),
    ],
)
def test_a_rule_fits_as_upstreams_does(rule: Object, request_: Attributes, fits: bool) -> None:
    assert level(rule, request_) == ("Metadata" if fits else "None")


def test_the_first_rule_that_fits_counts() -> None:
    rules = ({"level": "None", "verbs": ["get"]}, {"level": "Request", "omitStages": ["ResponseStarted"]})
    made = policy(*rules, omitStages=["RequestReceived"], omitManagedFields=True)
    assert audit.wanted(made, asked()) == Wanted("None", frozenset({"RequestReceived"}), True)
    found = audit.wanted(made, asked(verb="create"))
    assert found == Wanted("Request", frozenset({"RequestReceived", "ResponseStarted"}), True)
    assert found.request and not found.response
    assert found.has("ResponseComplete") and not found.has("RequestReceived")
    assert not audit.wanted(made, asked()).has("ResponseComplete")


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ([], "it holds no object"),
        ({"kind": "Pod", "apiVersion": "v1"}, "it is no audit.k8s.io/v1 Policy, but v1 Pod"),
        ({"rules": []}, "loaded illegal policy with 0 rules"),
        ({"rules": [{"level": "All"}]}, 'rules[0].level: Unsupported value: "All"'),
        ({"rules": [{"level": "None", "users": "anna"}]}, "Expected `array`"),
        ({"rules": [{"level": "None", "user": ["anna"]}]}, "unknown field `user`"),
        (
            {"rules": [{"level": "None"}], "omitStages": ["Never"]},
            'omitStages[0]: Unsupported value: "Never"',
        ),
        (
            {"rules": [{"level": "None", "namespaces": ["a"], "nonResourceURLs": ["/"]}]},
            "rules cannot apply to both regular resources and non-resource URLs",
        ),
        ({"rules": [{"level": "None", "nonResourceURLs": ["x"]}]}, "must begin with a '/' character"),
        (
            {"rules": [{"level": "None", "nonResourceURLs": ["/*/x"]}]},
            "must be the final character of the rule",
        ),
        (
            {"rules": [{"level": "None", "resources": [{"resourceNames": ["a"]}]}]},
            "using resourceNames requires at least one resource",
        ),
    ],
)
def test_a_wrong_policy_is_refused(document: Any, why: str) -> None:
    if isinstance(document, dict) and "kind" not in document:
        document = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", **document}
    with pytest.raises(ValueError) as refused:
        audit.read(document)
    assert why in str(refused.value)
