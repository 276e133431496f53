"""Request bodies: malformed ones are 400, repeated fields are found where they are."""

import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.kube.meta.errors import ApiError
from trainshed.kube.wire import body
from trainshed.kube.wire.body import (
    MAX_CONTAINERS,
    MAX_DEPTH,
    decode_body,
    decode_value,
    json_duplicates,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def test_duplicates_are_named_by_path():
    body = b'{"data":{"a":1,"a":2,"b":[{"x":1,"x":2,"x":3}]},"kind":"A","kind":"B"}'
    value, duplicates = decode_body(body)
    assert value == {"data": {"a": 2, "b": [{"x": 3}]}, "kind": "B"}
    assert duplicates == ["kind", "data.a", "data.b[0].x"]
    assert decode_body(body, find_duplicates=False)[1] == []


def test_yaml():
    text = b"a: 1\na: 2\nwhen: 2024-01-01T00:00:00Z\n2: x\nyes: y\nlist: [{k: v, k: w}]\n"
    value, duplicates = decode_body(text, "application/yaml; charset=utf-8")
    assert value == {"a": 2, "when": "2024-01-01T00:00:00Z", "2": "x", "true": True, "list": [{"k": "w"}]}
    assert duplicates == ["a", "list[0].k"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("y", True),
        ("No", False),
        ("off", False),
        ("TRUE", True),
        ("yEs", "yEs"),
        ("014", 12),
        ("0o14", 12),
        ("08", 8.0),
        ("0x1F", 31),
        ("-0b11", -3),
        ("1_000", 1000),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("12:30:45", "12:30:45"),
        ("2020-01-01", "2020-01-01"),
        ("0x", "0x"),
        ("~", None),
        ('"no"', "no"),
    ],
)
def test_yaml_scalars_are_what_go_takes_them_for(text, value):
    found, _ = decode_body(f"a: {text}\n".encode(), "application/yaml")
    assert found == {"a": value}
    assert type(found["a"]) is type(value)


@pytest.mark.parametrize("text", [".inf", "-.INF", ".nan"])
def test_yaml_numbers_that_json_has_not_are_refused(text):
    with pytest.raises(ApiError, match="unsupported value"):
        decode_body(f"a: {text}\n".encode(), "application/yaml")


def test_yaml_anchors_are_copied():
    value, _ = decode_body(b"a: &x {k: [1]}\nb: *x\n", "application/yaml")
    assert value == {"a": {"k": [1]}, "b": {"k": [1]}}
    assert value["a"] is not value["b"]


def test_yaml_bomb():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(ApiError, match="excessive aliasing"):
        decode_body("\n".join(lines).encode(), "application/yaml")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "json"),
        (b"{", "json"),
        (b"[]", "json"),
        (b'{"a":NaN}', "json"),
        (b'{"a":"\xff"}', "json"),
        (b"a: [", "yaml"),
        (b"- a\n", "yaml"),
        (b"a: !!python/object:os.system {}\n", "yaml"),
        (b"? [a, b]\n: c\n", "yaml"),
    ],
)
def test_malformed_bodies(body, kind):
    with pytest.raises(ApiError) as caught:
        decode_body(body, f"application/{kind}", kind="ConfigMap")
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")
    assert caught.value.message.startswith(
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error:"
    )


@pytest.mark.parametrize(
    ("body", "kind"), [(b"null", "json"), (b"null", "yaml"), (b"", "yaml"), (b"# x", "yaml")]
)
def test_nothing_is_an_empty_object(body, kind):
    assert decode_body(body, f"application/{kind}", kind="ConfigMap") == ({}, [])


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"kind":7}', "json: cannot unmarshal number into Go struct field .kind of type string"),
        (
            b'{"apiVersion":[]}',
            "json: cannot unmarshal array into Go struct field .apiVersion of type string",
        ),
    ],
)
def test_types_are_named_by_texts(body, why):
    with pytest.raises(ApiError, match=re.escape(why)):
        decode_body(body, kind="ConfigMap")


def test_values_need_not_be_objects():
    assert decode_value(b'[{"op":"test"}]') == [{"op": "test"}]
    with pytest.raises(ApiError):
        decode_value(b"[")


@pytest.mark.parametrize(
    "text",
    [
        '{"a": " ", "a": ""}',
        '{"a": "", "a": " "}',
        '{"a":{"b":1},"a":{"b": 1}}',
        '{\n  "a": 1,\n  "a": 1\n}\n',
        '{"a b": 1, "ab": 2, "a b": 1}',
        '{"x": [{"a": 1, "a": 1.0}], "y": 1}',
    ],
)
def test_repeated_fields_are_found_whatever_the_spaces(text):
    assert decode_body(text.encode())[1]


