"""The file of a function → the part of it that the function needs: imports, functions, classes and values it names.

Only what is named is taken, so nothing else of the file runs in a step: no call at its top, no other step.
"""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import inspect
import linecache
import symtable
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any

from trainshed.pipelines.diagnostics import NotebookError, diagnostic

_GIVEN = frozenset(dir(builtins)) | {
    "__name__",
    "__file__",
    "__doc__",
    "__builtins__",
    "get_ipython",
    "display",
}


class Script:
    """The text of a file, or of the cells of a notebook that has run, by its statements."""

    def __init__(self, text: str, name: str | None, is_ours: Callable[[ast.expr], bool]) -> None:
        """Read the text. `is_ours` tells the decorators that are left out; `name` is None for a notebook's cells."""
        self.name, self._is_ours = name, is_ours
        self.tree = ast.parse(text)
        self._lines = text.splitlines()
        self._binding: dict[str, list[int]] = {}
        for number, statement in enumerate(self.tree.body):
            for bound in () if _is_main(statement) else self._names(statement)[0]:
                if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    self._binding[bound] = [number]  # what was there before is hidden
                else:
                    self._binding.setdefault(bound, []).append(number)
        self._stars = [n for n, s in enumerate(self.tree.body) if _has_star(s)]
        self._classes = {n for n, s in enumerate(self.tree.body) if isinstance(s, ast.ClassDef)}
        self._future = [n for n, s in enumerate(self.tree.body) if _is_future(s)]

    def definition(self, function: Callable[..., Any]) -> ast.FunctionDef:
        """Return the `def` of a function. Raises NotebookError when it is none."""
        code = getattr(function, "__code__", None)
        found = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name == getattr(function, "__name__", None)
            and (
                self.name is None or code is None or self._first_line(node, ours=True) == code.co_firstlineno
            )
        ]
        if not found:
            raise _no_function(function, "is no function that a `def` makes", "write it with def, in a file")
        if isinstance(found[-1], ast.AsyncFunctionDef):
            raise _no_function(
                function, "is an async function", "run its coroutine with asyncio.run in a def"
            )
        return found[-1]

    def needs(self, definition: ast.FunctionDef) -> frozenset[int]:
        """Return which statements of the file a function needs, its own not counted.

        Raises NotebookError for a name that nothing defines.
        """
        wanted, unread = set(self._names(definition)[1]) - {definition.name}, set(self._unread(definition))
        needed = set(self._stars) | set(self._future)
        unknown: set[str] = set()
        seen: set[str] = {definition.name}
        while wanted:
            name = wanted.pop()
            if name in seen:
                continue
            seen.add(name)
            statements = self._binding.get(name, [])
            if not statements and not self._stars and name not in _GIVEN | unread:
                unknown.add(name)
            for number in statements:
                if number not in needed:
                    needed.add(number)
                    wanted |= self._names(self.tree.body[number])[1]
                    unread |= self._unread(self.tree.body[number])
        if unknown:
            raise NotebookError(
                [
                    diagnostic(
                        "NB603",
                        f"step {definition.name} uses {name}, which {self.name or 'the notebook'} does not define",
                        line=self._line_of(definition, name),
                        fix="import or define it there, or hand it to the step as an argument",
                    )
                    for name in sorted(unknown)
                ]
            )
        own = {n for n in needed if self.tree.body[n] is definition}
        return frozenset(needed - own)

    def classes(self, statements: Iterable[int]) -> frozenset[int]:
        """Return the classes among statements, with what they need."""
        found: set[int] = set()
        for number in self._classes.intersection(statements):
            found.add(number)
            wanted = set(self._names(self.tree.body[number])[1])
            seen: set[str] = set()
            while wanted:
                name = wanted.pop()
                if name in seen:
                    continue
                seen.add(name)
                for other in self._binding.get(name, ()):
                    found.add(other)
                    wanted |= self._names(self.tree.body[other])[1]
        return frozenset(found)

    def bound(self, statements: Iterable[int]) -> frozenset[str]:
        """Return the names that statements bind."""
        return frozenset(name for n in statements for name in self._names(self.tree.body[n])[0])

    def text(self, statements: Iterable[int], definition: ast.FunctionDef) -> tuple[str, int]:
        """Return statements and a function at their places, and the line that the text begins in."""
        nodes = sorted([*(self.tree.body[n] for n in statements), definition], key=lambda node: node.lineno)
        kept = {}
        for node in nodes:
            end = node.end_lineno or node.lineno
            for number in range(self._first_line(node), end + 1):
                kept[number] = self._lines[number - 1][node.col_offset if node.col_offset else 0 :]
            for decorator in self._our_decorators(node):
                for number in range(decorator.lineno, (decorator.end_lineno or decorator.lineno) + 1):
                    kept[number] = ""
        first = min(number for number, line in kept.items() if line.strip())
        last = max(kept)
        return "\n".join(kept.get(number, "") for number in range(first, last + 1)) + "\n", first

    def _our_decorators(self, node: ast.stmt) -> list[ast.expr]:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return []
        return [d for d in node.decorator_list if self._is_ours(d)]

    def _first_line(self, node: ast.stmt, *, ours: bool = False) -> int:
        """Return the line that a statement begins in: with its decorators, our own only where `ours` says so."""
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        return min([node.lineno, *(d.lineno for d in decorators if ours or not self._is_ours(d))])

    def _names(self, statement: ast.stmt) -> tuple[frozenset[str], frozenset[str]]:
        """Return what a statement binds in the file, and what it and the functions within read of the file's."""
        return _names(ast.unparse(self._without_ours(statement)))

    def _unread(self, statement: ast.stmt) -> frozenset[str]:
        """Return the names that only annotations have which are never evaluated, so that they may be missing."""
        if not any(a.name == "annotations" for n in self._future for a in self.tree.body[n].names):  # type: ignore[attr-defined]
            return frozenset()
        source = ast.unparse(self._without_ours(statement))
        return _names(source)[1] - _names(f"from __future__ import annotations\n{source}")[1]

    def _without_ours(self, statement: ast.stmt) -> ast.stmt:
        plain = copy.copy(statement)
        if isinstance(plain, ast.FunctionDef | ast.AsyncFunctionDef):
            plain.decorator_list = [d for d in plain.decorator_list if not self._is_ours(d)]
        return plain

    @staticmethod
    def _line_of(definition: ast.FunctionDef, name: str) -> int:
        lines = [n.lineno for n in ast.walk(definition) if isinstance(n, ast.Name) and n.id == name]
        return min(lines, default=definition.lineno)


