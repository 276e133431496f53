"""Rules of a CRD: what Kubernetes refuses before any object is there. Costs are those of Kubernetes' own estimator."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.kube.cel.check import check
from trainshed.kube.cel.syntax import parse
from trainshed.kube.cel.types import declared
from trainshed.kube.meta import golang
from trainshed.kube.meta.errors import Cause
from trainshed.kube.schema.crd_schema import schema_causes

TEXT: Any = {"type": "string"}
NUMBER: Any = {"type": "number"}
FIELDS: Any = {
    "a": TEXT,
    "n": {"type": "integer"},
    "x": NUMBER,
    "a-b": {"type": "integer"},
    "l": {"type": "array", "items": TEXT},
    "m": {"type": "object", "additionalProperties": {"type": "integer"}},
    "when": {"type": "string", "format": "date-time"},
    "port": {"x-kubernetes-int-or-string": True},
}


def items(of: Any, most: int | None = None) -> Any:
    return {"type": "array", "items": of, **({} if most is None else {"maxItems": most})}


def entries(of: Any, most: int | None = None) -> Any:
    return {
        "type": "object",
        "additionalProperties": of,
        **({} if most is None else {"maxProperties": most}),
    }


def causes(schema: Any, *rules: Any) -> list[Cause]:
    """Return what is wrong with the field `spec` of that schema and these rules."""
    stated = [rule if isinstance(rule, dict) else {"rule": rule} for rule in rules]
    spec = {**schema, "x-kubernetes-validations": stated}
    return list(schema_causes({"type": "object", "properties": {"spec": spec}}, "S"))


def texts(schema: Any, *rules: Any) -> list[str]:
    return [
        f"{cause.field.removeprefix('S.properties[spec]')}: {cause.message}"
        for cause in causes(schema, *rules)
    ]


OBJECT: Any = {"type": "object", "properties": FIELDS}
RULE = ".x-kubernetes-validations[0]"


@pytest.mark.parametrize(
    "rule",
    [
        "self.a == 'x' && self.n > 0 || !(self.x < 1.0)",
        "self.a__dash__b > 0 || 'self.nope' == ''",
        "self.n < self.x && double(self.n) == self.x",
        "has(self.a) ? self.a.size() < 3 : true",
        "self.?a.orValue('b') == 'c' && self.m[?'k'].hasValue()",
        "self.l.exists_one(x, x.startsWith('a')) && self.l.filter(x, x != '').size() <= 1",
        "self.l.map(x, size(x)).sum() < 100 && self.l.all(i, x, i >= 0 && x != '')",
        "self.m.all(k, self.m[k] > 0) && 'k' in self.m && !('z' in self.l)",
        "type(self.port) == int ? self.port > 0 : string(self.port).contains('%')",
        "self.when > timestamp('2020-01-01T00:00:00Z') && self.when.getFullYear() > 2020",
        "self.when - self.when < duration('1h30m') && type(self.when) == google.protobuf.Timestamp",
        "quantity(self.a).isLessThan(quantity('1Gi')) && isIP(self.a) && cidr(self.a).containsIP('10.0.0.1')",
        "url(self.a).getScheme() == 'https' && !format.dns1123Label().validate(self.a).hasValue()",
        "sets.contains(self.l, ['a'])",
        "self.a.matches(r'^\\d+$') && self.a.find('[0-9]+') == '1' && '%d %s'.format([1, 'a']) == '1 a'",
        "self.a.lowerAscii().replace('a', 'b').split(',').join('-') == '' // trailing words",
        "[self.n + 1].all(x, x * x > 2) && [1, 2].indexOf(2) == 1",
        "self == oldSelf",
        "{'a': [1]}['a'][0] == 1 && {?'k': optional.none(), 'l': 'v'} != {'l': 'v'}",
    ],
)
def test_rules_that_fit_their_schema(rule: str) -> None:
    assert causes(OBJECT, rule) == [] or "exceeds budget" in causes(OBJECT, rule)[0].message


GRAMMAR = ("true", "false", "null", "in")
RESERVED = (
    "as break const continue else for function if import let loop package namespace return var void while"
)


@pytest.mark.parametrize("word", [*GRAMMAR, *RESERVED.split()])
def test_words_that_are_reserved_name_fields_as_they_are_unless_the_grammar_has_them(word: str) -> None:
    """As in JobSet's definition: `has(t.metadata.namespace)`."""
    schema = {"type": "object", "properties": {word: {"type": "string", "maxLength": 9}}}
    assert causes(schema, f"has(self.__{word}__) && self.__{word}__ == 'a'") == []
    assert (causes(schema, f"has(self.{word})") == []) == (word not in GRAMMAR)


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ("self.a", "cel expression must evaluate to a bool"),
        ("self.n + 1", "cel expression must evaluate to a bool"),
        ("self.port", "cel expression must evaluate to a bool"),
        (
            "'%d'.format(['a']) == '1'",
            "compilation failed: ERROR: <input>:1:14: error during formatting: decimal",
        ),
        ("self.a +", "compilation failed: ERROR: <input>:1:9: Syntax error: "),
        (
            "self.?a..b",
            "compilation failed: ERROR: <input>:1:9: Syntax error: no viable alternative at input '..'",
        ),
        (
            "self.nope == 1",
            "compilation failed: ERROR: <input>:1:5: undefined field 'nope'\n | self.nope == 1\n | ....^",
        ),
        (
            "has(self.a) && self.x.y == 1",
            "compilation failed: ERROR: <input>:1:22: type 'double' does not support",
        ),
        (
            "true\n&& self.z == 1",
            "compilation failed: ERROR: <input>:2:8: undefined field 'z'\n | && self.z == 1\n",
        ),
        (
            "self.a == 1",
            "compilation failed: ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(st",
        ),
        (
            "self.n == self.x",
            "compilation failed: ERROR: <input>:1:8: found no matching overload for '_==_' applied",
        ),
        (
            "self.a == null",
            "compilation failed: ERROR: <input>:1:8: found no matching overload for '_==_' applied to",
        ),
        (
            "self.n && true",
            "compilation failed: ERROR: <input>:1:5: expected type 'bool' but found 'int'",
        ),
        (
            "foo(self.a)",
            "compilation failed: ERROR: <input>:1:4: undeclared reference to 'foo' (in container '')",
        ),
        (
            "other == 1",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'other' (in container '')",
        ),
        (
            "self.n.startsWith('a')",
            "compilation failed: ERROR: <input>:1:18: found no matching overload for 'starts",
        ),
        (
            "self.n.all(x, true)",
            "compilation failed: ERROR: <input>:1:5: expression of type 'int' cannot be range",
        ),
        (
            "[1, 'a'].size() == 2",
            "compilation failed: ERROR: <input>:1:5: expected type 'int' but found 'string'",
        ),
        ("self.a.matches('(')", "compilation failed: ERROR: <input>:1:16: invalid matches argument"),
        (
            "self.l.sum() == 'a'",
            "compilation failed: ERROR: <input>:1:11: found no matching overload for 'sum' appl",
        ),
        (
            "duration('1 hour') > duration('1s')",
            "compilation failed: ERROR: <input>:1:10: invalid duration argument",
        ),
        ("x" * 100_001, "compilation failed: ERROR: <input>:-1:0: expression code point size exceeds limit"),
    ],
)
def test_rules_that_do_not(rule: str, wrong: str) -> None:
    (text,) = texts(OBJECT, {"rule": rule, "message": "no"})
    shown, _, said = text.partition("OptionalOldSelf:(*bool)(nil)}: ")
    assert shown.startswith(
        f"{RULE}.rule: Invalid value: apiextensions.ValidationRule{{Rule:{golang.text(rule)}, "
    )
    assert said.startswith(wrong)


