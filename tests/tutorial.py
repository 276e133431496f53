"""The text of a tutorial: its fenced blocks, their commands, and whether an output holds what was promised."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(msgspec.Struct, frozen=True):
    """A fenced block: `options` are the `key=value` words of its first line."""

    language: str
    options: dict[str, str]
    text: str
    line: int


class Command(msgspec.Struct, frozen=True):
    """A command and the lines that its output must hold."""

    text: str
    expected: tuple[str, ...]


def blocks(markdown: str) -> Iterator[Block]:
    """Yield the fenced blocks in order."""
    for found in _FENCE.finditer(markdown):
        options = dict(word.split("=", 1) for word in found[2].split() if "=" in word)
        yield Block(found[1], options, found[3], markdown.count("\n", 0, found.start()) + 1)


def commands(text: str) -> list[Command]:
    """Return the commands of a console block with their expected output."""
    out: list[Command] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            out.append(Command(line[2:], ()))
        elif out and line.strip():
            out[-1] = Command(out[-1].text, (*out[-1].expected, line))
    return out


def missing_line(expected: tuple[str, ...], output: str) -> str | None:
    """Return the first expected line that does not appear, in order, in the output."""
    actual = iter(output.splitlines())
    for wanted in expected:
        pattern = _pattern(wanted)
        if not any(pattern.search(" ".join(line.split())) for line in actual):
            return wanted
    return None


def _pattern(line: str) -> re.Pattern[str]:
    words = [".*".join(re.escape(part) for part in word.split("…")) for word in line.split()]
    return re.compile(" ".join(words).replace(" .*", r"(?: .*|$)"))
