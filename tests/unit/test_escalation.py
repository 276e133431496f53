"""Which rules cover which."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.kube.served.escalation import MAX_RIGHTS, TooManyRights, missing, rights


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


def test_rules_that_multiply_are_compared_as_a_whole_or_not_at_all() -> None:
    many = " ".join(f"n{number}" for number in range(200))
    wanted = rule(many, many, groups=many.replace(" ", ","), names=many)
    assert rights([wanted]) == 200**4
    assert missing([rule("*", "*", groups="*")], [wanted]) == []
    assert missing([rule(many, many, groups="*", names=many)], [wanted]) == []
    with pytest.raises(TooManyRights):
        missing([rule("get", "*", groups="*")], [wanted])
    few = rule("get", many, groups="")
    assert rights([few]) < MAX_RIGHTS
    assert len(missing([rule("get", "n1 n2", groups="")], [few])) == 198
