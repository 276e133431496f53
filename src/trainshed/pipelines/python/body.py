"""The body of a `@pipeline` function → the calls of steps in it, with what each is given and what it gives."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from trainshed.pipelines.diagnostics import Diagnostic, NotebookError, diagnostic


class Called(Protocol):
    """A function that is a step."""

    name: str
    function: Callable[..., Any]


class Variable(msgspec.Struct, frozen=True):
    """What a step has returned: `output` is its name there."""

    step: str
    output: str


class Argument(msgspec.Struct, frozen=True):
    """What a step is given, and as which of its arguments: a variable, the name of a parameter, or a literal's text."""

    name: str
    keyword: bool
    value: Variable | str | ast.expr


class Call(msgspec.Struct, frozen=True):
    """One step of the pipeline: what is called, with what, and under which names its outputs are kept."""

    name: str
    called: Called
    arguments: tuple[Argument, ...]
    outputs: tuple[str, ...]
    line: int


class Returns(msgspec.Struct, frozen=True):
    """What a function returns: `names` where these are known, one for each value; None where the number is unknown."""

    names: tuple[str, ...] | None


def returns(definition: ast.FunctionDef) -> Returns:
    """Return what a function gives back, judged by its `return` statements.

    A value is called as the name that is returned; otherwise `result`, `result_2`.
    """
    values = [node.value for node in _own(definition) if isinstance(node, ast.Return)]
    given = [v for v in values if v is not None and not (isinstance(v, ast.Constant) and v.value is None)]
    if not given:
        return Returns(())
    counts = {len(v.elts) if isinstance(v, ast.Tuple) else 1 for v in given}
    if len(counts) > 1 or any(
        isinstance(e, ast.Starred) for v in given if isinstance(v, ast.Tuple) for e in v.elts
    ):
        return Returns(None)
    (count,) = counts
    if count == 1 and not all(isinstance(v, ast.Name) for v in given):
        return Returns(None)
    rows = [v.elts if isinstance(v, ast.Tuple) else [v] for v in given]
    names: list[str] = []
    for index in range(count):
        said = {row[index].id if isinstance(row[index], ast.Name) else "" for row in rows}  # type: ignore[attr-defined]
        name = said.pop() if len(said) == 1 else ""
        names.append(name if name and name not in names else result_name(index))
    return Returns(tuple(names))


def result_name(index: int) -> str:
    """Return what an output without a name is called."""
    return f"result_{index + 1}" if index else "result"


def is_generator(definition: ast.FunctionDef) -> bool:
    """Return whether a function yields."""
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own(definition))


def _own(definition: ast.FunctionDef) -> list[ast.AST]:
    """Return the nodes of a function without those of functions and classes within it."""
    found: list[ast.AST] = []
    ahead: list[ast.AST] = list(definition.body)
    while ahead:
        node = ahead.pop(0)
        found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            ahead += ast.iter_child_nodes(node)
    return found


