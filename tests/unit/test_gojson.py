"""What Go says of texts that are no JSON; each text as kube-apiserver 1.33 answers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.kube.wire.gojson import LONGEST, TRUNCATED, syntax_error

_VALUE, _KEY = "looking for beginning of value", "looking for beginning of object key string"


@pytest.mark.parametrize(
    ("text", "character", "where"),
    [
        ('{"a"}', "}", "after object key"),
        ('{"a":}', "}", _VALUE),
        ('{"a":1,}', "}", _KEY),
        ("{,}", ",", _KEY),
        ("{'a':1}", "\\'", _KEY),
        ('{"a":1}x', "x", "after top-level value"),
        ('{"a":1}{"b":2}', "{", "after top-level value"),
        ('{"a":[1 2]}', "2", "after array element"),
        ('{"a":01}', "1", "after object key:value pair"),
        ('{"a":-}', "}", "in numeric literal"),
        ("-", " ", "in numeric literal"),
        ('{"a":1.}', "}", "after decimal point in numeric literal"),
        ('{"a":1e}', "}", "in exponent of numeric literal"),
        ('{"a":+1}', "+", _VALUE),
        ('{"a":tru}', "}", "in literal true (expecting 'e')"),
        ("nul", " ", "in literal null (expecting 'l')"),
        ('{"a":"\\x"}', "x", "in string escape code"),
        ('{"a":"\\', " ", "in string escape code"),
        ('{"a":"\\u12"}', '"', "in \\u hexadecimal character escape"),
        ('{"a":"b\nc"}', "\\n", "in string literal"),
        ("{\x01}", "\\x01", _KEY),
        ("\ufeff{}", "ï", _VALUE),
        ("]", "]", _VALUE),
        ("NaN", "N", _VALUE),
    ],
)
def test_what_is_wrong(text: str, character: str, where: str) -> None:
    assert syntax_error(text.encode()) == f"invalid character '{character}' {where}"


@pytest.mark.parametrize("text", ["", "   ", "{", '{"a":"b', '{"a":', "[1,2", "[" * 9000])
def test_what_ends_too_early(text: str) -> None:
    assert syntax_error(text.encode()) == TRUNCATED


def test_long_texts_are_not_looked_at() -> None:
    assert syntax_error(b"[" * (LONGEST + 1)) == ""


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(_JSON, st.sampled_from([None, 1]), st.booleans())
def test_nothing_is_wrong_with_json(value: object, indent: int | None, plain: bool) -> None:
    assert syntax_error(json.dumps(value, indent=indent, ensure_ascii=plain).encode()) == ""
