"""The part of JSONPath that printer columns, scale paths and selectable fields use.

Supported: `.a.b`, `.a\\.b` (a dot inside a name), `['a']`, `[0]`, `[-1]`, `[1:3]`, `[-1:]`, `[*]`, `.*`, `..a`,
filters `[?(@.type=="Ready")]` with == != < <= > >= or bare existence; an optional `{...}` or `$` around it.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Step: TypeAlias = Callable[[Any], Iterator[Any]]

_NAME = re.compile(r"\.(?P<deep>\.)?(?P<name>(?:\\.|[^.\[\]\\{}])+)")
_INDEX = re.compile(r"\[\s*(?P<index>-?\d+)\s*\]")
_SLICE = re.compile(r"\[\s*(?P<start>-?\d*)\s*:\s*(?P<stop>-?\d*)\s*(?::\s*(?P<step>\d*)\s*)?\]")
_ALL = re.compile(r"\[\s*\*\s*\]")
_QUOTED = re.compile(r"""\[\s*(?:'(?P<one>(?:\\.|[^'\\])*)'|"(?P<two>(?:\\.|[^"\\])*)")\s*\]""")
_FILTER = re.compile(r"\[\?\(\s*(?P<inner>(?:'[^']*'|\"[^\"]*\"|[^()'\"])*)\)\s*\]")
_COMPARISON = re.compile(r"@(?P<left>[^=!<>]*?)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<right>.+))?")
_ESCAPE = re.compile(r"\\(.)")

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def first(obj: Any, path: str) -> Any | None:
    """Return the first match of `path` in `obj`, None when nothing matches.

    Raises:
        ValueError: `path` is no JSONPath that is supported.
    """
    return next(_walk(obj, compile(path)), None)


def find(obj: Any, path: str) -> list[Any]:
    """Return every match, in document order.

    Raises:
        ValueError: `path` is no JSONPath that is supported.
    """
    return list(_walk(obj, compile(path)))


@functools.lru_cache(maxsize=1024)
def compile(path: str) -> tuple[Step, ...]:
    """Return the steps of `path`.

    Raises:
        ValueError: `path` is no JSONPath that is supported.
    """
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    text = text.removeprefix("$")
    if text == ".":  # the whole object
        return ()
    if text and text[0] not in ".[":
        text = "." + text
    steps: list[Step] = []
    at = 0
    while at < len(text):
        step, at = _step(text, at, path)
        steps.append(step)
    return tuple(steps)


def field_names(path: str) -> tuple[str, ...]:
    """Return the names of a plain path, `.spec.replicas` → `("spec", "replicas")`.

    Raises:
        ValueError: `path` has anything but names in it, so it cannot be written to.
    """
    names: list[str] = []
    at = 0
    while at < len(path):
        match = _NAME.match(path, at)
        if match is None or match["deep"] or match["name"] == "*":
            raise ValueError(
                f"{path!r}: only a path of field names, such as .spec.replicas, can be used here"
            )
        names.append(_unescape(match["name"]))
        at = match.end()
    if not names:
        raise ValueError("an empty path names no field")
    return tuple(names)


def _walk(obj: Any, steps: tuple[Step, ...]) -> Iterator[Any]:
    if not steps:
        if obj is not None:
            yield obj
        return
    for value in steps[0](obj):
        yield from _walk(value, steps[1:])


def _step(text: str, at: int, path: str) -> tuple[Step, int]:
    if match := _NAME.match(text, at):
        name = match["name"].strip()
        if match["deep"]:
            return functools.partial(_descend, _unescape(name)), match.end()
        return (_every if name == "*" else functools.partial(_field, _unescape(name))), match.end()
    if match := _INDEX.match(text, at):
        return functools.partial(_index, int(match["index"])), match.end()
    if match := _SLICE.match(text, at):
        start, stop, stride = (int(match[g]) if match[g] else None for g in ("start", "stop", "step"))
        if stride == 0:
            raise ValueError(f"{path!r}: a slice cannot have step 0")
        return functools.partial(_slice, slice(start, stop, stride)), match.end()
    if match := _ALL.match(text, at):
        return _every, match.end()
    if match := _QUOTED.match(text, at):
        quoted = match["one"] if match["one"] is not None else match["two"]
        return functools.partial(_field, _unescape(quoted)), match.end()
    if match := _FILTER.match(text, at):
        return _filter(match["inner"], path), match.end()
    raise ValueError(f"{path!r}: cannot read {text[at:]!r} as a JSONPath step")


def _unescape(name: str) -> str:
    return _ESCAPE.sub(r"\1", name) if "\\" in name else name


def _field(name: str, value: Any) -> Iterator[Any]:
    if isinstance(value, dict) and name in value:
        yield value[name]


def _index(index: int, value: Any) -> Iterator[Any]:
    if isinstance(value, list) and -len(value) <= index < len(value):
        yield value[index]


def _slice(part: slice, value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from value[part]


def _every(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()


def _descend(name: str, value: Any) -> Iterator[Any]:
    yield from _field(name, value)
    for below in _every(value):
        yield from _descend(name, below)


def _filter(inner: str, path: str) -> Step:
    match = _COMPARISON.fullmatch(inner.strip())
    if match is None:
        raise ValueError(f"{path!r}: a filter reads [?(@.field==value)]")
    left = compile(match["left"]) if match["left"] else ()
    if match["op"] is None:
        return functools.partial(_existing, left)
    return functools.partial(_matching, left, _OPERATORS[match["op"]], _literal(match["right"].strip(), path))


def _existing(left: tuple[Step, ...], value: Any) -> Iterator[Any]:
    return (item for item in _every(value) if next(_walk(item, left), None) is not None)


def _matching(
    left: tuple[Step, ...], compare: Callable[[Any, Any], bool], right: Any, value: Any
) -> Iterator[Any]:
    for item in _every(value):
        found = next(_walk(item, left), None)
        if found is None:
            continue
        # Values of different types are unequal and have no order.
        if _family(found) is not _family(right):
            if compare is operator.ne:
                yield item
        elif compare(found, right):
            yield item


def _family(value: Any) -> type:
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


def _literal(text: str, path: str) -> Any:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return _unescape(text[1:-1])
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{path!r}: {text!r} is neither a quoted string, a number, true nor false") from None
