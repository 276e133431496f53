"""Which files are meant: the patterns of COPY, and `.dockerignore`. Pure.

Source: docs.docker.com/build/concepts/context, ".dockerignore files"; Go's path/filepath.Match, with `**` for any
number of directories.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

_MAX_PATTERN = 4096


class PatternError(ValueError):
    """A pattern cannot be read; one sentence."""


@functools.cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Return what fits whole paths, separated by `/`. Raises PatternError."""
    if len(pattern) > _MAX_PATTERN:
        raise PatternError(f"a pattern of {len(pattern)} characters")
    out, position = [], 0
    while position < len(pattern):
        character = pattern[position]
        position += 1
        if character == "*":
            if pattern.startswith("*", position):
                position += 1
                if pattern.startswith("/", position):
                    position += 1
                    out.append("(?:[^/]*/)*")
                else:
                    out.append(".*")
            else:
                out.append("[^/]*")
        elif character == "?":
            out.append("[^/]")
        elif character == "[":
            text, position = _class(pattern, position)
            out.append(text)
        elif character == "\\" and position < len(pattern):
            out.append(re.escape(pattern[position]))
            position += 1
        else:
            out.append(re.escape(character))
    try:
        return re.compile("".join(out), re.DOTALL)
    except (re.error, OverflowError) as error:
        raise PatternError(f"{pattern!r} is no pattern: {error}") from error


def has_wildcard(pattern: str) -> bool:
    """Return whether the pattern may mean several names."""
    return any(character in pattern for character in "*?[")


def clean(path: str) -> str:
    """Return the path from the root of its tree, without `.` and `..`, which lead no further than the root."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


class Ignored:
    """The rules of a `.dockerignore`: the last that fits a path, or a directory above it, decides."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._rules: list[tuple[bool, re.Pattern[str]]] = []
        for pattern in patterns:
            keep = pattern.startswith("!")
            self._rules.append((keep, compiled(clean(pattern.removeprefix("!").strip()))))
        self.has_exceptions = any(keep for keep, _ in self._rules)

    def __call__(self, path: str) -> bool:
        """Return whether the path, from the root of the context, is left out."""
        parts = path.split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        ignored = False
        for keep, pattern in self._rules:
            if keep == ignored and any(pattern.fullmatch(place) for place in above):
                ignored = not keep
        return ignored


def read_ignore(text: str) -> Ignored:
    """Return the rules of a `.dockerignore`. Raises PatternError."""
    lines = (line.strip() for line in text.removeprefix("\ufeff").splitlines())
    return Ignored(line for line in lines if line and not line.startswith("#") and line != "!")


def _class(pattern: str, position: int) -> tuple[str, int]:
    """Return the regular expression of `[…]`, and the position after it."""
    out = "["
    if position < len(pattern) and pattern[position] in "^!":
        out += "^/"
        position += 1
    first, dash = True, False
    while position < len(pattern):
        character = pattern[position]
        position += 1
        if character == "]" and not first:
            return out + "]", position
        first = False
        if character == "-":
            if dash:
                raise PatternError(f"{pattern!r} is no pattern: - is no end of a range")
            out, dash = out + "-", True
            continue
        dash = False
        if character == "\\" and position < len(pattern):
            character = pattern[position]
            position += 1
        out += re.escape(character)
    raise PatternError(f"{pattern!r} is no pattern: [ is not closed")
