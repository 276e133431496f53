"""Custom resource values: upstream's texts, defaults, duplicates; RE2 patterns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.kube.cel.re2 import QUANTITY_PATTERN, compile_re2
from trainshed.kube.schema.nodes import from_crd, from_schema
from trainshed.kube.schema.structural import apply_defaults, validate

SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 100, "format": "int32"},
        "max": {"type": "integer", "default": 50},
        "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
        "name": {"type": "string", "maxLength": 8, "minLength": 2, "pattern": "^[a-z]*$"},
        "when": {"type": "string", "format": "date-time"},
        "port": {"x-kubernetes-int-or-string": True},
        "note": {"type": "string", "nullable": True},
        "ratio": {"type": "number", "multipleOf": 0.5, "exclusiveMinimum": True, "minimum": 0},
        "items": {
            "type": "array",
            "maxItems": 3,
            "minItems": 1,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {
                "type": "object",
                "required": ["k"],
                "properties": {"k": {"type": "string"}, "n": {"type": "integer", "default": 7}},
            },
        },
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {
                "type": "object",
                "required": ["x"],
                "properties": {"d": {"type": "boolean", "default": True}},
            },
        },
        "choice": {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            "not": {"required": ["a", "b"]},
        },
        "amount": {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": "^[0-9]+$",
            "x-kubernetes-int-or-string": True,
        },
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
    },
}
WIDGET = from_crd({"type": "object", "required": ["spec"], "properties": {"spec": SPEC}})


def causes(**spec):
    return [(c.reason, c.field, c.message) for c in validate({"spec": {"size": 5, **spec}}, WIDGET)]


@pytest.mark.parametrize(
    ("spec", "reason", "field", "message"),
    [
        (
            {"size": 500},
            "Invalid",
            "size",
            "Invalid value: 500: spec.size in body should be less than or equal to 100",
        ),
        (
            {"size": 0},
            "Invalid",
            "size",
            "Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (
            {"max": "x"},
            "TypeInvalid",
            "max",
            'Invalid value: "string": spec.max in body must be of type integer: "string"',
        ),
        (
            {"size": None},
            "TypeInvalid",
            "size",
            'Invalid value: "null": spec.size in body must be of type integer: "null"',
        ),
        (
            {"max": True},
            "TypeInvalid",
            "max",
            'Invalid value: "boolean": spec.max in body must be of type integer: "boolean"',
        ),
        (
            {"max": 1.5},
            "TypeInvalid",
            "max",
            'Invalid value: "number": spec.max in body must be of type integer: "number"',
        ),
        ({"name": "abcdefghi"}, "TooLong", "name", "Too long: may not be more than 8 bytes"),
        (
            {"name": "a"},
            "Invalid",
            "name",
            'Invalid value: "a": spec.name in body should be at least 2 chars long',
        ),
        (
            {"name": "A-B"},
            "Invalid",
            "name",
            "Invalid value: \"A-B\": spec.name in body should match '^[a-z]*$'",
        ),
        (
            {"color": "blue"},
            "NotSupported",
            "color",
            'Unsupported value: "blue": supported values: "red", "green"',
        ),
        (
            {"when": "now"},
            "TypeInvalid",
            "when",
            'Invalid value: "now": spec.when in body must be of type date-time: "now"',
        ),
        (
            {"items": [{"k": "a"}, {"k": "a"}]},
            "Duplicate",
            "items[1]",
            'Duplicate value: map[string]interface {}{"k":"a"}',
        ),
        ({"items": [{"n": 1}]}, "Required", "items[0].k", "Required value"),
        (
            {"items": []},
            "Invalid",
            "items",
            "Invalid value: 0: spec.items in body should have at least 1 items",
        ),
        ({"tags": ["a", "a"]}, "Duplicate", "tags[1]", 'Duplicate value: "a"'),
        ({"map": {"w": {}}}, "Required", "map.w.x", "Required value"),
        (
            {"map": {}},
            "Invalid",
            "map",
            "Invalid value: {}: spec.map in body should have at least 1 properties",
        ),
        ({"ratio": 0}, "Invalid", "ratio", "Invalid value: 0: spec.ratio in body should be greater than 0"),
        (
            {"ratio": 0.7},
            "Invalid",
            "ratio",
            "Invalid value: 0.7: spec.ratio in body should be a multiple of 0.5",
        ),
        (
            {"port": 1.5},
            "TypeInvalid",
            "port",
            'Invalid value: "number": spec.port in body must be of type integer,string: "number"',
        ),
        (
            {"choice": {}},
            "Invalid",
            "choice",
            'Invalid value: {}: "spec.choice" must validate one and only one schema (oneOf). Found none valid',
        ),
        (
            {"amount": "1x"},
            "Invalid",
            "amount",
            "Invalid value: \"1x\": spec.amount in body should match '^[0-9]+$'",
        ),
        ({"template": {"kind": "Pod"}}, "Required", "template.apiVersion", "Required value"),
    ],
)
def test_one_wrong_value(spec, reason, field, message):
    assert causes(**spec) == [(f"FieldValue{reason}", f"spec.{field}", message)]


def test_all_causes_at_once():
    found = validate({"spec": {"max": "x", "color": "blue"}}, WIDGET)
    assert [c.field for c in found] == ["spec.size", "spec.max", "spec.color"]
    assert [c.field for c in validate({}, WIDGET)] == ["spec"]
    both = [message for _, _, message in causes(choice={"a": "", "b": ""})]
    assert len(both) == 2 and "Found 2 valid" in both[0] and "must not validate" in both[1]


def test_valid_values():
    spec = {
        "size": 5.0,
        "port": "http",
        "note": None,
        "name": "ab",
        "when": "2024-01-01T00:00:00Z",
        "items": [{"k": "a"}, {"k": "b"}],
        "choice": {"a": "x"},
        "amount": 7,
        "ratio": 1.5,
        "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "free": 1},
    }
    assert causes(**spec) == []


def test_too_many_causes_are_cut():
    assert len(causes(tags=list(range(1000)))) == 100


def test_defaults():
    obj = {
        "spec": {"size": 1, "color": None, "items": [{"k": "a"}, {"k": "b", "n": 1}], "map": {"w": {"x": 1}}}
    }
    out = apply_defaults(obj, WIDGET)
    assert out["spec"] == {
        "size": 1,
        "max": 50,
        "color": "red",
        "items": [{"k": "a", "n": 7}, {"k": "b", "n": 1}],
        "map": {"w": {"x": 1, "d": True}},
    }
    assert obj["spec"]["color"] is None  # the input stays
    assert apply_defaults({}, WIDGET) == {}  # no default of `spec` itself
    again = apply_defaults(out, WIDGET)
    assert again == out


def test_defaults_are_not_shared():
    node = from_schema({"type": "object", "properties": {"a": {"type": "object", "default": {"list": []}}}})
    first = apply_defaults({}, node)
    first["a"]["list"] = [1]
    assert apply_defaults({}, node) == {"a": {"list": []}}


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "max": st.integers() | st.none() | st.text(),
            "items": st.lists(st.dictionaries(st.sampled_from("kn"), st.integers() | st.none()) | st.none()),
            "map": st.dictionaries(st.text(), st.just({}) | st.integers()),
        },
    )
)
def test_defaulting_is_idempotent(spec):
    once = apply_defaults({"spec": spec}, WIDGET)
    assert apply_defaults(once, WIDGET) == once


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("^a$", "a", "a\n"),
        (r"^a\z", "a", "a\n"),
        ("b", "abc", "ac"),
        (r"^\d+$", "12", "١٢"),
        ("^[[:alpha:]]+$", "ab", "a1"),
        ("^[^[:digit:]]$", "a", "1"),
        ("^[a$]$", "$", "b"),
        ("^(?P<x>a)(?<y>b)$", "ab", "a"),
        ("^[]a]$", "]", "b"),
        ("(?i)^abc$", "ABC", "x"),
        (r"^\$[a[]$", "$[", "$b"),
        ("^(?i)[a-z]+$", "ABC", "1"),
        (r"^\p{L}\pL$", "äß", "1a"),
        ("^[[:^alpha:]]$", "1", "a"),
        (r"^\Qa.b\E$", "a.b", "axb"),
        (r"^\x{41}$", "A", "B"),
        ("^(?s)a.b$", "a\nb", "ab"),
    ],
)
def test_re2_patterns(pattern, yes, no):
    assert compile_re2(pattern).matches(yes) and not compile_re2(pattern).matches(no)


@given(st.text(alphabet="+-.0123456789eEKMGTPinumk\n x", max_size=12))
def test_the_pattern_of_quantities_means_the_same_without_re2(text):
    re2 = compile_re2(f"(?:{QUANTITY_PATTERN})")
    quick = compile_re2(QUANTITY_PATTERN)
    assert quick.matches(text) == re2.matches(text) and quick.find(text) == re2.find(text)


@pytest.mark.timeout(20)
def test_the_pattern_of_quantities_is_linear():
    text = "1" * 200_000
    for tail in ("x", ".x", "e1x", f".{text}x"):
        assert not compile_re2(QUANTITY_PATTERN).matches(text + tail)


def test_matches_as_text():
    pattern = compile_re2("[a-c]+")
    assert pattern.find("xxabyc") == "ab" and list(pattern.find_all("xxabyc")) == ["ab", "c"]
    assert pattern.find("xyz") == "" and list(pattern.find_all("xyz")) == []


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", r"error parsing regexp: missing closing \): `\(`"),
        ("[z-a]", "invalid character class range"),
        ("*", r"missing argument to repetition operator: `\*`"),
        ("(?=a)", r"invalid or unsupported Perl syntax: `\(\?="),
        ("a{1001}", r"invalid repeat count: `\{1001\}`"),
        ("((a{100}){100}){100}", "too large|repeat count"),
    ],
)
def test_bad_patterns(pattern, why):
    with pytest.raises(ValueError, match=why):
        compile_re2(pattern)


@pytest.mark.timeout(5)
def test_matching_takes_linear_time():
    """A backtracking engine needs 2^n steps for each of these."""
    for pattern in ("^([a-z0-9]+-?)+$", "(a*)*b", "(a|aa)+$"):
        assert not compile_re2(pattern).matches("a" * 100_000 + "_")


LONG = {"type": "string", "maxLength": 2}
NAMED = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": LONG}}
KEYED = {
    "type": "array",
    "items": NAMED,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
}
EITHER = {"type": "object", "properties": {"a": LONG, "b": LONG}, "anyOf": [{"required": ["b"]}]}


@pytest.mark.parametrize(
    ("schema", "old", "new", "fields"),
    [
        (LONG, "long", "long", []),
        (LONG, "long", "wide", ["v"]),
        ({"type": "object", "additionalProperties": LONG}, {"a": "long"}, {"a": "long", "b": "b"}, []),
        (
            {"type": "object", "additionalProperties": LONG},
            {"a": "long"},
            {"a": "long", "b": "long"},
            ["v.b"],
        ),
        (KEYED, [{"k": "x", "v": "long"}], [{"k": "new"}, {"k": "x", "v": "long"}], []),
        (KEYED, [{"k": "x", "v": "long"}], [{"k": "y", "v": "long"}], ["v[0].v"]),
        ({"type": "array", "items": LONG}, ["long"], ["long", "a"], ["v[0]"]),  # items without identity
        ({"type": "array", "items": LONG}, ["long"], ["long"], []),
        (EITHER, {"a": "a"}, {"a": "a"}, []),
        (EITHER, {"a": "a"}, {"a": "b"}, ["v"]),
        ({"type": "boolean"}, 1, True, []),
        ({"type": "boolean"}, True, 1, ["v"]),  # not the same, whatever Python says
    ],
)
def test_what_an_update_does_not_change_may_stay(schema, old, new, fields):
    node = from_crd({"type": "object", "properties": {"v": schema}})
    assert [cause.field for cause in validate({"v": new, "w": 1}, node, old={"v": old})] == fields
    if new == old:
        assert validate({"v": new}, node) or schema == {"type": "boolean"}
