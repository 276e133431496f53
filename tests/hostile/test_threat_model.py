"""The threat model names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

from tests.hostile.test_escapes import NAMES

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/explanation/security.md").read_text()


def test_every_test_of_the_threat_model_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", TEXT)
    assert len(named) > 20
    for path, function in named:
        assert (ROOT / path).is_file(), path
        assert not function or f"def {function}(" in (ROOT / path).read_text(), function


def test_every_program_of_the_threat_model_exists_and_each_is_named() -> None:
    """A variant (`, unconfined`) may be left to the strongest of them."""
    named = set(re.findall(r"`hostile: ([^`]+)`", TEXT))
    assert named <= set(NAMES)
    kinds = {name.partition(",")[0] for name in NAMES} - {"calls that training needs"}
    assert {name.partition(",")[0] for name in named} == kinds


def test_every_row_has_a_test() -> None:
    model = TEXT[TEXT.index("## Threat model") : TEXT.index("## The API server")]
    rows = [line for line in model.splitlines() if line.startswith("| ") and "Shown by" not in line]
    assert rows
    assert [row for row in rows if "`tests/" not in row and "`hostile: " not in row] == []
