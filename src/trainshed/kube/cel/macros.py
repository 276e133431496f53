"""The macros of CEL: loops over lists and maps, and what is done to an optional value that is there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from trainshed.kube.cel.functions import MACROS as COSTS
from trainshed.kube.cel.operators import insert
from trainshed.kube.cel.values import NO_OVERLOAD, NONE, EvaluationError, Optional, present, type_name


class Frame:
    """One evaluation: the variables, and what it has cost."""

    __slots__ = ("_exceeded", "_limit", "names", "spent")

    def __init__(self, names: dict[str, Any], limit: int, exceeded: Exception) -> None:
        self.names, self.spent = names, 0
        self._limit, self._exceeded = limit, exceeded

    def spend(self, cost: int) -> None:
        """Pay for a step; raises the error of expressions that cost too much."""
        self.spent += cost
        if self.spent > self._limit:
            raise self._exceeded


Step: TypeAlias = Callable[[Frame], Any]
Made: TypeAlias = Callable[[Step, list[str], list[Step]], Step]
_UNSET = object()


class Macro(NamedTuple):
    """A macro: how many of its arguments are names, and the function that makes a step of it."""

    names: int
    made: Made


@contextmanager
def _bound(frame: Frame, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Give names another meaning for a while."""
    held = frame.names
    before = [(name, held.get(name, _UNSET)) for name in names]
    try:
        yield held
    finally:
        for name, value in before:
            if value is _UNSET:
                held.pop(name, None)
            else:
                held[name] = value


def _rounds(frame: Frame, over: Any, names: list[str], each: int) -> Iterator[None]:
    """Bind the names to one item after the other."""
    held = frame.names
    if len(names) == 1:
        items: Iterable[Any] = over if isinstance(over, list | dict) else _not_iterable(over)
        (name,) = names
        for item in items:
            frame.spend(each)
            held[name] = item
            yield
        return
    first, second = names
    pairs: Iterable[tuple[Any, Any]]
    if isinstance(over, list):
        pairs = enumerate(over)
    else:
        pairs = over.items() if isinstance(over, dict) else _not_iterable(over)
    for key, item in pairs:
        frame.spend(each)
        held[first], held[second] = key, item
        yield


def _not_iterable(over: Any) -> Any:
    name = type_name(over)
    raise EvaluationError(f"got 'types.{name[:1].upper()}{name[1:]}', expected iterable type")


def _loop(name: str, run: Callable[[Frame, Iterator[None], list[Step]], Any]) -> Made:
    each, once = COSTS[name]

    def made(target: Step, names: list[str], parts: list[Step]) -> Step:
        def loop(frame: Frame) -> Any:
            over = target(frame)
            with _bound(frame, names):
                value = run(frame, _rounds(frame, over, names, each), parts)
            frame.spend(once)
            return value

        return loop

    return made


def _all(frame: Frame, rounds: Iterator[None], parts: list[Step], *, ends: bool = False) -> bool:
    """Go round until one item decides; an error counts only if none does."""
    error: EvaluationError | None = None
    for _ in rounds:
        try:
            found = parts[0](frame)
        except EvaluationError as failed:
            error = error or failed
            continue
        if found is ends:
            return ends
        if type(found) is not bool:
            error = error or EvaluationError(NO_OVERLOAD)
    if error is not None:
        raise error
    return not ends


def _exists(frame: Frame, rounds: Iterator[None], parts: list[Step]) -> bool:
    return _all(frame, rounds, parts, ends=True)


def _holds(step: Step, frame: Frame) -> bool:
    found = step(frame)
    if type(found) is not bool:
        raise EvaluationError(NO_OVERLOAD)
    return found


def _exists_one(frame: Frame, rounds: Iterator[None], parts: list[Step]) -> bool:
    return sum(_holds(parts[0], frame) for _ in rounds) == 1


def _chosen(frame: Frame, rounds: Iterator[None], parts: list[Step]) -> Iterator[None]:
    """Go round where the filter holds, which is the first of two parts."""
    for _ in rounds:
        if len(parts) == 1 or _holds(parts[0], frame):
            yield


def _map(frame: Frame, rounds: Iterator[None], parts: list[Step]) -> list[Any]:
    return [parts[-1](frame) for _ in _chosen(frame, rounds, parts)]


def _transform_map(frame: Frame, rounds: Iterator[None], parts: list[Step], key: str) -> dict[Any, Any]:
    out: dict[Any, Any] = {}
    for _ in _chosen(frame, rounds, parts):
        out[frame.names[key]] = parts[-1](frame)
    return out


def _transform_entries(frame: Frame, rounds: Iterator[None], parts: list[Step]) -> dict[Any, Any]:
    out: dict[Any, Any] = {}
    for _ in _chosen(frame, rounds, parts):
        made = parts[-1](frame)
        if type(made) is not dict:
            raise EvaluationError(NO_OVERLOAD)
        for key, value in made.items():
            insert(out, key, value)
    return out


def _filter(target: Step, names: list[str], parts: list[Step]) -> Step:
    (name,) = names

    def run(frame: Frame, rounds: Iterator[None], parts: list[Step]) -> list[Any]:
        return [frame.names[name] for _ in rounds if _holds(parts[0], frame)]

    return _loop("filter", run)(target, names, parts)


def _transform(target: Step, names: list[str], parts: list[Step]) -> Step:
    def run(frame: Frame, rounds: Iterator[None], parts: list[Step]) -> dict[Any, Any]:
        return _transform_map(frame, rounds, parts, names[0])

    return _loop("transformMap", run)(target, names, parts)


def _optional(wrap: bool) -> Made:
    def made(target: Step, names: list[str], parts: list[Step]) -> Step:
        def mapped(frame: Frame) -> Optional:
            held = target(frame)
            if type(held) is not Optional:
                raise EvaluationError(NO_OVERLOAD)
            if not held.present:
                return NONE
            with _bound(frame, names) as variables:
                variables[names[0]] = held.value
                found = parts[0](frame)
            if wrap:
                return present(found)
            if type(found) is not Optional:
                raise EvaluationError(NO_OVERLOAD)
            return found

        return mapped

    return made


MACROS: dict[tuple[str, int], Macro] = {
    ("all", 2): Macro(1, _loop("all", _all)),
    ("all", 3): Macro(2, _loop("all", _all)),
    ("exists", 2): Macro(1, _loop("exists", _exists)),
    ("exists", 3): Macro(2, _loop("exists", _exists)),
    ("exists_one", 2): Macro(1, _loop("exists_one", _exists_one)),
    ("exists_one", 3): Macro(2, _loop("exists_one", _exists_one)),
    ("existsOne", 3): Macro(2, _loop("existsOne", _exists_one)),
    ("map", 2): Macro(1, _loop("map", _map)),
    ("map", 3): Macro(1, _loop("map", _map)),
    ("filter", 2): Macro(1, _filter),
    ("transformList", 3): Macro(2, _loop("transformList", _map)),
    ("transformList", 4): Macro(2, _loop("transformList", _map)),
    ("transformMap", 3): Macro(2, _transform),
    ("transformMap", 4): Macro(2, _transform),
    ("transformMapEntry", 3): Macro(2, _loop("transformMapEntry", _transform_entries)),
    ("transformMapEntry", 4): Macro(2, _loop("transformMapEntry", _transform_entries)),
    ("optMap", 2): Macro(1, _optional(wrap=True)),
    ("optFlatMap", 2): Macro(1, _optional(wrap=False)),
}
"""By name and number of arguments."""
