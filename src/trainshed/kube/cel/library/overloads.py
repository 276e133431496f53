"""How functions are found: by name, and by the types of what they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from trainshed.kube.cel.values import NO_OVERLOAD, EvaluationError, same_kind, type_name

F = TypeVar("F", bound=Callable[..., Any])
ANY = object
"""Stands for every type."""


class Overloads:
    """The functions of one name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._exact: dict[tuple[type, ...], Callable[..., Any]] = {}
        self._loose: list[tuple[tuple[type, ...], Callable[..., Any]]] = []

    def add(self, kinds: tuple[type, ...], function: Callable[..., Any]) -> None:
        """Add a function for arguments of these types."""
        if ANY in kinds:
            self._loose.append((kinds, function))
        else:
            self._exact[kinds] = function

    def find(self, arguments: list[Any]) -> Callable[..., Any]:
        """Return the function for these arguments. Raises EvaluationError where there is none."""
        kinds = tuple(map(same_kind, arguments))
        found = self._exact.get(kinds)
        if found is not None:
            return found
        for wanted, function in self._loose:
            fits = (one is ANY or one is kind for one, kind in zip(wanted, kinds, strict=False))
            if len(wanted) == len(kinds) and all(fits):
                return function
        shown = ", ".join(map(type_name, arguments))
        if self._name == "size":
            raise EvaluationError(f"{NO_OVERLOAD}: size")
        several = len(self._exact) + len(self._loose) > 1
        raise EvaluationError(f"{NO_OVERLOAD}: {self._name}({shown})" if several else NO_OVERLOAD)

    def takes(self, kinds: list[type]) -> bool:
        """Return whether there is a function for arguments of these types; `ANY` is a type that is not known."""
        for wanted in (*self._exact, *(loose for loose, _ in self._loose)):
            if len(wanted) == len(kinds) and all(
                ANY in (one, kind) or one is kind for one, kind in zip(wanted, kinds, strict=True)
            ):
                return True
        return False


FUNCTIONS: dict[str, Overloads] = {}
"""Functions without a receiver; the names of some have a dot."""
MEMBERS: dict[str, Overloads] = {}
"""Functions with a receiver, which is their first argument."""


def function(name: str, *kinds: type) -> Callable[[F], F]:
    """Declare a function without a receiver."""
    return _declaring(FUNCTIONS, name, kinds)


def member(name: str, *kinds: type) -> Callable[[F], F]:
    """Declare a function with a receiver."""
    return _declaring(MEMBERS, name, kinds)


def _declaring(table: dict[str, Overloads], name: str, kinds: tuple[type, ...]) -> Callable[[F], F]:
    def declare(made: F) -> F:
        table.setdefault(name, Overloads(name)).add(kinds, made)
        return made

    return declare