class Body:
    """Reads the body of a pipeline function, statement by statement."""

    def __init__(
        self,
        names: Mapping[str, Any],
        parameters: Mapping[str, object],
        is_step: Callable[[object], bool],
        definition_of: Callable[[Called], ast.FunctionDef],
    ) -> None:
        """`names` are what the function finds around it, `parameters` its own."""
        self._names, self._parameters = names, parameters
        self._is_step, self._definition_of = is_step, definition_of
        self._variables: dict[str, Variable] = {}
        self.calls: dict[str, Call] = {}

    def read(self, statements: list[ast.stmt]) -> None:
        """Add the calls of statements. Raises NotebookError."""
        for statement in statements:
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Pass) or (
            isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        ):
            return
        if isinstance(statement, ast.Return) and not isinstance(statement.value, ast.Call):
            for node in [statement.value] if statement.value is not None else []:
                self._returned(node)
            return
        value = (
            statement.value
            if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr | ast.Return)
            else None
        )
        if not isinstance(value, ast.Call):
            raise wrong(
                "NB601",
                statement,
                "the body of a pipeline may only call steps and assign what they return",
                "move other code into a step",
            )
        targets = _targets(statement)
        for target in targets:
            if target in self._parameters:
                raise wrong("NB602", statement, f"{target} is the name of a parameter", "choose another name")
        made = self._call(value, targets)
        self._variables |= {
            target: Variable(made.name, output) for target, output in zip(targets, made.outputs, strict=True)
        }

    def _returned(self, node: ast.expr) -> None:
        for one in node.elts if isinstance(node, ast.Tuple) else [node]:
            is_none = isinstance(one, ast.Constant) and one.value is None
            if not is_none and not (isinstance(one, ast.Name) and one.id in self._variables):
                raise wrong(
                    "NB601", node, "a pipeline may only return what its steps return", "remove the return"
                )

    def _call(self, node: ast.Call, targets: list[str], *, inner: bool = False) -> Call:
        called = self._called(node)
        definition = self._definition_of(called)
        arguments = self._arguments(node, called)
        name, number = called.name, 1
        while name in self.calls:
            if self.calls[name].called is not called:
                message = f"two steps are called {called.name}"
                raise wrong("NB106", node, message, "give one another name: @step(name=…)")
            number += 1
            name = f"{called.name}_{number}"
        made = Call(
            name, called, arguments, self._outputs(node, called, definition, targets, inner), node.lineno
        )
        self.calls[name] = made
        return made

    def _outputs(
        self, node: ast.Call, called: Called, definition: ast.FunctionDef, targets: list[str], inner: bool
    ) -> tuple[str, ...]:
        names = returns(definition).names
        count = 1 if inner else len(targets)
        if names is not None and count and (not names or (count > 1 and len(names) != count)):
            raise wrong(
                "NB602",
                node,
                f"step {called.name} returns {', '.join(names) or 'nothing'}",
                f"assign it to {len(names)} name{'s' if len(names) != 1 else ''}"
                if names
                else "return something",
            )
        if names is not None and len(names) == count:
            return names
        return tuple(result_name(i) for i in range(count)) if count == 1 else tuple(targets)

    def _called(self, node: ast.Call) -> Called:
        words = ast.unparse(node.func)
        found: Any = None
        if isinstance(node.func, ast.Name | ast.Attribute):
            first, *rest = words.split(".")
            if first not in self._names and first.isidentifier():
                raise wrong("NB603", node, f"{first} is not defined", "define the step before the pipeline")
            found = self._names.get(first)
            for attribute in rest:
                found = getattr(found, attribute, None)
        if not self._is_step(found):
            raise wrong(
                "NB601", node, f"{words} is no step", f"decorate {words} with @step, or call it in a step"
            )
        step: Called = found
        return step

    def _arguments(self, node: ast.Call, called: Called) -> tuple[Argument, ...]:
        signature = inspect.signature(called.function)
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            raise wrong(
                "NB602", node, f"arguments of step {called.name} must be written one by one", "name each"
            )
        keywords = {keyword.arg or "": keyword.value for keyword in node.keywords}
        try:
            bound = signature.bind(*node.args, **keywords)
        except TypeError as error:
            raise wrong(
                "NB602", node, f"step {called.name}: {error}", f"it is {called.name}{signature}"
            ) from error
        known = {id(value): name for name, value in bound.arguments.items()}
        made = [
            Argument(known.get(id(value), f"argument_{index + 1}"), False, self._value(value, known, called))
            for index, value in enumerate(node.args)
        ]
        made += [
            Argument(name, True, self._value(value, known, called, name)) for name, value in keywords.items()
        ]
        return tuple(made)

    def _value(
        self, node: ast.expr, known: Mapping[int, str], called: Called, keyword: str = ""
    ) -> Variable | str | ast.expr:
        name = keyword or known.get(id(node), "")
        if isinstance(node, ast.Name):
            if node.id in self._variables:
                return self._variables[node.id]
            if node.id in self._parameters:
                return node.id
            message = f"{node.id} is no parameter, and no step before returns it"
            raise wrong("NB603", node, message, "call the step that returns it before this one")
        if isinstance(node, ast.Call):
            made = self._call(node, [], inner=True)
            return Variable(made.name, made.outputs[0])
        try:
            ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError):
            message = f"argument {name} of step {called.name} must be a name or a literal"
            raise wrong("NB602", node, message, "compute it in a step") from None
        return node


def _targets(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.AnnAssign):
        nodes: list[ast.expr] = [statement.target]
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        nodes = list(target.elts) if isinstance(target, ast.Tuple | ast.List) else [target]
    elif isinstance(statement, ast.Assign):
        raise wrong("NB601", statement, "assign what a step returns once", "write one assignment")
    else:
        return []
    names = [node.id for node in nodes if isinstance(node, ast.Name)]
    if len(names) != len(nodes) or not names:
        message = "what a step returns may only be assigned to names"
        raise wrong("NB601", statement, message, "assign it to a name")
    return names


def wrong(code: str, node: ast.stmt | ast.expr, message: str, fix: str = "") -> NotebookError:
    """Return the error of one finding at a line of the file."""
    found: Diagnostic = diagnostic(code, message, line=node.lineno, fix=fix)
    return NotebookError([found])
