"""Steps that refer to a StepAction: its program with the step's own parameters."""

from __future__ import annotations

from collections.abc import Mapping

from trainshed.kube.meta.objects import Object, objects, section, spec_of
from trainshed.tekton.params import declared_in, resolve, values_of
from trainshed.tekton.variables import Scope, Value, replace


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
        given = values_of(
            {"name": p["name"], "value": replace(p.get("value"), scope)} for p in objects(step, "params")
        )
        own: dict[str, Value] = resolve(declared_in(action), given).scope()
        results = {
            f"step.results.{r['name']}.path": f"$(step.results.{r['name']}.path)"
            for r in objects(action, "results")
        }
        body = {k: v for k, v in action.items() if k not in ("params", "description")}
        kept = {k: v for k, v in step.items() if k not in ("ref", "params")}
        steps.append({**replace(body, {**own, **results}), **kept})
    return {**spec, "steps": steps}
