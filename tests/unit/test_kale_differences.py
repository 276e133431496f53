"""The page of differences from Kale names a test for each of its rows."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/reference/kale-differences.md").read_text().splitlines()
    if re.match(r"\| \d", line)
]
DEFINITION = re.compile(r"^ *(?:async )?def (test_\w+)\(", re.MULTILINE)
UNTESTED = {"38"}
"""There is no extension of JupyterLab."""


@cache
def names_of_tests() -> set[str]:
    files = (ROOT / "tests").rglob("test_*.py")
    return {name for file in files for name in DEFINITION.findall(file.read_text())}


def test_every_difference_has_a_number() -> None:
    assert [row[0] for row in ROWS] == [str(number) for number in range(1, 40)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_difference_is_held_by_tests_that_exist(row: list[str]) -> None:
    named = set(re.findall(r"`(test_\w+)`", row[3]))
    assert named or row[0] in UNTESTED
    assert named <= names_of_tests()
