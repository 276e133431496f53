"""What rules cost while they run, and that those which cost too much are stopped."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.kube.cel.program import CostExceeded, compiled
from trainshed.kube.schema import cel
from trainshed.kube.schema.cel import evaluate_rules
from trainshed.kube.schema.nodes import from_crd


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ("1 + 1", 1),
        ("self.a == 1", 3),
        ("has(self.a)", 1),
        ("self.l.all(x, x > 0)", 2 + 3 * (3 + 1 + 1) + 1),
        ("self.l.exists(x, x == 2)", 2 + 2 * (4 + 1 + 1) + 1),
        ("self.l.map(x, x)", 2 + 3 * (12 + 1) + 11),
        ("[1, 2]", 10),
        ("{'a': 1}", 30),
        ("self.t.startsWith('0123456789a')", 2 + 2),
        ("self.t.matches('0123')", 2 + 2 * 1),
        ("self.t.contains('a')", 2 + 2 * 1),
        ("3 in self.l", 2 + 3),
        ("quantity('1Gi').isLessThan(quantity('2Gi'))", 3),
    ],
)
def test_costs_are_those_of_kubernetes(expression: str, cost: int) -> None:
    variables = {"self": {"a": 1, "l": [1, 2, 3], "t": "x" * 19}}
    assert compiled(expression).run(variables)[1] == cost


def test_an_expression_is_stopped_at_its_limit() -> None:
    program = compiled("[1, 2, 3].all(x, x > 0)")
    (_, cost) = program.run({})
    assert program.run({}, cost)[0] is True
    with pytest.raises(CostExceeded, match="operation cancelled: actual cost limit exceeded"):
        program.run({}, cost - 1)


def test_nothing_absorbs_the_end() -> None:
    with pytest.raises(CostExceeded):
        compiled("[1, 2].all(x, true) || true").run({}, 5)


def schema(rule: str) -> Any:
    items = {"type": "array", "items": {"type": "integer"}}
    return from_crd(
        {
            "type": "object",
            "properties": {"l": items},
            "x-kubernetes-validations": [{"rule": rule, "message": "no"}],
        }
    )


def test_nested_macros_over_a_large_list_are_stopped() -> None:
    rule = "self.l.all(a, self.l.all(b, self.l.all(c, self.l.all(d, a + b + c + d >= 0))))"
    (cause,) = evaluate_rules({"l": list(range(80))}, None, schema(rule))  # to run it would take a minute
    said = "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to"
    assert cause.message == f'Invalid value: "object": {said} call cost exceeds limit for rule: no'
    assert evaluate_rules({"l": list(range(8))}, None, schema(rule)) == []


def test_uniqueness_in_a_list_of_350_items_is_checked() -> None:
    rule = "self.l.all(a, self.l.exists_one(b, a == b))"
    assert evaluate_rules({"l": list(range(350))}, None, schema(rule)) == []
    (cause,) = evaluate_rules({"l": [1, *range(349)]}, None, schema(rule))
    assert cause.message == 'Invalid value: "object": no'


def test_many_cheap_rules_run_out_of_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cel.BUDGET == 10_000_000, "as in Kubernetes, for which it would take 300,000 items"
    monkeypatch.setattr(cel, "BUDGET", cel.BUDGET // 100)
    item = {
        "type": "object",
        "x-kubernetes-validations": [{"rule": "[1].map(x, [1, 2]).size() == size(self)"}],
    }
    tree = from_crd({"type": "object", "properties": {"l": {"type": "array", "items": item}}})
    causes = evaluate_rules({"l": [{"a": 1}] * 3_000}, None, tree)
    assert causes[-1].message.endswith(
        "validation failed due to running out of cost budget, no further validation rules will be run"
    )
    assert len(causes) < 3_000
    assert evaluate_rules({"l": [{"a": 1}] * 1_000}, None, tree) == []
