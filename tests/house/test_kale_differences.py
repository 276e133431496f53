"""The pages that set Kale's behaviour beside ours name a test for each of their rows."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEFINITION = re.compile(r"^ *(?:async )?def (test_\w+)\(", re.MULTILINE)
NUMBERED = re.compile(r"\| ([A-Z]?)(\d+) \|")
UNTESTED = {"38"}
"""There is no extension of JupyterLab."""
SECTIONS = {"T": 14, "C": 18, "N": 8, "V": 33, "E": 12, "D": 16, "X": 6, "K": 17, "L": 10, "A": 5}
"""How many rows there are of tags, cells, notebooks in notebooks, names, errors, distributed steps, examples, tests."""


def rows(page: str) -> list[list[str]]:
    """Return the cells of the page's numbered rows."""
    text = (ROOT / "docs/reference" / page).read_text()
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if NUMBERED.match(line)
    ]


DIFFERENCES, ROWS = rows("kale-differences.md"), rows("kale-rows.md")


@cache
def names_of_tests() -> set[str]:
    files = (ROOT / "tests").rglob("test_*.py")
    return {name for file in files for name in DEFINITION.findall(file.read_text())}


def test_every_difference_has_a_number() -> None:
    assert [row[0] for row in DIFFERENCES] == [str(number) for number in range(1, 40)]


def test_no_row_is_left_out() -> None:
    wanted = [f"{letter}{number}" for letter, count in SECTIONS.items() for number in range(1, count + 1)]
    assert [row[0] for row in ROWS] == wanted


def test_rows_name_differences_that_exist() -> None:
    named = {number for row in ROWS for number in re.findall(r"\*d(\d+)\*", row[2])}
    assert named <= {row[0] for row in DIFFERENCES}
    assert named


@pytest.mark.parametrize("row", [*DIFFERENCES, *ROWS], ids=lambda row: row[0])
def test_every_row_is_held_by_tests_that_exist(row: list[str]) -> None:
    named = set(re.findall(r"`(test_\w+)`", row[-1]))
    assert named or row[0] in UNTESTED
    assert named <= names_of_tests()
