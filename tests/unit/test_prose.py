"""Docstrings that answer a question have one form: `Return whether …` of a function, `Whether …` of a property."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src/trainshed"
DIALECT = re.compile(r"(Say|Tell|Check|Returns?|True if|Is it)? ?whether\b", re.IGNORECASE)

ANSWERS = re.compile(r"\"{3}" + DIALECT.pattern, re.IGNORECASE)
"""What a source has in it where a docstring answers a question."""


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    return not names.isdisjoint({"property", "cached_property"})


@pytest.mark.parametrize(
    "package", sorted(p.name for p in SRC.iterdir() if p.is_dir() and p.name != "__pycache__")
)
def test_questions_have_one_form(package: str) -> None:
    found = []
    for file in sorted((SRC / package).rglob("*.py")):
        source = file.read_text()
        if not ANSWERS.search(source):
            continue  # parsing takes a thousand times as long
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            match = DIALECT.match(ast.get_docstring(node) or "")
            wanted = "Whether" if is_property(node) else "Return whether"
            if match and match[0] != wanted:
                found.append(
                    f"{file.relative_to(SRC)}:{node.lineno} {node.name}: {match[0]!r}, not {wanted!r}"
                )
    assert not found, "\n".join(found)
