"""Calls of steps → the pipeline: each step's program is the part of its file that it needs, and the call."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from trainshed.pipelines.diagnostics import Diagnostic, NotebookError, diagnostic, has_errors, ordered
from trainshed.pipelines.ir import Block, Compiled, Input, Pipeline, Step
from trainshed.pipelines.notebook.cells import Notebook
from trainshed.pipelines.notebook.literals import Parameter
from trainshed.pipelines.notebook.settings import Settings, sanitised, settings_of
from trainshed.pipelines.notebook.stepnames import NamedStep, wrong_names
from trainshed.pipelines.notebook.stepsettings import Distribution, step_settings
from trainshed.pipelines.notebook.tags import Said, understand
from trainshed.pipelines.python.body import Body, Call, Called, Variable, is_generator
from trainshed.pipelines.python.script import Script, script_of

_TYPES = {"int": int, "float": float, "str": str, "bool": bool}


class StepLike(Called, Protocol):
    """What is asked of a step: its function, what its decorator says."""

    said: tuple[Said, ...]
    distribution: Distribution | None


class Ours(msgspec.Struct, frozen=True):
    """How functions of ours are known: decorators by what they are, steps by their type."""

    decorators: tuple[object, ...]
    step: type

    def decorates(self, names: Mapping[str, Any], node: ast.expr) -> bool:
        """Return whether an expression above a function is one of our decorators."""
        first, *rest = ast.unparse(node.func if isinstance(node, ast.Call) else node).split(".")
        found = names.get(first)
        for attribute in rest:
            found = getattr(found, attribute, None)
        return any(found is one for one in self.decorators)


def compiled(function: Callable[..., Any], given: Mapping[str, Any], ours: Ours) -> Compiled:
    """Return the pipeline of a function whose body calls steps, unless a finding is an error.

    Findings of another file than the function's name it.
    """
    settings, found = settings_of(Notebook(sanitised(function.__name__), (), dict(given)))
    try:
        pipeline = _Build(function, ours, found).pipeline(settings)
    except NotebookError as error:
        return Compiled(None, ordered([*found, *error.diagnostics]))
    return Compiled(None if has_errors(found) else pipeline, ordered(found))


class _Build:
    def __init__(self, function: Callable[..., Any], ours: Ours, found: list[Diagnostic]) -> None:
        self._function, self._ours, self._found = function, ours, found
        self._scripts: dict[str, Script] = {}
        self._own = self._script(function)

    def pipeline(self, settings: Settings) -> Pipeline:
        definition = self._own.definition(self._function)
        parameters = _parameters(self._function, definition)
        around = inspect.getclosurevars(self._function).nonlocals
        body = Body(
            {**vars(builtins), **self._function.__globals__, **around},
            parameters,
            self._is_step,
            self._definition_of,
        )
        body.read(definition.body)
        if not body.calls:
            raise NotebookError(
                [
                    diagnostic(
                        "NB001", f"pipeline {self._function.__name__} calls no step", fix="call a step in it"
                    )
                ]
            )
        calls = list(body.calls.values())
        self._found += wrong_names(
            NamedStep(c.name, c.called.distribution.workers if c.called.distribution else None, line=c.line)  # type: ignore[attr-defined]
            for c in calls
        )
        programs = dict(self._programs(calls))
        defaults = [said for said in map(understand, settings.step_tags) if said is not None]
        kept = {call.name: _kept(call, programs[call.name][1]) for call in calls}
        steps = [_step(call, *programs[call.name], kept, defaults, parameters) for call in calls]
        used = {(i.step, i.output) for s in steps for i in s.inputs}
        finished = tuple(
            msgspec.structs.replace(
                s, outputs=tuple(sorted(output for name, output in used if name == s.name))
            )
            for s in steps
        )
        return Pipeline(settings, tuple(parameters.values()), finished)

    def _script(self, function: Callable[..., Any]) -> Script:
        function = inspect.unwrap(function)
        file = getattr(getattr(function, "__code__", None), "co_filename", "")
        if file not in self._scripts:
            names: Mapping[str, Any] = getattr(function, "__globals__", {})
            self._scripts[file] = script_of(function, lambda node: self._ours.decorates(names, node))
        return self._scripts[file]

    def _is_step(self, value: object) -> bool:
        return isinstance(value, self._ours.step)

    def _definition_of(self, called: Called) -> ast.FunctionDef:
        """Return a step's `def`. Raises NotebookError when it cannot be a program of its own."""
        function = inspect.unwrap(called.function)
        definition = self._script(function).definition(function)
        outside = function.__code__.co_freevars
        if outside:
            message = f"step {called.name} uses {', '.join(outside)} of the function that it is written in"
            raise NotebookError(
                [diagnostic("NB604", message, line=definition.lineno, fix="hand it over as an argument")]
            )
        if is_generator(definition):
            message = f"step {called.name} is a generator, which cannot be handed to another step"
            raise NotebookError([diagnostic("NB604", message, line=definition.lineno, fix="return a list")])
        return definition

    def _programs(self, calls: list[Call]) -> Iterator[tuple[str, tuple[Block, frozenset[str]]]]:
        """Yield each step's definitions, with the names that they bind.

        A class that one step has is in all of the same file, since its objects go from step to step by its name.
        """
        needed: dict[str, tuple[Script, ast.FunctionDef, frozenset[int]]] = {}
        for call in calls:
            definition = self._definition_of(call.called)
            script = self._script(call.called.function)
            try:
                needed[call.name] = script, definition, script.needs(definition)
            except NotebookError as error:
                self._found += [self._placed(d, script) for d in error.diagnostics]
        for name, (script, definition, own) in needed.items():
            classes = [s.classes(n) for s, _, n in needed.values() if s is script]
            statements = own.union(*classes)
            text, line = script.text(statements, definition)
            file = script.name
            block = Block(
                text if file else text.strip("\n"), "functions", file=file, line=line if file else 1
            )
            yield name, (block, script.bound(statements) | {definition.name})
        if has_errors(self._found):
            raise NotebookError([])

    def _placed(self, one: Diagnostic, script: Script) -> Diagnostic:
        return one if script is self._own else msgspec.structs.replace(one, file=script.name)