def test_only_a_whole_object_has_names() -> None:
    named = {"x-kubernetes-validations": [{"rule": "self.metadata.name.startsWith('a') && self.kind == 'W'"}]}
    assert list(schema_causes({"type": "object", **named}, "S")) == []
    assert "undefined field 'metadata'" in texts({"type": "object"}, "self.metadata.name == ''")[0]
    labels = {"x-kubernetes-validations": [{"rule": "self.metadata.labels.size() > 0"}]}
    (cause,) = schema_causes({"type": "object", **labels}, "S")
    assert "undefined field 'labels'" in cause.message


def test_what_has_no_schema_is_not_there_for_rules() -> None:
    free = {"type": "object", "properties": {"any": {"x-kubernetes-preserve-unknown-fields": True}}}
    assert "undefined field 'any'" in texts(free, "has(self.any)")[0]
    (text,) = texts({"x-kubernetes-preserve-unknown-fields": True}, "self == 1")
    assert text.startswith(".x-kubernetes-validations: Internal error: ")


@pytest.mark.parametrize(
    ("rule", "schema", "cost"),
    [
        ("self.all(x, true)", items(NUMBER), 4_718_591),
        ("self.all(x, true)", items(NUMBER, 10), 32),
        ("self.all(x, true)", items(TEXT), 3_145_727),
        ("self.all(x, true)", entries(TEXT), 1_179_647),
        ("self.all(x, self.all(y, true))", items(NUMBER, 10), 352),
        ("self[1] == self[1]", items(TEXT), 314_577),
        ("self.contains('test')", TEXT, 314_574),
        ("self.contains('test')", {**TEXT, "maxLength": 10}, 5),
        ("size(self + 'hello') > size('hello')", TEXT, 314_578),
        ("self.exists(x, x == 'a')", items({**TEXT, "enum": ["a", "bb"]}, 10), 62),
    ],
)
def test_costs_are_those_of_kubernetes(rule: str, schema: Any, cost: int) -> None:
    own = declared(schema)
    assert own is not None
    assert check(rule, {"self": own}).cost == cost


