"""Steps that refer to a StepAction: its program with the step's own parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trainshed.kube.meta.objects import Object, objects, section, spec_of
from trainshed.tekton.params import declared_in, resolve, values_of
from trainshed.tekton.variables import Scope, Value, replace

_RESULT = re.compile(r"\$\(steps\.[^()]+\.results\.[^()]+\)")


class StepActionError(Exception):
    """A step refers to what is not there."""


def names(spec: Object) -> list[str]:
    """Return the StepActions that the steps of a task refer to."""
    found = (section(step, "ref").get("name") for step in objects(spec, "steps"))
    return [str(name) for name in found if name]


def with_actions(spec: Object, actions: Mapping[str, Object], scope: Scope) -> Object:
    """Return a TaskSpec in which each step has its program.

    Raises:
        StepActionError: there is no such StepAction, or it takes a resolver.
        ParamError: its parameters do not fit.
    """
    steps = []
    for step in objects(spec, "steps"):
        reference = section(step, "ref")
        if not reference:
            steps.append(step)
            continue
        if reference.get("resolver"):
            raise StepActionError(f"the resolver {reference['resolver']} of a step is not served here")
        name = str(reference.get("name"))
        if name not in actions:
            raise StepActionError(f'stepactions.tekton.dev "{name}" not found')
        action = spec_of(actions[name])
        own, later = _params(step, action, scope)
        results = {
            f"step.results.{r['name']}.path": f"$(step.results.{r['name']}.path)"
            for r in objects(action, "results")
        }
        body = {k: v for k, v in action.items() if k not in ("params", "description")}
        kept = {k: v for k, v in step.items() if k not in ("ref", "params")}
        steps.append({**replace(_forwarded(body, later), {**own, **results}), **kept})
    return {**spec, "steps": steps}


def _params(step: Object, action: Object, scope: Scope) -> tuple[dict[str, Value], dict[str, str]]:
    """Return the parameters of a step by reference, and those that are results of earlier steps by name.

    What refers to nothing is as good as not given where the StepAction has a default.
    """
    declared = declared_in(action)
    optional = {str(d.get("name")) for d in declared if "default" in d}
    given = values_of(
        {"name": p["name"], "value": replace(p.get("value"), scope)} for p in objects(step, "params")
    )
    later: dict[str, str] = {}
    for name, value in list(given.items()):
        if isinstance(value, str) and _RESULT.fullmatch(value.strip()):
            later[name] = value.strip()[2:-1].removesuffix("[*]")
            del given[name]
        elif isinstance(value, str) and value.startswith("$(params.") and name in optional:
            del given[name]
    known = [d for d in declared if d.get("name") not in later]
    return resolve(known, given).scope(), later


def _forwarded(value: Any, later: Mapping[str, str]) -> Any:
    """Return a value in which parameters that are results of earlier steps are those results' names."""
    for name, result in later.items():
        value = _renamed(value, re.compile(rf"\$\(params\.{re.escape(name)}(?=[)\[.])"), f"$({result}")
    return value


def _renamed(value: Any, pattern: re.Pattern[str], name: str) -> Any:
    if isinstance(value, str):
        return pattern.sub(lambda match: name, value)
    if isinstance(value, dict):
        return {key: _renamed(item, pattern, name) for key, item in value.items()}
    return [_renamed(item, pattern, name) for item in value] if isinstance(value, list) else value
