"""Long values as YAML in pieces: the same value, and the same text wherever libyaml's would be taken whole."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from trainshed.kube.wire import yamltext

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"))
    | st.sampled_from(
        ["yes", "null", "1e3", "- x", "? y", "a: b", "#", "|", "", " ", "\n", "x\n\ny\n", "\u0085", "é" * 40]
    )
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=140), inner, max_size=4),
    max_leaves=12,
)


@example({"\x85": 1e16, "k" * 200: {"a": [1e16] * 9}, "": [[{}], [[1e16]]]}, 0)
@given(VALUES, st.sampled_from([0, 1, 8, 30, 100]))
def test_what_is_read_back_is_what_was_written(value: Any, piece: int) -> None:
    assert yaml.safe_load(yamltext.dump(value, piece)) == value


POD = {
    "apiVersion": "v1",
    "kind": "List",
    "metadata": {"resourceVersion": "7", "labels": {}},
    "items": [
        {
            "kind": "Pod",
            "metadata": {"name": f"p{n}"},
            "spec": {"containers": [{"name": "c", "args": ["a", "b"]}], "x": []},
        }
        for n in range(9)
    ],
}


@pytest.mark.parametrize("piece", [24, 60, 100, 10_000])
def test_the_text_is_that_of_the_whole(piece: int) -> None:
    assert yamltext.dump(POD, piece) == yaml.safe_dump(POD, sort_keys=False)


def test_no_piece_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    whole = yamltext._whole
    monkeypatch.setattr(yamltext, "_whole", lambda value: (sizes.append(len(str(value))), whole(value))[1])
    value = {
        "data": {f"k{n}": "v" for n in range(4_000)},
        "long": "x" * 200_000,
        "list": [[1] * 9] * 2_000,
    }
    assert yaml.load(yamltext.dump(value), Loader=yaml.CSafeLoader) == value
    assert max(sizes) < 3 * yamltext.PIECE_BYTES
