"""A cell's text → a Python syntax tree with the lines of the cell, magics and shell lines put as IPython puts them.

The text that runs is always the one that the user wrote; what is made here is for analysis alone.
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any

import msgspec

from trainshed.pipelines.diagnostics import Diagnostic, diagnostic
from trainshed.pipelines.notebook.cells import Cell

_PYTHON_MAGICS = frozenset({"time", "timeit", "capture", "prun", "python_code", "debug"})
"""Cell and line magics whose text is Python that runs in the notebook's own names."""
_INSTALL = re.compile(
    r"^\s*(?:!|%)\s*(?:\S+/)?(?:python3? -m )?(?:pip3?|conda|mamba|uv pip)\s+install\b", re.MULTILINE
)
_CAPTURE_TO = re.compile(r"(?:^|\s)(?:--out|--err|--proc)[= ]+([A-Za-z_]\w*)")


class Code(msgspec.Struct, frozen=True):
    """A cell as Python: `body` is a list of `ast.stmt`; `binds` are names that a cell magic sets."""

    cell: int
    body: list[ast.stmt]
    binds: tuple[str, ...] = ()


def parse(cell: Cell) -> tuple[Code, list[Diagnostic]]:
    """Return the cell's code; a cell that cannot be parsed gives none of it and a finding."""
    found = _installs(cell)
    body = _python(cell.source)
    if body is not None:
        return Code(cell.number, body), found
    source, offset = cell.source, 0
    binds: tuple[str, ...] = ()
    magic = _cell_magic(source)
    if magic is not None:
        name, arguments, rest, offset = magic
        binds = tuple(_CAPTURE_TO.findall(arguments))
        if name == "capture":
            binds += tuple(word for word in arguments.split() if word.isidentifier())[:1]
        if name not in _PYTHON_MAGICS:
            behind = _compiled(f"get_ipython().run_line_magic({name!r}, {arguments!r})")
            ast.increment_lineno(behind[0], offset - 1)
            return Code(cell.number, behind, binds), found
        statement = _line_magic_statement(name, arguments)
        source = rest if statement is None else f"{statement}\n{rest}"
        offset -= statement is not None
        inner, problems = parse(Cell(cell.number, source))
        for node in inner.body:
            ast.increment_lineno(node, offset)
        moved = [msgspec.structs.replace(d, line=d.line + offset if d.line else None) for d in problems]
        return Code(cell.number, inner.body, binds + inner.binds), found + [
            d for d in moved if d not in found
        ]
    try:
        from IPython.core.inputtransformer2 import TransformerManager
    except ImportError:
        if _looks_like_ipython(source):
            return Code(cell.number, []), [
                *found,
                diagnostic(
                    "NB303",
                    "the cell has magics or shell lines, which take IPython to be understood",
                    cell=cell.number,
                    fix="pip install 'trainshed[notebooks]'",
                ),
            ]
        transformed = source
    else:
        try:
            manager: Any = TransformerManager
            transformed = manager().transform_cell(source)
        except SyntaxError:
            transformed = source
    try:
        return Code(cell.number, _compiled(transformed)), found
    except (SyntaxError, ValueError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        fix = "correct the line, or tag the cell skip"
        return Code(cell.number, []), [
            *found,
            diagnostic("NB301", message, cell=cell.number, line=line, fix=fix),
        ]


def line_magic(name: str, text: str) -> list[ast.stmt] | None:
    """Return what a line magic runs in the notebook's names, None for those that take a text which IPython expands."""
    if name not in _PYTHON_MAGICS:
        return None
    words = text.split()
    while words and words[0].startswith("-"):
        words = words[1:]
    return _python(" ".join(words)) or []


def _line_magic_statement(name: str, arguments: str) -> str | None:
    """`%%timeit x = 1` has a first statement behind the name; `%%capture out` does not."""
    if name != "timeit":
        return None
    words = [word for word in arguments.split() if not word.startswith("-")]
    text = " ".join(words)
    return text if text and _python(text) is not None else None


def _compiled(source: str) -> list[ast.stmt]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        return ast.parse(source).body


def _python(source: str) -> list[ast.stmt] | None:
    try:
        return _compiled(source)
    except (SyntaxError, ValueError):
        return None


def _cell_magic(source: str) -> tuple[str, str, str, int] | None:
    """Return name, arguments, the text behind, and how many lines are before that text."""
    lines = source.splitlines()
    blank = 0
    while blank < len(lines) and not lines[blank].strip():
        blank += 1
    if blank == len(lines) or not lines[blank].startswith("%%"):
        return None
    name, _, arguments = lines[blank][2:].strip().partition(" ")
    return name, arguments, "\n".join(lines[blank + 1 :]), blank + 1


def _looks_like_ipython(source: str) -> bool:
    return bool(re.search(r"^\s*(?:[%!?]|[\w., ]+= *[%!])|\?\s*$", source, re.MULTILINE))


def _installs(cell: Cell) -> list[Diagnostic]:
    match = _INSTALL.search(cell.source)
    if match is None:
        return []
    line = cell.source.count("\n", 0, match.end()) + 1
    return [
        diagnostic(
            "NB302",
            "packages are installed each time the step runs",
            cell=cell.number,
            line=line,
            fix="put them into the image of the step, or tag the cell skip",
        )
    ]
