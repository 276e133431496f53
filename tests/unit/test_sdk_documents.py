"""Manifests as values. What each word becomes is compared with kubectl in tests/e2e/test_yaml_as_kubectl.py."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.sdk import documents as reading
from trainshed.sdk.documents import Unreadable, documents


def one(text: str) -> Any:
    (found,) = documents(text)
    return found


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("1e-3", 0.001),
        ("1e3", 1000),
        ("1.0", 1),
        ("0o17", 15),
        ("017", 15),
        ("08", 8),
        ("0x1F", 31),
        ("1_000", 1000),
        ("12:30", "12:30"),
        ("22:22:22", "22:22:22"),
        ("2026-01-02", "2026-01-02"),
        ("y", True),
        ("off", False),
        ("nO", "nO"),
        ("~", None),
        ("=", "="),
        ("<<", "<<"),
        ("1e400", "1e400"),
        ("!!str 1", "1"),
        ("!!int '3'", 3),
        ("!!binary aGVsbG8=", "hello"),
        ("!own x", "x"),
        ("'1'", "1"),
        ("18446744073709551616", 2.0**64),
    ],
)
def test_words(word: str, value: Any) -> None:
    found = one(f"x: {word}\n")["x"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "word", [".inf", ".nan", "!!int 1.5", "!!bool 7", "!!binary ?", "{[a]: b}", "{~: a}"]
)
def test_words_that_json_cannot_say(word: str) -> None:
    with pytest.raises(Unreadable) as caught:
        one(f"a: 1\nx: {word}\n")
    assert caught.value.line == 2


def test_keys_are_text() -> None:
    assert one("{1: a, true: b, 0x10: c, 1.5: d}") == {"1": "a", "true": "b", "16": "c", "1.5": "d"}


def test_merged_keys_count_where_they_stand_and_the_first_mapping_before_the_next() -> None:
    text = "a: &a {k: 1, l: 2}\nb: &b {k: 3, m: 4}\nc: {k: 5, <<: *a}\nd: {<<: [*a, *b], m: 6}\n"
    found = one(text)
    assert found["c"] == {"k": 1, "l": 2}
    assert found["d"] == {"k": 1, "l": 2, "m": 6}


def test_an_alias_is_a_copy() -> None:
    found = one("a: &a [1]\nb: *a\n")
    found["a"].append(2)
    assert found["b"] == [1]


def test_json_is_json_several_values_and_yaml_where_it_is_not_quite() -> None:
    assert list(documents('{"a": "\\/\\ud83d\\ude00"}\n{"b": 1.0}')) == [{"a": "/😀"}, {"b": 1}]
    assert list(documents('{"a": 1,}')) == [{"a": 1}]
    assert one('{"a": "\\ud83d"}') == {"a": "\ufffd"}


def test_a_few_lines_that_stand_for_very_much_are_refused() -> None:
    lines = ["x0: &x0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(Unreadable, match="excessive aliasing") as found:
        one("\n".join(lines))
    assert found.value.line == 7, "where it becomes too much"


def test_aliases_of_one_document_do_not_count_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_MOST_VALUES", 20)
    few = "a: &a [1, 2, 3]\nb: *a\nc: *a"
    assert len(list(documents(f"{few}\n---\n{few}"))) == 2
    with pytest.raises(Unreadable, match="excessive aliasing"):
        one(f"{few}\nd: *a\ne: *a")


def test_an_alias_of_nothing_is_told_with_its_line() -> None:
    with pytest.raises(Unreadable, match="unknown anchor 'y' referenced") as found:
        list(documents("a: &x 1\nb: *x\nc: *y\n"))
    assert found.value.line == 3


@pytest.mark.parametrize("opening", ["[", "- ", '{"a":', "{a: ", "? "])
def test_depth_ends_in_an_error(opening: str) -> None:
    with pytest.raises(Unreadable, match=r"nested too deeply|expected|found"):
        one(opening * 100_000)


@given(st.text(alphabet="ab:-{}[],&*!#|>'\"%@~ \n\t1.e", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        list(documents(text))
    except Unreadable as error:
        assert str(error)