@pytest.mark.parametrize(
    "dump",
    [
        lambda value: json.dumps(value),
        lambda value: json.dumps(value, indent=2),
        lambda value: json.dumps(value, indent="\t", separators=(" , ", " : ")) + "\r\n",
        lambda value: json.dumps(value, separators=(",", ":")) + "\n",
    ],
)
def test_what_python_writes_is_not_read_twice(dump, monkeypatch):
    def never(data):
        raise AssertionError("the slow reader keeps everybody waiting")

    monkeypatch.setattr("trainshed.kube.wire.body.json_duplicates", never)
    value = {"a b": ["x y\n\tz", {"c": [], "d": None}], "ab": 1.5, "": True}
    assert decode_body(dump(value).encode()) == (value, [])


@given(JSON)
def test_well_formed_json_has_no_duplicates(value):
    data = json.dumps({"value": value}).encode()
    decoded, duplicates = decode_body(data)
    assert decoded == {"value": value} and duplicates == []
    assert json_duplicates(b'{"a":' + data + b',"a":1}') == ["a"]


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_json_sent_as_yaml_means_the_same(value):
    body = json.dumps(value).encode()
    assert decode_body(body, "application/apply-patch+yaml") == (value, [])
    assert decode_value(body, "application/apply-patch+yaml") == value


def test_yaml_in_flow_style_is_no_json():
    assert decode_body(b"{a: 1, b: [yes]}", "application/yaml")[0] == {"a": 1, "b": [True]}


@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_the_deepest_body(kind):
    body = b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH
    value, _ = decode_body(
        body.replace(b'"', b"").replace(b":", b": ") if kind == "yaml" else body, f"x/{kind}"
    )
    for _ in range(MAX_DEPTH):
        value = value["a"]
    assert value == 1


def test_a_yaml_document_of_too_many_values_is_not_said_to_alias(monkeypatch):
    monkeypatch.setattr(body, "MAX_YAML_NODES", 1000)
    assert decode_value(b"- \n" * 999, "application/yaml") == [None] * 999
    with pytest.raises(ApiError, match="more than 1000 values"):
        decode_body(b"- \n" * 1000, "application/yaml")


@pytest.mark.parametrize("content_type", ["application/json", "application/yaml"])
@pytest.mark.parametrize("one", ["[]", "{}", "[[[]]]", '{"a":[]}'])
def test_a_body_holds_so_many_lists_and_objects(one: str, content_type: str) -> None:
    each = one.count("[") + one.count("{")
    most = (MAX_CONTAINERS - 2) // each
    value = decode_value(f'{{"a":[{",".join([one] * most)}]}}'.encode(), content_type)
    assert len(value["a"]) == most
    with pytest.raises(ApiError, match="more than 200000 lists and objects") as raised:
        decode_body(f'{{"a":[{",".join([one] * (most + each))}]}}'.encode(), content_type)
    assert raised.value.code == 400


@pytest.mark.parametrize("text", ["[", "{", '\\"[', "\\\\", '[\\\\\\"{'])
def test_brackets_in_strings_are_none(text: str) -> None:
    held = text * (MAX_CONTAINERS + 1)
    body_ = json.dumps({"a": held, "b": [held], "c": {}}).encode()
    assert decode_value(body_) == {"a": held, "b": [held], "c": {}}


@given(JSON)
def test_a_body_as_msgspec_or_go_writes_it_repeats_nothing(value) -> None:
    text = msgspec.json.encode({"a": value, "b": 1})
    for written in (text, text + b"\n", text.replace(b'"b"', b'"\\u0062"')):
        assert decode_body(written)[1] == []
    assert decode_body(text[:-1] + b',"b":1}')[1] == ["b"]
    assert decode_body(b'{"b":1,' + text[1:])[1] == ["b"]


@pytest.mark.parametrize("text", [10, 100_000])
@pytest.mark.parametrize("opening", [b'{"a":', b"["])
def test_depth_is_bounded_whatever_else_a_body_holds(text, opening):
    """Of a long body it is first seen whether it has enough lists and objects to be too deep."""
    end = {b'{"a":': b"}", b"[": b"]"}[opening]

    def body(depth):
        inner = opening * (depth - 1) + b"1" + end * (depth - 1)
        return b'{"text":"' + b"x" * text + b'","deep":' + inner + b"}"

    decode_body(body(MAX_DEPTH))
    with pytest.raises(ApiError, match="nested too deeply"):
        decode_body(body(MAX_DEPTH + 1))
