"""Parameters and metrics cells: assignments of literals, and prints of names."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import msgspec

from trainshed.pipelines.diagnostics import Diagnostic, diagnostic
from trainshed.pipelines.notebook.cells import Cell

Primitive = int | float | str | bool


class Parameter(msgspec.Struct, frozen=True):
    """A parameter of the pipeline: its name, the name of its type, its default."""

    name: str
    type: str
    default: Primitive
    cell: int | None = None


class Metric(msgspec.Struct, frozen=True):
    """A metric: the key under which it is reported, and the variable that holds it."""

    key: str
    variable: str
    cell: int | None = None


def _parsed(cell: Cell, found: list[Diagnostic]) -> list[ast.stmt]:
    try:
        return ast.parse(cell.source).body
    except (SyntaxError, ValueError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        found.append(diagnostic("NB301", message, cell=cell.number, line=line, fix="correct the line"))
        return []


def parameters(cells: Sequence[Cell]) -> tuple[tuple[Parameter, ...], list[Diagnostic]]:
    """Return the parameters that the cells assign; the last assignment of a name holds."""
    found: list[Diagnostic] = []
    result: dict[str, Parameter] = {}
    for cell in cells:
        for statement in _parsed(cell, found):
            parameter = _parameter(statement, cell, found)
            if parameter is not None:
                result[parameter.name] = parameter
    folded: dict[str, str] = {}
    for name in result:
        other = folded.setdefault(name.lower(), name)
        if other != name:
            found.append(
                diagnostic(
                    "NB403",
                    f"parameters {other} and {name} differ only in case",
                    cell=result[name].cell,
                    fix="rename one",
                )
            )
    return tuple(result.values()), found


def _parameter(statement: ast.stmt, cell: Cell, found: list[Diagnostic]) -> Parameter | None:
    line = statement.lineno
    if isinstance(statement, ast.Expr) and _is_text(statement.value):
        return None
    target, value = _assignment(statement)
    if value is None:
        found.append(
            diagnostic(
                "NB401",
                "a parameters cell may only assign literals to names",
                cell=cell.number,
                line=line,
                fix="move other code to another cell",
            )
        )
        return None
    if target is None:
        found.append(
            diagnostic(
                "NB401",
                "assign one parameter to one name at a time",
                cell=cell.number,
                line=line,
                fix="write one assignment a line",
            )
        )
        return None
    try:
        literal = ast.literal_eval(value)
    except (ValueError, TypeError):
        literal = msgspec.UNSET
    if not isinstance(literal, int | float | str):
        what = "None is not supported" if literal is None else "the value is none of these"
        found.append(
            diagnostic(
                "NB402",
                f"parameter {target}: must be an int, float, str or bool literal; {what}",
                cell=cell.number,
                line=line,
                fix="write a literal, or set the name in a step",
            )
        )
        return None
    return Parameter(target, type(literal).__name__, literal, cell.number)


def _assignment(statement: ast.stmt) -> tuple[str | None, ast.expr | None]:
    """Return the single name and the value of an assignment; no value means that it is none."""
    if isinstance(statement, ast.AnnAssign):
        return statement.target.id if isinstance(statement.target, ast.Name) else None, statement.value
    if not isinstance(statement, ast.Assign):
        return None, None
    target = statement.targets[0]
    single = len(statement.targets) == 1 and isinstance(target, ast.Name)
    return target.id if single and isinstance(target, ast.Name) else None, statement.value


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def metrics(cells: Sequence[Cell]) -> tuple[tuple[Metric, ...], list[Diagnostic]]:
    """Return the metrics that the cells print."""
    found: list[Diagnostic] = []
    result: dict[str, Metric] = {}
    for cell in cells:
        for statement in _parsed(cell, found):
            name = _printed(statement)
            if name is None:
                found.append(
                    diagnostic(
                        "NB404",
                        "a metrics cell may only print names",
                        cell=cell.number,
                        line=statement.lineno,
                        fix="write print(NAME), a name without underscore in front, one a line",
                    )
                )
                continue
            key = name.replace("_", "-")
            result[key] = Metric(key, name, cell.number)
    return tuple(result.values()), found


def _printed(statement: ast.stmt) -> str | None:
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return None
    call = statement.value
    if not (
        isinstance(call.func, ast.Name)
        and call.func.id == "print"
        and len(call.args) == 1
        and not call.keywords
    ):
        return None
    (argument,) = call.args
    if not isinstance(argument, ast.Name) or argument.id.startswith("_") or argument.id.endswith("_"):
        return None
    return argument.id if len(argument.id) <= _LONGEST_METRIC and argument.id.isascii() else None


_LONGEST_METRIC = 64
"""Characters of a metric's name in Kubeflow Pipelines."""