@functools.cache
def _names(source: str) -> tuple[frozenset[str], frozenset[str]]:
    top = symtable.symtable(source, "statement", "exec")
    bound = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()}
    read = {s.get_name() for s in top.get_symbols() if s.is_referenced()}
    inner = list(top.get_children())
    while inner:
        table = inner.pop()
        read |= {s.get_name() for s in table.get_symbols() if s.is_global()}
        inner += table.get_children()
    return frozenset(bound), frozenset(read)


def _is_main(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and any(
        isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test)
    )


def _has_star(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and any(a.name == "*" for a in statement.names)


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _no_function(function: Callable[..., Any], why: str, fix: str) -> NotebookError:
    code = getattr(function, "__code__", None)
    line = code.co_firstlineno if code is not None else None
    message = f"{getattr(function, '__name__', function)} {why}"
    return NotebookError([diagnostic("NB604", message, line=line, fix=fix)])


def script_of(function: Callable[..., Any], is_ours: Callable[[ast.expr], bool]) -> Script:
    """Return the file that a function is written in. Raises NotebookError when there is none to be found."""
    function = inspect.unwrap(function)
    names: Mapping[str, Any] = getattr(function, "__globals__", {})
    cells = names.get("In")
    try:
        if isinstance(cells, list) and "get_ipython" in names:
            return Script(_text_of_cells(cells), None, is_ours)
        file = inspect.getsourcefile(function) or ""
        lines = linecache.getlines(file, dict(names))
        if lines:
            return Script("".join(lines), PurePath(file).name, is_ours)
    except (TypeError, SyntaxError):
        pass
    raise _no_function(function, "has no source that can be read", "write it into a file")


def _text_of_cells(cells: list[Any]) -> str:
    """Return the cells that have run, without those that are no Python, as magics put them."""
    from IPython.core.inputtransformer2 import TransformerManager

    manager: Any = TransformerManager
    kept = []
    for cell in cells:
        try:
            text = manager().transform_cell(str(cell))
            ast.parse(text)
        except SyntaxError:
            continue
        kept.append(text)
    return "\n".join(kept)
