"""The names that are local to a function: what its body binds, without what nested scopes bind for themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator


def arguments(args: ast.arguments) -> set[str]:
    """Return the names of a function's arguments."""
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    every += [arg for arg in (args.vararg, args.kwarg) if arg is not None]
    return {arg.arg for arg in every}


def bindings(body: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """Return the names that statements bind in their own scope, and those declared global."""
    bound: set[str] = set()
    declared: set[str] = set()
    for node in _own(body):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                bound.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                bound |= {alias.asname or alias.name.partition(".")[0] for alias in names}
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                bound.add(name)
            case ast.MatchMapping(rest=str(name)):
                bound.add(name)
            case ast.Global(names=names):
                declared |= set(names)
            case _:
                pass
    return bound - declared, declared


def _own(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of this scope. Of a comprehension only assignment expressions belong to it."""
    for node in nodes:
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            yield from (n.target for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
            continue
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _own(ast.iter_child_nodes(node))
