"""What tests ask of every plan."""

from __future__ import annotations

from typing import TypeVar

from trainshed.kube.meta.plan import Create, Plan

P = TypeVar("P", bound=Plan)


def written(plan: P) -> P:
    """Return the plan, once everything that it creates was written, as when it is carried out."""
    for action in plan.actions:
        if isinstance(action, Create):
            assert action.object
    return plan
