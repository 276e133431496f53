"""Constants that a function can never read: Kubernetes converts them when it takes an expression."""

from __future__ import annotations

import re
from collections.abc import Callable

from trainshed.kube.cel.library import FUNCTIONS, MEMBERS
from trainshed.kube.cel.re2 import compile_re2
from trainshed.kube.cel.syntax import Literal
from trainshed.kube.meta.times import instant

_CONVERSIONS = ("int", "uint", "double", "string", "bytes", "bool")
_SEARCHES = ("find", "findAll")
_DURATION = re.compile(r"[-+]?(?:0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)")


def _duration(text: str) -> None:
    """Raise ValueError unless a text is a duration in Go's notation."""
    if not _DURATION.fullmatch(text):
        raise ValueError(text)


_READERS: dict[str, Callable[[str], object]] = {
    "matches": compile_re2,
    "duration": _duration,
    "timestamp": instant,
}


class NotInstantiable(ValueError):
    """An expression that is well-typed, but in which a constant cannot be converted."""


def is_unreadable(name: str, said: Literal) -> bool:
    """Return whether a function cannot read the constant that it is given last.

    Raises:
        NotInstantiable: it is a conversion or a search, of which Kubernetes says why.
    """
    reader = _READERS.get(name)
    if reader is not None and said.kind == "string":
        try:
            reader(said.text)
        except ValueError:
            return True
    try:
        if name in _CONVERSIONS:
            FUNCTIONS[name].find([said.value])(said.value)
        elif name in _SEARCHES and said.kind == "string":
            MEMBERS[name].find(["", said.text])("", said.text)
    except ValueError as error:
        text = str(error).removeprefix("Illegal regex: ")
        raise NotInstantiable(f"program instantiation failed: {text}") from error
    return False
