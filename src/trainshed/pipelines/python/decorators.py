"""`@step` and `@pipeline`: a pipeline as Python functions.

    from trainshed.pipelines import pipeline, step

    @step()
    def load(count):
        rows = list(range(count))
        return rows

    @step(limits={"cpu": "1"})
    def total(rows):
        result = sum(rows)
        return result

    @pipeline(name="sums")
    def sums(count: int = 3):
        rows = load(count)
        total(rows)

    sums.pipeline()  # the compiled pipeline

The arguments of a step are what it loads, the names that it returns what it saves. Called outside of a pipeline, a step
is the plain function. Imports and undecorated functions of the same file are there in every step.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

import msgspec

from trainshed.pipelines.diagnostics import NotebookError, diagnostic
from trainshed.pipelines.ir import Block, Input, Pipeline, Step
from trainshed.pipelines.notebook.cells import Notebook
from trainshed.pipelines.notebook.literals import Parameter
from trainshed.pipelines.notebook.settings import sanitised, settings_of
from trainshed.pipelines.notebook.steps import Distribution, StepSettings
from trainshed.pipelines.notebook.strategies import STRATEGIES

_P = ParamSpec("_P")
_R = TypeVar("_R")


class StepFunction(Generic[_P, _R]):
    """A function that can be a step. Calling it calls the function."""

    def __init__(
        self,
        function: Callable[_P, _R],
        name: str | None,
        settings: StepSettings,
        distribution: Distribution | None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function, self.settings, self.distribution = function, settings, distribution
        self.name = name or function.__name__

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Call the function, here and now."""
        return self.function(*args, **kwargs)

    @property
    def arguments(self) -> list[str]:
        """The names of the arguments."""
        return list(inspect.signature(self.function).parameters)


class PipelineFunction(Generic[_P, _R]):
    """A function whose body calls steps. Calling it runs them here and now; `pipeline()` compiles it."""

    def __init__(self, function: Callable[_P, _R], settings: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.function, self.settings = function, settings

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Run the steps in this process."""
        return self.function(*args, **kwargs)

    def pipeline(self) -> Pipeline:
        """Return the compiled pipeline. Raises NotebookError."""
        return _compiled(self.function, self.settings)


def step(
    name: str | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    image: str | None = None,
    retries: int = 0,
    timeout: str | None = None,
    distribute: str | None = None,
    num_workers: int = 1,
    nproc_per_node: int = 1,
) -> Callable[[Callable[_P, _R]], StepFunction[_P, _R]]:
    """Make a function a step. `timeout` is a duration as `1h30m`; `distribute` one of the strategies of the tags.

    Raises ValueError for an unknown strategy or fewer than one worker.
    """
    distribution = None
    if distribute is not None:
        if distribute not in STRATEGIES:
            raise ValueError(f"distribute must be one of {', '.join(STRATEGIES)}, not {distribute!r}")
        if num_workers < 1 or nproc_per_node < 1:
            raise ValueError("num_workers and nproc_per_node must be at least 1")
        distribution = Distribution(distribute, num_workers, nproc_per_node)
    settings = StepSettings(
        labels=dict(labels or {}),
        annotations=dict(annotations or {}),
        limits=dict(limits or {}),
        requests=dict(requests or {}),
        env=dict(env or {}),
        image=image,
        retries=retries,
        timeout=timeout,
    )
    return lambda function: StepFunction(function, name, settings, distribution)


def pipeline(
    name: str | None = None, *, experiment: str = "", description: str = "", image: str = "", **settings: Any
) -> Callable[[Callable[_P, _R]], PipelineFunction[_P, _R]]:
    """Make a function a pipeline. Further settings are those of a notebook's metadata."""
    given = {
        "experiment_name": experiment,
        "pipeline_description": description,
        "base_image": image,
        **settings,
    }
    if name is not None:
        given["pipeline_name"] = name
    return lambda function: PipelineFunction(function, given)


class _Variable(msgspec.Struct, frozen=True):
    step: str
    output: str


def _compiled(function: Callable[..., Any], given: Mapping[str, Any]) -> Pipeline:
    settings, found = settings_of(Notebook(sanitised(function.__name__), (), dict(given)))
    if found:
        raise NotebookError(found)
    body = _definition(function).body
    parameters = _parameters(function)
    variables: dict[str, _Variable] = {}
    steps: dict[str, Step] = {}
    for statement in body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        targets, called, arguments = _call(statement, function)
        name = called.name
        while name in steps:
            name += "_again"
        returned = _returned(called.function)
        if len(targets) > len(returned) or (targets and len(targets) != len(returned)):
            raise _wrong(statement, f"step {called.name} returns {', '.join(returned) or 'nothing'}")
        inputs, own = [], []
        for argument, value in arguments.items():
            if value in variables:
                inputs.append(Input(argument, variables[value].step, variables[value].output))
            elif value in parameters:
                own.append((argument, value))
            else:
                raise _wrong(statement, f"{value} is no parameter, and no step before returns it")
        for target in targets:
            if target in parameters:
                raise _wrong(statement, f"{target} is the name of a parameter")
        variables |= {
            target: _Variable(name, output) for target, output in zip(targets, returned, strict=False)
        }
        steps[name] = Step(
            name,
            _blocks(called, own, returned),
            tuple(dict.fromkeys(i.step for i in inputs)),
            tuple(sorted(inputs, key=lambda i: i.name)),
            parameters=tuple(sorted({value for _, value in own})),
            settings=called.settings,
            distribution=called.distribution,
        )
    if not steps:
        raise NotebookError([diagnostic("NB001", f"pipeline {function.__name__} calls no step")])
    used = {(i.step, i.output) for s in steps.values() for i in s.inputs}
    finished = [
        msgspec.structs.replace(s, outputs=tuple(sorted(output for name, output in used if name == s.name)))
        for s in steps.values()
    ]
    return Pipeline(settings, tuple(parameters.values()), tuple(finished))


def _parameters(function: Callable[..., Any]) -> dict[str, Parameter]:
    parameters = {}
    for name, parameter in inspect.signature(function).parameters.items():
        default = parameter.default
        if not isinstance(default, int | float | str):
            message = f"parameter {name} of pipeline {function.__name__} needs a default: an int, float, str or bool"
            raise NotebookError([diagnostic("NB402", message)])
        parameters[name] = Parameter(name, type(default).__name__, default)
    return parameters


def _call(
    statement: ast.stmt, function: Callable[..., Any]
) -> tuple[list[str], StepFunction[..., Any], dict[str, str]]:
    """Return the names that a statement sets, the step that it calls, and which names it gives to which arguments."""
    value = statement.value if isinstance(statement, ast.Assign | ast.Expr | ast.Return) else None
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Name)):
        raise _wrong(statement, "the body of a pipeline may only call steps and assign what they return")
    called = function.__globals__.get(value.func.id) or inspect.getclosurevars(function).nonlocals.get(
        value.func.id
    )
    if not isinstance(called, StepFunction):
        raise _wrong(statement, f"{value.func.id} is no step")
    targets: list[str] = []
    if isinstance(statement, ast.Assign):
        (target,) = statement.targets
        nodes = target.elts if isinstance(target, ast.Tuple) else [target]
        targets = [n.id for n in nodes if isinstance(n, ast.Name)]
    names = called.arguments
    arguments: dict[str, str] = {}
    given: list[tuple[str, ast.expr]] = list(zip(names, value.args, strict=False))
    given += [(keyword.arg or "", keyword.value) for keyword in value.keywords]
    for argument, node in given:
        if not isinstance(node, ast.Name):
            raise _wrong(statement, f"argument {argument} of step {called.name} must be a name")
        arguments[argument] = node.id
    return targets, called, arguments


