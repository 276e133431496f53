"""Which rules cover which."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.kube.served.escalation import missing


def rule(
    verbs: str, resources: str = "", *, groups: str = "", names: str = "", urls: str = ""
) -> dict[str, Any]:
    out: dict[str, Any] = {"verbs": verbs.split()}
    if resources:
        out |= {"resources": resources.split(), "apiGroups": groups.split(",")}
    if names:
        out["resourceNames"] = names.split()
    if urls:
        out["nonResourceURLs"] = urls.split()
    return out


GET_PODS = '{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'
GET_PATH = '{NonResourceURLs:["/metrics/a"], Verbs:["get"]}'


@pytest.mark.parametrize(
    ("held", "wanted", "lacking"),
    [
        ([], rule("get", "pods"), [GET_PODS]),
        ([rule("*", "*", groups="*")], rule("get escalate", "pods nodes/status", groups=",apps"), []),
        ([rule("get", "pods"), rule("list", "pods")], rule("get list", "pods"), []),
        ([rule("get", "pods")], rule("*", "pods"), ['{APIGroups:[""], Resources:["pods"], Verbs:["*"]}']),
        (
            [rule("get", "pods")],
            rule("get", "pods/log"),
            ['{APIGroups:[""], Resources:["pods/log"], Verbs:["get"]}'],
        ),
        ([rule("get", "*/scale", groups="*")], rule("get", "deployments/scale", groups="apps"), []),
        ([rule("get", "pods", names="a")], rule("get", "pods", names="a"), []),
        (
            [rule("get", "pods", names="a")],
            rule("get", "pods"),
            [GET_PODS],
        ),
        (
            [rule("get", "pods", names="a")],
            rule("get list", "pods", names="a b"),
            [
                '{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["list"]}',
                '{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get" "list"]}',
            ],
        ),
        ([rule("get", urls="/metrics/*")], rule("get", urls="/metrics/a"), []),
        (
            [rule("get", urls="/metrics")],
            rule("get", urls="/metrics/a"),
            [GET_PATH],
        ),
        ([rule("*", "*", groups="*")], rule("get", urls="/x"), ['{NonResourceURLs:["/x"], Verbs:["get"]}']),
        # Neither rule alone allows to delete deployments.
        (
            [rule("delete", "pods"), rule("get", "deployments")],
            rule("delete", "deployments"),
            ['{APIGroups:[""], Resources:["deployments"], Verbs:["delete"]}'],
        ),
    ],
)
def test_what_is_lacking(held: list[Any], wanted: dict[str, Any], lacking: list[str]) -> None:
    assert missing(held, [wanted]) == lacking
