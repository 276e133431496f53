"""Merge patch (RFC 7386 appendix) and JSON patch (RFC 6902); neither ever changes its arguments."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.kube.meta.errors import ApiError
from trainshed.kube.patch.jsonpatch import OPERATIONS, equal
from trainshed.kube.patch.types import check_patch_type, json_patch, merge_patch

_SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=3))
_JSON = st.recursive(
    _SCALARS,
    lambda below: st.one_of(
        st.lists(below, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "c/d", "e~f"]), below, max_size=3),
    ),
    max_leaves=12,
)
_OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "c"]), _JSON, max_size=3)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_examples_of_the_rfc(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


@given(_OBJECTS, _OBJECTS)
def test_merge_patch_is_idempotent_and_pure(target: Any, patch: Any) -> None:
    before = copy.deepcopy((target, patch))
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once
    assert (target, patch) == before


@pytest.mark.parametrize(
    ("target", "operation", "result"),
    [
        ({"a": 1}, {"op": "add", "path": "/b", "value": 2}, {"a": 1, "b": 2}),
        ({"a": 1}, {"op": "add", "path": "/a", "value": 2}, {"a": 2}),
        ({"a": [1, 3]}, {"op": "add", "path": "/a/1", "value": 2}, {"a": [1, 2, 3]}),
        ({"a": [1]}, {"op": "add", "path": "/a/-", "value": 2}, {"a": [1, 2]}),
        ({"a": [1]}, {"op": "add", "path": "/a/1", "value": 2}, {"a": [1, 2]}),
        ({"a": 1}, {"op": "add", "path": "", "value": 2}, 2),
        ({"a": None}, {"op": "replace", "path": "/a", "value": None}, {"a": None}),
        ({"a": 1, "b": 2}, {"op": "remove", "path": "/a"}, {"b": 2}),
        ({"a": [1, 2, 3]}, {"op": "remove", "path": "/a/1"}, {"a": [1, 3]}),
        ({"a": [1, 2, 3]}, {"op": "replace", "path": "/a/1", "value": 4}, {"a": [1, 4, 3]}),
        ({"a/b": 1, "c~d": 2}, {"op": "replace", "path": "/a~1b", "value": 3}, {"a/b": 3, "c~d": 2}),
        ({"a/b": 1, "c~d": 2}, {"op": "replace", "path": "/c~0d", "value": 3}, {"a/b": 1, "c~d": 3}),
        ({"a": {"b": 1}}, {"op": "move", "from": "/a/b", "path": "/c"}, {"a": {}, "c": 1}),
        ({"a": {"b": 1}}, {"op": "copy", "from": "/a", "path": "/c"}, {"a": {"b": 1}, "c": {"b": 1}}),
        ({"a": 1}, {"op": "test", "path": "/a", "value": 1.0}, {"a": 1}),
        ({}, {"op": "test", "path": "/a", "value": None}, {}),
    ],
)
def test_json_patch_operations(target: Any, operation: Any, result: Any) -> None:
    before = copy.deepcopy(target)
    assert json_patch(target, [operation]) == result
    assert target == before


def test_json_patch_takes_a_key_that_is_not_there_as_upstreams_library_does() -> None:
    held = {"a": {"b": 1}}
    assert json_patch(held, [{"op": "replace", "path": "/a/c", "value": 2}]) == {"a": {"b": 1, "c": 2}}
    assert json_patch(held, [{"op": "copy", "path": "/a/c", "from": "/a/d"}]) == {"a": {"b": 1, "c": None}}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": True},  # Python's True == 1 must not pass
        {"op": "test", "path": "/a", "value": "1"},
        {"op": "remove", "path": "/missing"},
        {"op": "add", "path": "/missing/b", "value": 1},
        {"op": "add", "path": "/list/3", "value": 1},
        {"op": "add", "path": "/list/01", "value": 1},
        {"op": "add", "path": "/list/-1", "value": 1},
        {"op": "remove", "path": "/list/-"},
        {"op": "add", "path": "/a/b", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "path": "/b"},
        {"op": "move", "from": "/missing", "path": "/b"},
        {"op": "move", "from": "/list", "path": "/list/0"},
        {"op": "remove", "path": ""},
        {"op": "remove"},
    ],
)
def test_json_patch_operation_that_fails_is_422(operation: Any) -> None:
    with pytest.raises(ApiError) as caught:
        json_patch({"a": 1, "list": [1]}, [{"op": "add", "path": "/z", "value": 1}, operation])
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert caught.value.message == "the server rejected our request due to an error in our request"


@pytest.mark.parametrize("body", [{}, "x", None, [1], [{"op": 7}], [{"op": "add", "path": 7}]])
def test_json_patch_body_that_is_no_patch_is_400(body: Any) -> None:
    with pytest.raises(ApiError) as caught:
        json_patch({"a": 1}, body)
    assert caught.value.code == 400


@pytest.mark.parametrize("body", [[{}], [None], [{"op": "bogus", "path": "/a"}]])
def test_json_patch_of_no_operations_is_422(body: Any) -> None:
    with pytest.raises(ApiError) as caught:
        json_patch({"a": 1}, body)
    assert caught.value.code == 422


@pytest.mark.parametrize("path", ["/b/-", "/b/0"])
def test_json_patch_that_copies_too_much_is_413(path: str) -> None:
    """Each copy doubles what the next one copies."""
    bomb = [
        {"op": "add", "path": "/b", "value": ["x" * 10]},
        *[{"op": "copy", "from": "/b", "path": path}] * 60,
    ]
    with pytest.raises(ApiError) as caught:
        json_patch({}, bomb)
    assert (caught.value.code, caught.value.reason) == (413, "RequestEntityTooLarge")
    fair = [{"op": "copy", "from": "/a", "path": f"/b{number}"} for number in range(1_000)]
    assert len(json_patch({"a": "x" * 1_000}, fair)) == 1_001


def test_json_patch_that_nests_too_deeply_is_400() -> None:
    """Whether the walk along a path overflows or only the result is too deep."""
    for levels in range(12):
        grow = [{"op": "copy", "from": "", "path": "/a" * 2**number} for number in range(levels)]
        if levels < 8:
            json_patch({}, grow)
            continue
        with pytest.raises(ApiError, match="nested too deeply") as caught:
            json_patch({}, grow)
        assert caught.value.code == 400


def test_json_patch_with_too_many_operations_is_413() -> None:
    with pytest.raises(ApiError) as caught:
        json_patch({"a": 1}, [{"op": "test", "path": "/a", "value": 1}] * 10_001)
    assert caught.value.code == 413


@given(_OBJECTS, _JSON)
def test_adding_then_removing_is_the_identity(target: dict[str, Any], value: Any) -> None:
    added = json_patch(target, [{"op": "add", "path": "/new~1key", "value": value}])
    assert equal(added["new/key"], value)
    assert json_patch(added, [{"op": "remove", "path": "/new~1key"}]) == target


@given(_JSON)
def test_equality_is_reflexive_and_tells_booleans_from_numbers(value: Any) -> None:
    assert equal(value, copy.deepcopy(value))
    assert not equal([value, True], [value, 1])


def test_patch_types() -> None:
    assert check_patch_type("application/merge-patch+json; charset=utf-8", custom=True).startswith(
        "application/merge"
    )
    assert check_patch_type("application/strategic-merge-patch+json", custom=False)
    for content_type, custom, said in (
        ("application/strategic-merge-patch+json", True, "application/merge-patch+json"),
        ("application/json", False, "415: Unsupported Media Type"),
        ("", False, "415: Unsupported Media Type"),
    ):
        with pytest.raises(ApiError) as caught:
            check_patch_type(content_type, custom=custom)
        assert caught.value.code == 415
        assert said in caught.value.message


_OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(OPERATIONS),
            "path": st.sampled_from(["", "/a", "/a/-", "/a/0", "/a/0/b", "/b", "/b/a", "/b/a/0"]),
            "from": st.sampled_from(["/a", "/a/0", "/b", "/b/a"]),
            "value": st.sampled_from([1, [], {"b": []}, [{"b": 1}], {"a": [1, 2]}]),
        }
    ),
    max_size=8,
)


@given(_OPERATIONS)
def test_operations_in_one_patch_are_as_those_of_many(operations: list[Any]) -> None:
    target = {"a": [{"b": 1}, 2], "b": {"a": []}}
    before = copy.deepcopy((target, operations))

    def outcome(*patches: list[Any]) -> Any:
        document: Any = target
        try:
            for patch in patches:
                document = json_patch(document, patch)
        except ApiError as error:
            return error.code
        return document

    assert outcome(operations) == outcome(*([operation] for operation in operations))
    assert (target, operations) == before