def _blocks(
    called: StepFunction[..., Any], own: Sequence[tuple[str, str]], returned: Sequence[str]
) -> tuple[Block, ...]:
    """Return the program: imports and helpers of the file, the parameters under their argument's names, the body."""
    definition = _definition(called.function)
    body = [s for s in definition.body if not isinstance(s, ast.Return)]
    renamed = [f"{argument} = {value}" for argument, value in own if argument != value]
    values = _return_values(definition)
    renamed_results = [
        f"{name} = {ast.unparse(v)}"
        for name, v in zip(returned, values, strict=True)
        if ast.unparse(v) != name
    ]
    text = "\n".join([*renamed, *(ast.unparse(s) for s in body), *renamed_results]) or "pass"
    imports, functions = _surroundings(called.function)
    return (
        *([Block(imports, "imports")] if imports else []),
        *([Block(functions, "functions")] if functions else []),
        Block(text),
    )


def _surroundings(function: Callable[..., Any]) -> tuple[str, str]:
    """Return the imports and the undecorated functions and classes of the file."""
    module = inspect.getmodule(function)
    try:
        tree = ast.parse(inspect.getsource(module)) if module is not None else ast.Module([], [])
    except (OSError, TypeError):
        return "", ""
    own = [n for n in tree.body if not _is_ours(n)]
    imports = [ast.unparse(n) for n in own if isinstance(n, ast.Import | ast.ImportFrom)]
    kinds = ast.FunctionDef | ast.ClassDef | ast.Assign
    functions = [ast.unparse(n) for n in own if isinstance(n, kinds) and not getattr(n, "decorator_list", [])]
    return "\n".join(imports), "\n".join(functions)


def _is_ours(node: ast.stmt) -> bool:
    from_ours = isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trainshed")
    return from_ours or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _definition(function: Callable[..., Any]) -> ast.FunctionDef:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    return definition


def _return_values(definition: ast.FunctionDef) -> list[ast.expr]:
    last = definition.body[-1]
    if not isinstance(last, ast.Return) or last.value is None:
        return []
    return list(last.value.elts) if isinstance(last.value, ast.Tuple) else [last.value]


def _returned(function: Callable[..., Any]) -> list[str]:
    """Return the names of what a step returns; a value that is no name is called `result`, `result_2`."""
    names = []
    for index, value in enumerate(_return_values(_definition(function))):
        other = f"result_{index + 1}" if index else "result"
        names.append(value.id if isinstance(value, ast.Name) else other)
    return names


def _wrong(statement: ast.stmt, message: str) -> NotebookError:
    return NotebookError([diagnostic("NB301", f"{message} (line {statement.lineno} of the pipeline)")])
