"""`when`: whether a task runs at all."""

from __future__ import annotations

from typing import Any

from trainshed.kube.meta.objects import Object
from trainshed.tekton.variables import Scope, replace


class WhenError(Exception):
    """An expression cannot be evaluated."""


def resolved(when: list[Object], scope: Scope) -> list[Object]:
    """Return the expressions with what they refer to filled in."""
    return [replace(one, scope) for one in when]


def holds(when: list[Object]) -> bool:
    """Return whether all expressions are true. Raises WhenError for one that is none."""
    return all(_one(expression) for expression in when)


def _one(expression: Object) -> bool:
    cel = expression.get("cel")
    if cel:
        return _cel(str(cel))
    wanted: Any = expression.get("values") or []
    found = str(expression.get("input", "")) in wanted
    match expression.get("operator"):
        case "in":
            return found
        case "notin":
            return not found
        case other:
            raise WhenError(f'invalid operator "{other}" in when expression: must be in or notin')


def _cel(text: str) -> bool:
    from trainshed.kube.cel.program import run  # the language is loaded with the first expression

    try:
        value = run(text, {})
    except ValueError as error:
        raise WhenError(f"cannot evaluate the CEL expression {text!r}: {error}") from error
    if not isinstance(value, bool):
        raise WhenError(f"the CEL expression {text!r} is not a condition: it gives {value!r}")
    return value
