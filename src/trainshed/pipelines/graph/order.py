"""Ancestors and order of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class Cycle(Exception):
    """Steps wait for one another, in this order."""

    def __init__(self, steps: Sequence[str]) -> None:
        self.steps = tuple(steps)
        super().__init__(" → ".join([*self.steps, self.steps[0]]))


def topological(previous: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the steps so that each stands behind those it waits for; otherwise in the order of the mapping.

    Raises Cycle.
    """
    done: dict[str, None] = {}
    waiting = list(previous)
    while waiting:
        ready = next((name for name in waiting if all(p in done for p in previous[name])), None)
        if ready is None:
            raise Cycle(_cycle(previous, set(waiting)))
        done[ready] = None
        waiting.remove(ready)
    return list(done)


def _cycle(previous: Mapping[str, Sequence[str]], stuck: set[str]) -> list[str]:
    path = [min(stuck)]
    while True:
        following = next(p for p in previous[path[-1]] if p in stuck)
        if following in path:
            return path[path.index(following) :][::-1]
        path.append(following)


def ancestors(step: str, previous: Mapping[str, Sequence[str]]) -> list[str]:
    """Return all steps before this one, the nearest first; those of one distance by name."""
    found: dict[str, None] = {}
    layer = [step]
    while layer:
        above = sorted({p for name in layer for p in previous[name]} - set(found))
        found |= dict.fromkeys(above)
        layer = above
    return list(found)
