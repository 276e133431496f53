"""The page of differences from Kale names a test for each of its rows."""

from __future__ import annotations

import ast
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
UNTESTED = {"38"}
"""There is no extension of JupyterLab."""


@cache
def names_of_tests() -> set[str]:
    files = (ROOT / "tests").rglob("test_*.py")
    trees = (ast.parse(file.read_text()) for file in files)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, kinds)}


def test_every_difference_has_a_number() -> None:
    assert [row[0] for row in ROWS] == [str(number) for number in range(1, 40)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_difference_is_held_by_tests_that_exist(row: list[str]) -> None:
    named = set(re.findall(r"`(test_\w+)`", row[3]))
    assert named or row[0] in UNTESTED
    assert named <= names_of_tests()
