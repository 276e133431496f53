"""CEL rules: every shape that the seed CRDs use, change rules, texts, and what loads the engine."""

import pytest

from trainshed.kube.cel.functions import has_order, quarter
from trainshed.kube.cel.types import UNBOUNDED, Type, escape
from trainshed.kube.schema.cel import evaluate_rules
from trainshed.kube.schema.nodes import from_crd


def widget(spec, **rule):
    return from_crd({"type": "object", "properties": {"spec": {**spec, "x-kubernetes-validations": [rule]}}})


FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ("self >= 1", 1, 0),
        ("self in ['a','b']", "a", "c"),
        ("self in [1, 2]", 1, 3),
        ("size(self.metadata.name) <= 3", {"metadata": {"name": "abc"}}, {"metadata": {"name": "abcd"}}),
        (
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            {"metadata": {"name": "a-1"}},
            {"metadata": {"name": "1a"}},
        ),
        ("self == '' || self.matches('^x')", "", "y"),
        ("has(self.lastUpdatedTime)", {"lastUpdatedTime": "x"}, {}),
        (
            "[has(self.torch), has(self.mpi)].filter(x, x).size() <= 1",
            {"torch": {}},
            {"torch": {}, "mpi": {}},
        ),
        ("!self.exists(c, c == 'node')", ["a"], ["a", "node"]),
        (
            "self.templates.all(t, !has(t.metadata.namespace) || size(t.metadata.namespace) == 0)",
            {"templates": [{"metadata": {}}, {"metadata": {"namespace": ""}}]},
            {"templates": [{"metadata": {"namespace": "x"}}]},
        ),
        (
            "!(has(self.a) && self.a.b == 'InOrder' && self.list.exists(x, has(x.dependsOn)))",
            {"a": {"b": "InOrder"}, "list": [{}]},
            {"a": {"b": "InOrder"}, "list": [{}, {"dependsOn": []}]},
        ),
        ("self.map(x, x * 2).exists_one(x, x == 4)", [1, 2], [2, 2]),
        ("self.a == (self.b ? {'k': [1]}['k'][0] : 2)", {"a": 1, "b": True}, {"a": 1, "b": False}),
        ("self.startsWith('a') && self.endsWith('z') && self.contains('m')", "amz", "az"),
        ("self.split(',').join('-') == 'a-b' && 'A'.lowerAscii() == 'a'", "a,b", "a"),
        ("bytes(self) == b'ab'", "ab", "b"),
        ("quantity(self).isInteger()", "1.5k", "1.0"),
        ("isIP(self)", "1.2.3.4", "1..2.3"),
        ("url(self).getEscapedPath() == '/a%20b'", "https://x/a b", "https://x/ab"),
        ("string(double(self)) == '0.0015'", "0.0015", "0.015"),
        ("self.find('[0-9]+') == '12' && self.substring(1, 2) == '1'", "x12", "y"),
        (
            "self.sum() == 6 && self.isSorted() && self.max() == 3 && self.indexOf(2) == 1",
            [1, 2, 3],
            [3, 2, 1],
        ),
    ],
)
def test_rule_shapes(rule, good, bad):
    node = widget({"x-kubernetes-preserve-unknown-fields": True}, rule=rule, message="no")
    assert evaluate_rules({"spec": good}, None, node) == []
    (cause,) = evaluate_rules({"spec": bad}, None, node)
    shown = f'Invalid value: "{node.properties["spec"].type}": no'
    assert (cause.reason, cause.field, cause.message) == ("FieldValueInvalid", "spec", shown)


def test_change_rules_run_only_when_there_was_a_value():
    node = widget(TEXT, rule="self == oldSelf", message="field is immutable")
    assert evaluate_rules({"spec": "a"}, None, node) == []
    assert evaluate_rules({"spec": "a"}, {}, node) == []
    assert evaluate_rules({"spec": "a"}, {"spec": "a"}, node) == []
    assert evaluate_rules({}, {"spec": "a"}, node) == []
    (cause,) = evaluate_rules({"spec": "b"}, {"spec": "a"}, node)
    assert cause.message == 'Invalid value: "string": field is immutable'


def test_the_whole_object_is_named_as_a_path_that_is_none():
    node = from_crd({"type": "object", "x-kubernetes-validations": [{"rule": "false"}]})
    (cause,) = evaluate_rules({}, None, node)
    assert (cause.field, cause.message) == ("<nil>", 'Invalid value: "object": failed rule: false')


def test_optional_old_self():
    node = widget(TEXT, rule="oldSelf.hasValue() || self == 'first'", optionalOldSelf=True)
    assert evaluate_rules({"spec": "first"}, None, node) == []
    assert len(evaluate_rules({"spec": "x"}, None, node)) == 1


