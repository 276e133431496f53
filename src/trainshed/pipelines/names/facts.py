"""What can be said of a piece of code by itself, without knowing any name."""

from __future__ import annotations

import ast

HARMLESS = frozenset(
    [
        "abs",
        "all",
        "any",
        "ascii",
        "bin",
        "bool",
        "bytes",
        "callable",
        "chr",
        "complex",
        "display",
        "divmod",
        "float",
        "format",
        "hasattr",
        "hash",
        "hex",
        "id",
        "int",
        "isinstance",
        "issubclass",
        "len",
        "max",
        "min",
        "oct",
        "ord",
        "pow",
        "print",
        "range",
        "repr",
        "round",
        "sorted",
        "str",
        "sum",
        "type",
    ]
)
"""Builtins that do not change what they are given."""
UNSAVEABLE = {
    **dict.fromkeys(("open", "io.open", "gzip.open", "tempfile.NamedTemporaryFile"), "an open file"),
    **{f"threading.{name}": "a lock" for name in ("Lock", "RLock", "Condition", "Event", "Semaphore")},
    **dict.fromkeys(
        ("threading.Thread", "subprocess.Popen", "multiprocessing.Process"), "a thread or process"
    ),
    **dict.fromkeys(("socket.socket", "sqlite3.connect", "ssl.create_default_context"), "a connection"),
}
"""What calls return that no pickle takes."""


def is_constant(node: ast.expr) -> bool:
    """Return whether a value is a number, a text or a tuple of these, which nothing can change."""
    if isinstance(node, ast.UnaryOp):
        return is_constant(node.operand)
    if isinstance(node, ast.Tuple):
        return all(is_constant(element) for element in node.elts)
    return isinstance(node, ast.Constant)


def is_generator(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether calling the function returns a generator."""
    pending: list[ast.AST] = list(node.body)
    while pending:
        current = pending.pop()
        if isinstance(current, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            pending += ast.iter_child_nodes(current)
    return False


def runs_at_least_once(node: ast.For | ast.AsyncFor) -> bool:
    """Return whether the loop's body runs to its end for certain, as far as can be seen."""
    leaves = any(isinstance(n, ast.Break | ast.Continue) for s in node.body for n in ast.walk(s))
    match node.iter:
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            full = any(not isinstance(e, ast.Starred) for e in elements)
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(count))]):
            full = count > 0
        case _:
            full = False
    return full and not leaves
