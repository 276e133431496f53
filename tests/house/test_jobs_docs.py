"""The page of differences from upstream names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "reference" / "upstream-differences.md"
NAMED = sorted(set(re.findall(r"`(test_\w+\.py)::(test_\w+)`", PAGE.read_text())))


def test_every_row_names_a_test() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    bodies = [row for row in rows if not row.startswith("|---") and "Shown by" not in row]
    assert [row for row in bodies if "`test_" not in row] == []
    assert len(bodies) >= 25


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name for _, name in NAMED])
def test_the_named_test_exists(file: str, name: str) -> None:
    (found,) = (path for room in ("unit", "histories") if (path := TESTS / room / file).exists())
    assert f"def {name}(" in found.read_text()