def test_items_of_map_lists_keep_their_identity():
    items = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {
            "type": "object",
            "properties": {
                "k": TEXT,
                "v": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]},
            },
        },
    }
    node = from_crd({"type": "object", "properties": {"list": items}})
    old = {"list": [{"k": "a", "v": 5}, {"k": "b", "v": 1}]}
    assert (
        evaluate_rules({"list": [{"k": "b", "v": 2}, {"k": "a", "v": 5}, {"k": "c", "v": 0}]}, old, node)
        == []
    )
    (cause,) = evaluate_rules({"list": [{"k": "b", "v": 2}, {"k": "a", "v": 4}]}, old, node)
    assert (cause.field, cause.message) == (
        "list[1].v",
        'Invalid value: "integer": failed rule: self >= oldSelf',
    )


def test_reason_field_path_and_message_expression():
    node = widget(
        FREE,
        rule="self.n < 3",
        reason="FieldValueForbidden",
        fieldPath=".n",
        message="fixed",
        messageExpression="'got ' + string(self.n)",
    )
    (cause,) = evaluate_rules({"spec": {"n": 4}}, None, node)
    assert (cause.reason, cause.field, cause.message) == ("FieldValueForbidden", "spec.n", "Forbidden: got 4")


def test_rules_that_cannot_be_evaluated_refuse():
    overload = "call arguments did not match a supported operator, function or macro signature for rule: m"
    for rule, said in (
        ("self.missing == 1", "no such key: missing evaluating rule: m"),
        ("self + 1 == 1", f"'no such overload': {overload}"),
        (
            "nope(self)",
            "rule compile error: compilation failed: undeclared reference to 'nope' (in container '')",
        ),
    ):
        (cause,) = evaluate_rules({"spec": {}}, None, widget(FREE, rule=rule, message="m"))
        assert cause.message == f'Invalid value: "object": {said}'


def test_names_and_types_of_values():
    schema = {
        "type": "object",
        "properties": {
            "namespace": TEXT,
            "a-b": TEXT,
            "when": {"type": "string", "format": "date-time"},
            "wait": {"type": "string", "format": "duration"},
            "n": {"type": "number"},
            "map": {"type": "object", "additionalProperties": TEXT},
        },
    }
    rule = (
        "self.__namespace__ == 'x' && self.namespace == 'x' && self.a__dash__b == 'y'"
        " && self.when > timestamp('2020-01-01T00:00:00Z')"
        " && self.wait > duration('30m') && self.n / 2.0 == 0.5 && self.map['a-b'] == 'z'"
    )
    spec = {
        "namespace": "x",
        "a-b": "y",
        "when": "2024-01-01T00:00:00Z",
        "wait": "1h",
        "n": 1,
        "map": {"a-b": "z"},
    }
    assert evaluate_rules({"spec": spec}, None, widget(schema, rule=rule)) == []
    assert escape("a.b/c__d") == "a__dot__b__slash__c__underscores__d"


def test_what_breaks_a_rule_but_was_so_before_may_stay():
    node = widget(FREE, rule="self.a == 1", message="no")
    assert evaluate_rules({"spec": {"a": 2}, "x": 1}, {"spec": {"a": 2}}, node) == []
    assert len(evaluate_rules({"spec": {"a": 3}}, {"spec": {"a": 2}}, node)) == 1


def test_lists_that_are_sets_or_maps_are_equal_in_any_order():
    node = widget(
        {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT}, rule="self == ['a', 'b']"
    )
    assert evaluate_rules({"spec": ["b", "a"]}, None, node) == []
    joined = widget(
        {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT}, rule="size(self + ['a']) == 2"
    )
    assert evaluate_rules({"spec": ["b", "a"]}, None, joined) == []
    items = {"type": "object", "properties": {"k": TEXT, "v": {"type": "integer"}}}
    keyed = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": items,
    }
    node = widget(keyed, rule="oldSelf == self && (oldSelf + [{'k': 'a', 'v': 9}]).exists(i, i.v == 9)")
    a, b = {"k": "a", "v": 1}, {"k": "b", "v": 2}
    assert evaluate_rules({"spec": [a, b]}, {"spec": [b, a]}, node) == []


@pytest.mark.parametrize(
    ("name", "kind", "has"),
    [
        ("isSorted", "string", True),
        ("isSorted", "map", False),
        ("sum", "int", True),
        ("sum", "string", False),
        ("indexOf", "map", True),
        ("max", "dyn", True),
    ],
)
def test_what_a_list_can_do_by_its_items(name, kind, has):
    assert has_order(name, Type("list", elem=Type(kind))) is has


@pytest.mark.parametrize(
    ("size", "cost"), [(0, 0), (1, 1), (4, 1), (5, 2), (UNBOUNDED - 1, 2**62), (UNBOUNDED, UNBOUNDED)]
)
def test_what_a_pattern_costs_is_rounded_up_and_bounded(size, cost):
    assert quarter(size) == cost
