"""An instruction before it is understood: its flags, and readers of the forms that arguments have."""

from __future__ import annotations

import difflib
import json
import re
from typing import TypedDict

import msgspec

from trainshed.cluster.images.dockerfile.instructions import (
    Command,
    Pair,
)
from trainshed.cluster.images.dockerfile.lines import DockerfileError, Line
from trainshed.cluster.images.dockerfile.words import split_quoted

_FLAG = re.compile(r"--(?P<name>[a-zA-Z][a-zA-Z0-9-]*)(?:=(?P<value>.*))?", re.DOTALL)
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)")
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


_MAX_DURATION = 1 << 62


class _Place(TypedDict):
    line: int
    end: int
    text: str


class Source(msgspec.Struct, frozen=True):
    """An instruction before it is understood: its flags, as (name, value or None), and the rest."""

    line: Line
    flags: tuple[tuple[str, str | None], ...]
    rest: str
    escape: str

    def fail(self, message: str) -> DockerfileError:
        """Return the error at this place, to be raised."""
        return DockerfileError(self.line.number, message, self.line.end)

    @property
    def keyword(self) -> str:
        """The instruction's name, in capital letters."""
        return self.line.text.split(None, 1)[0].upper()

    def place(self) -> _Place:
        """Return what every instruction keeps of where it stands."""
        return {"line": self.line.number, "end": self.line.end, "text": self.line.text}

    def values(self, *known: str) -> dict[str, list[str]]:
        """Return the flags by name. Raises DockerfileError for one that is not known here."""
        found: dict[str, list[str]] = {}
        for name, value in self.flags:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean --{near[0]}?" if near else ""
                raise self.fail(f"unknown flag: --{name}{hint}")
            if value is None:
                value = "true"
            found.setdefault(name, []).append(value)
        for name, values in found.items():
            if len(values) > 1 and name not in ("mount", "exclude"):
                raise self.fail(f"duplicate flag specified: --{name}")
        return found

    def no_flags(self) -> None:
        """Raise DockerfileError where there is a flag."""
        self.values()

    def command(self) -> Command:
        """Return a command: a JSON list is its words, anything else is for the shell."""
        words = json_list(self.rest)
        return Command((self.rest,), True) if words is None else Command(words)

    def words(self) -> tuple[str, ...]:
        """Return the arguments: those of a JSON list, or what blanks part."""
        words = json_list(self.rest)
        return tuple(self.rest.split()) if words is None else words

    def pairs(self, *, legacy: bool) -> tuple[Pair, ...]:
        """Return name=value pairs; with `legacy`, `NAME the rest` is one too."""
        self.no_flags()
        words = split_quoted(self.rest, self.escape)
        if legacy and "=" not in words[0]:
            name, _, value = self.rest.partition(blank(self.rest))
            if not value.strip():
                raise self.fail(f"{self.keyword} must have two arguments")
            return (Pair(name, value.strip()),)
        found = []
        for word in words:
            name, equals, value = word.partition("=")
            if not equals:
                raise self.fail(
                    f"syntax error: can't find = in {json.dumps(word)}. Must be of the form: name=value"
                )
            if not name:
                raise self.fail(f"{self.keyword} names can not be blank")
            found.append(Pair(name, value))
        return tuple(found)

    def duration(self, name: str, flags: dict[str, list[str]]) -> int:
        """Return the nanoseconds of a flag. Raises DockerfileError."""
        text = flags.get(name, ["0"])[0]
        if text == "0":
            return 0
        parts = _DURATION.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            raise self.fail(f"--{name}={text}: invalid duration (as in 30s or 1m30s)")
        total = sum(float(number) * _UNITS[unit] for number, unit in parts)
        if total > _MAX_DURATION:
            raise self.fail(f"--{name}={text}: longer than anything lasts")
        return int(total)


def blank(text: str) -> str:
    """Return the first white space, which parts a keyword from the rest; a blank where there is none."""
    found = re.search(r"\s", text)
    return found[0] if found else " "


def flags_of(rest: str) -> tuple[tuple[tuple[str, str | None], ...], str]:
    """Return the flags before the arguments, and the arguments."""
    found: list[tuple[str, str | None]] = []
    while rest.startswith("--"):
        word = split_quoted(rest)[0] if rest.split() else rest
        match = _FLAG.fullmatch(word)
        if match is None or not rest.startswith(word):
            break
        found.append((match["name"], match["value"]))
        rest = rest[len(word) :].lstrip()
    return tuple(found), rest


def json_list(text: str) -> tuple[str, ...] | None:
    """Return the strings of a JSON list; None where it is none."""
    if not text.startswith("["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        return None
    return tuple(found)