def test_a_rule_that_costs_too_much() -> None:
    nested = {"type": "object", "properties": {"l": items(items(items(TEXT)))}}
    rule = "self.l.all(x, x.all(y, y.all(z, z.contains('a'))))"
    found = texts(nested, rule)
    assert found[0] == (
        f"{RULE}.rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x (try simplifying the "
        "rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
    assert "contributed to estimated rule cost total" in found[1]
    assert found[2].startswith(
        "S: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3"
    )
    bounded = {"type": "object", "properties": {"l": items(items(items({**TEXT, "maxLength": 9}, 9), 9), 9)}}
    assert texts(bounded, rule) == []
    # A rule in an unbounded list runs as often as items fit into a request.
    often = items({**OBJECT, "x-kubernetes-validations": [{"rule": "self.a.contains('some words')"}]})
    (first, *_) = schema_causes({"type": "object", "properties": {"list": often}}, "S")
    assert first.field == "S.properties[list].items.x-kubernetes-validations[0].rule"
    assert (
        list(schema_causes({"type": "object", "properties": {"list": {**often, "maxItems": 10}}}, "S")) == []
    )


def test_messages() -> None:
    rule = {"rule": "self.n > 0"}
    assert texts(OBJECT, {**rule, "messageExpression": "'bad ' + self.a"}) == []
    (text,) = texts(OBJECT, {**rule, "messageExpression": "self.n"})
    assert text.startswith(f"{RULE}.messageExpression: Invalid value: apiextensions.ValidationRule{{Rule:")
    assert text.endswith(": messageExpression must evaluate to a string")
    (text,) = texts(OBJECT, {**rule, "messageExpression": "self.z"})
    assert "messageExpression compilation failed: ERROR: <input>:1:5: undefined field 'z'" in text


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ({"rule": " "}, "rule: Required value: rule is not specified"),
        (
            {"rule": "true", "message": " "},
            'message: Invalid value: " ": message must be non-empty if specified',
        ),
        (
            {"rule": "true", "message": "a\nb"},
            'message: Invalid value: "a\\nb": message must not contain line breaks',
        ),
        (
            {"rule": "true\n&& true"},
            "message: Required value: message must be specified if rule contains line breaks",
        ),
        (
            {"rule": "true", "messageExpression": " "},
            "messageExpression: Required value: messageExpression must be",
        ),
        (
            {"rule": "true", "reason": "Nope"},
            'reason: Unsupported value: "Nope": supported values: "FieldValueDupl',
        ),
        (
            {"rule": "true", "fieldPath": ".z"},
            'fieldPath: Invalid value: ".z": fieldPath must be a valid path',
        ),
        (
            {"rule": "true", "fieldPath": ".l[0]"},
            'fieldPath: Invalid value: ".l[0]": fieldPath must be a valid path',
        ),
        (
            {"rule": "true", "optionalOldSelf": True},
            "optionalOldSelf: Invalid value: true: may not be set if oldSelf",
        ),
    ],
)
def test_the_words_of_a_rule(rule: Any, wrong: str) -> None:
    (text,) = texts(OBJECT, rule)
    assert text.startswith(f"{RULE}.{wrong}")
    assert texts(OBJECT, {"rule": "true", "reason": "FieldValueInvalid", "fieldPath": ".m['k']"}) == []


def test_old_values_of_items_are_known_in_lists_with_keys_only() -> None:
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}
    item = {**OBJECT, "required": ["a"], "x-kubernetes-validations": [{"rule": "self.n >= oldSelf.n"}]}

    def found(extensions: Any) -> list[str]:
        schema = {"type": "object", "properties": {"list": {**items(item, 9), **extensions}}}
        return [cause.message for cause in schema_causes(schema, "S")]

    assert found(keyed) == []
    (text,) = found({})
    assert text.endswith(
        "oldSelf cannot be used on the uncorrelatable portion of the schema within S.properties[list]"
    )


@pytest.mark.parametrize("text", ["(" * 5_000, "!" * 5_000, "a" + ".b" * 5_000, "[" * 5_000 + "]" * 5_000])
def test_what_is_nested_too_deeply_to_read_is_no_error_of_ours(text: str) -> None:
    assert all(cause.field.startswith("S") for cause in causes(OBJECT, text))
    with pytest.raises((ValueError, RecursionError)):
        parse("(" * 5_000)