def _parameters(function: Callable[..., Any], definition: ast.FunctionDef) -> dict[str, Parameter]:
    parameters, found = {}, []
    for name, parameter in inspect.signature(function).parameters.items():
        default, said = parameter.default, parameter.annotation
        said = said if isinstance(said, str) else getattr(said, "__name__", "")
        kind = type(default).__name__
        if said == "float" and kind == "int":
            default, kind = float(default), "float"
        message = fix = ""
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            message, fix = f"pipeline {function.__name__} takes *{name}", "name each parameter"
        elif default is parameter.empty:
            message = f"parameter {name} of pipeline {function.__name__} needs a default: an int, float, str or bool"
            fix = f"write {name}: int = 1"
        elif kind not in _TYPES:
            message = f"parameter {name}: must be an int, float, str or bool, not {kind}"
            fix = "make the value in a step"
        elif said in _TYPES and said != kind:
            message, fix = (
                f"parameter {name}: is said to be {said}, and its default is {kind}",
                f"write {name}: {kind}",
            )
        if message:
            found.append(diagnostic("NB402", message, line=definition.lineno, fix=fix))
        else:
            parameters[name] = Parameter(name, kind, default)
    if found:
        raise NotebookError(found)
    return parameters


def _step(
    call: Call,
    definitions: Block,
    bound: frozenset[str],
    kept: Mapping[str, Mapping[str, str]],
    defaults: list[Said],
    parameters: Mapping[str, Parameter],
) -> Step:
    """Return a step: the definitions, and the call with what it is given, each under a name that is free there."""
    taken = set(bound)
    texts: list[str] = []
    own, renamed = [], []
    for argument in call.arguments:
        if isinstance(argument.value, str) and argument.value not in own:
            own.append(argument.value)
    taken |= set(own)
    inputs: dict[Variable, Input] = {}
    for argument in call.arguments:
        value = argument.value
        if isinstance(value, Variable):
            if value not in inputs:
                inputs[value] = Input(_free(argument.name, taken), value.step, kept[value.step][value.output])
            text = inputs[value].name
        elif isinstance(value, str):
            text = value
            if value in bound:  # the file has something else of that name, which is there by then
                text = _free(value, taken)
                renamed.append(f"{text} = {value}")
        else:
            text = ast.unparse(value)
        texts.append(f"{argument.name}={text}" if argument.keyword else text)
    result = f"{', '.join(kept[call.name].values())} = " if call.outputs else ""
    function = call.called.function.__name__
    # A kernel shows the value of a last expression, unless a semicolon follows.
    called = Block(f"{result}{function}({', '.join(texts)}){'' if result else ';'}")
    step: StepLike = call.called  # type: ignore[assignment]
    return Step(
        call.name,
        (*([Block("\n".join(renamed), "imports")] if renamed else []), definitions, called),
        tuple(dict.fromkeys(i.step for i in inputs.values())),
        tuple(sorted(inputs.values(), key=lambda i: i.name)),
        parameters=tuple(sorted(name for name in own if name in parameters)),
        settings=step_settings([*defaults, *step.said]),
        distribution=step.distribution,
    )


def _kept(call: Call, bound: frozenset[str]) -> dict[str, str]:
    """Return under which name a step has each of its outputs: not that of a function of its file, which calls it."""
    taken = set(bound)
    return {output: _free(output, taken) for output in call.outputs}


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
