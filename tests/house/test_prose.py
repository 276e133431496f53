"""Docstrings that answer a question have one form: `Return whether …` of a function, `Whether …` of a property."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.source import SRC, files, text

DIALECT = re.compile(r"(Say|Tell|Check|Returns?|True if|Is it)? ?whether\b", re.IGNORECASE)

ANSWERS = re.compile(r"\"{3}" + DIALECT.pattern, re.IGNORECASE)
"""What a source has in it where a docstring answers a question."""


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    return not names.isdisjoint({"property", "cached_property"})


_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Fields that hold statements: functions are in no others."""


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function, methods and those in functions too."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        for field in _BLOCKS:
            waiting += getattr(node, field, ())


@pytest.mark.parametrize(
    "package", sorted(p.name for p in SRC.iterdir() if p.is_dir() and p.name != "__pycache__")
)
def test_questions_have_one_form(package: str) -> None:
    found = []
    for file in files():
        if not file.is_relative_to(SRC / package) or not ANSWERS.search(text(file)):
            continue  # parsing takes a thousand times as long
        for node in functions(ast.parse(text(file))):
            match = DIALECT.match(ast.get_docstring(node) or "")
            wanted = "Whether" if is_property(node) else "Return whether"
            if match and match[0] != wanted:
                found.append(
                    f"{file.relative_to(SRC)}:{node.lineno} {node.name}: {match[0]!r}, not {wanted!r}"
                )
    assert not found, "\n".join(found)
