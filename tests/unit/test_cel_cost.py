"""What rules cost before they run, and that those which cost too much do not."""

from __future__ import annotations

import time
from typing import Any

import pytest

from trainshed.kube.schema.cel import evaluate_rules
from trainshed.kube.schema.cel_cost import MAX_RULE_STEPS, RULE_STEPS, chains, steps
from trainshed.kube.schema.nodes import from_crd


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("self.a == 1", ()),
        ("self.l.all(a, a > 0)", (("l",),)),
        ("self.l.all(a, self.m.exists(b, a == b)) && self.k.map(c, c)", (("l",), ("l", "m"), ("k",))),
        ("size(self.l.filter(x, (x > 0)))", (("l",),)),
        ("self.l.all(a, a != ').all(')", (("l",),)),
        ("[1, 2].all(a, f(a).exists(b, b))", (("",), ("", ""))),
    ],
)
def test_nesting(rule: str, expected: Any) -> None:
    assert chains(rule) == expected


def test_steps_follow_the_sizes_of_what_is_gone_over() -> None:
    value = {"containers": [{"ports": [1, 2, 3]}] * 5, "labels": {str(i): "" for i in range(300)}}
    rule = "self.containers.all(c, c.ports.all(p, p > 0))"
    assert steps(rule, value) == RULE_STEPS + 1 + 5 + 15
    assert steps("self.labels.all(k, k != '')", value) == RULE_STEPS + 1 + 300
    assert steps("self.a", {"a": "x" * 5_000_000}) > 5_000


def schema(rule: str) -> Any:
    items = {"type": "array", "items": {"type": "integer"}}
    return from_crd(
        {
            "type": "object",
            "properties": {"l": items},
            "x-kubernetes-validations": [{"rule": rule, "message": "no"}],
        }
    )


def test_nested_macros_over_a_large_list_are_refused_at_once() -> None:
    rule = "self.l.all(a, self.l.all(b, self.l.all(c, self.l.all(d, a + b + c + d >= 0))))"
    started = time.perf_counter()
    (cause,) = evaluate_rules({"l": list(range(80))}, None, schema(rule))
    assert time.perf_counter() - started < 1.0  # to run it would take a minute
    assert (
        f"no further validation rules will be run due to call cost exceeds limit for rule: {rule}"
        in cause.message
    )
    assert evaluate_rules({"l": list(range(8))}, None, schema(rule)) == []


def test_uniqueness_in_a_list_of_400_items_is_checked() -> None:
    rule = "self.l.all(a, self.l.exists_one(b, a == b))"
    assert evaluate_rules({"l": list(range(400))}, None, schema(rule)) == []
    (cause,) = evaluate_rules({"l": [1, *range(399)]}, None, schema(rule))
    assert cause.message == "Invalid value: no"


def test_many_cheap_rules_run_out_of_budget() -> None:
    item = {"type": "object", "x-kubernetes-validations": [{"rule": "size(self) == 0"}]}
    tree = from_crd({"type": "object", "properties": {"l": {"type": "array", "items": item}}})
    (cause,) = evaluate_rules({"l": [{}] * 60_000}, None, tree)
    assert "validation failed due to running out of cost budget" in cause.message
    assert evaluate_rules({"l": [{}] * 1_000}, None, tree) == []
    assert MAX_RULE_STEPS > 1_000
