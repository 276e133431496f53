"""The lines of a Dockerfile: parser directives, comments, continuations and here-documents. Pure.

Source: docs.docker.com/reference/dockerfile, "Format", "Parser directives", "Here-documents".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

MAX_BYTES = 4 << 20
_DIRECTIVE = re.compile(r"#\s*(?P<name>[a-zA-Z][a-zA-Z0-9]*)\s*=\s*(?P<value>.+?)\s*")
_HEREDOC = re.compile(
    r"(?<!\S)[0-9]*<<(?P<dash>-?)(?P<quote>['\"]?)(?P<name>[^\s'\"<>|&;()]+)(?P=quote)(?!\S)"
)
_WITH_HEREDOCS = re.compile(r"\s*(?:onbuild\s+)?(?:run|copy|add)\s", re.IGNORECASE)
_KNOWN_DIRECTIVES = ("syntax", "escape", "check")


class DockerfileError(Exception):
    """The Dockerfile cannot be built as it stands. `line` and `end` count from 1."""

    def __init__(self, line: int, message: str, end: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.end = max(end, line)
        self.message = message


class Heredoc(msgspec.Struct, frozen=True):
    """A here-document. `expand`: variables in it are replaced, for its word had no quotes."""

    name: str
    content: str
    expand: bool


class Line(msgspec.Struct, frozen=True):
    """An instruction with its continuations joined: the numbers of its first and last line, and its documents."""

    number: int
    end: int
    text: str
    heredocs: tuple[Heredoc, ...] = ()


class Lines(msgspec.Struct, frozen=True):
    """What a Dockerfile consists of before any instruction is understood."""

    lines: tuple[Line, ...]
    escape: str = "\\"


def split(text: str) -> Lines:
    """Return the instructions of a Dockerfile. Raises DockerfileError."""
    if len(text) > MAX_BYTES:
        raise DockerfileError(1, f"the Dockerfile is larger than {MAX_BYTES >> 20} MiB")
    if "\0" in text:
        raise DockerfileError(text[: text.index("\0")].count("\n") + 1, "the Dockerfile has a NUL character")
    physical = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
    escape = _directives(physical)
    return Lines(tuple(_joined(physical, escape)), escape)


def _directives(physical: Sequence[str]) -> str:
    """Return the escape character; directives end with the first line that is none."""
    seen: dict[str, str] = {}
    for number, line in enumerate(physical, start=1):
        found = _DIRECTIVE.fullmatch(line.strip())
        if found is None:
            break
        name = found["name"].lower()
        if name not in _KNOWN_DIRECTIVES:
            break
        if name in seen:
            raise DockerfileError(number, f"only one {name} parser directive can be used")
        seen[name] = found["value"]
        if name == "escape" and seen[name] not in ("\\", "`"):
            raise DockerfileError(number, f"invalid ESCAPE {seen[name]!r}: must be ` or \\")
    return seen.get("escape", "\\")


def _joined(physical: Sequence[str], escape: str) -> Iterator[Line]:
    continued = re.compile(rf"{re.escape(escape)}[ \t]*$")
    number, total = 0, len(physical)
    while number < total:
        first = physical[number]
        if not first.strip() or first.lstrip().startswith("#"):
            number += 1
            continue
        start = number
        parts: list[str] = []
        while number < total:
            line = physical[number]
            number += 1
            if parts and (not line.strip() or line.lstrip().startswith("#")):
                continue
            found = continued.search(line)
            parts.append(line[: found.start()] if found else line)
            if not found:
                break
        text = "".join(parts).strip()
        if not text:
            continue
        heredocs = []
        for word in _documents(text):
            document, number = _document(physical, number, start + 1, *word)
            heredocs.append(document)
        yield Line(start + 1, number, text, tuple(heredocs))


def _documents(text: str) -> Iterator[tuple[str, bool, bool]]:
    """Yield name, whether tabs are stripped, and whether variables are replaced, of each here-document."""
    if not _WITH_HEREDOCS.match(text):
        return
    for found in _HEREDOC.finditer(text):
        if not _is_quoted(text[: found.start()]):
            yield found["name"], bool(found["dash"]), not found["quote"]


def _is_quoted(before: str) -> bool:
    """Return whether what follows is inside quotes."""
    quote, escaped = "", False
    for character in before:
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
    return bool(quote)


def _document(
    physical: Sequence[str], number: int, start: int, name: str, strip: bool, expand: bool
) -> tuple[Heredoc, int]:
    """Return the document that begins at a line, and the line after it."""
    content: list[str] = []
    for position in range(number, len(physical)):
        line = physical[position].lstrip("\t") if strip else physical[position]
        if line == name:
            return Heredoc(name, "".join(f"{each}\n" for each in content), expand), position + 1
        content.append(line)
    raise DockerfileError(start, f"unterminated heredoc: no line {name!r} ends it", len(physical))
