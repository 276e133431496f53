"""YAML without libyaml: it reads back as what was written, and ordinary texts look as libyaml writes them."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trainshed.kube.wire import yamlblock, yamltext

TEXTS = st.text(st.characters(codec="utf-8"))
BLOCKS = st.recursive(
    st.dictionaries(TEXTS, TEXTS, max_size=4),
    lambda inner: st.dictionaries(
        TEXTS,
        TEXTS | inner | st.lists(st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=3), max_size=3),
        max_size=4,
    ),
    max_leaves=8,
)


@given(block=BLOCKS)
def test_a_block_reads_back(block: yamlblock.Block) -> None:
    assert (yaml.safe_load(yamlblock.dump(block)) or {}) == block


def test_an_ordinary_block_is_as_libyaml_writes_it() -> None:
    block: yamlblock.Block = {
        "server": "https://127.0.0.1:6443",
        "data": "LS0tLS1CRUdJTg==",
        "users": [
            {"name": "a", "user": {"token": "x-_9"}},
            {"name": "b", "extensions": [{"home": "/var/x.y"}]},
        ],
        "none": {},
        "empty": [],
    }
    assert yamlblock.dump(block) == yamltext.dump(block)


@pytest.mark.parametrize(
    "text", ["yes", "Null", "a: b", "a:", "- a", "1e5", "~", "", "a #b", "*a", "x\u2028y", "\x7f"]
)
def test_a_text_that_yaml_takes_for_something_else_stays_one(text: str) -> None:
    assert yaml.safe_load(yamlblock.dump({text: text})) == {text: text}
