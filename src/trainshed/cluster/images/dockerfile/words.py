"""Words of instructions: quotes, escapes, and variables as a Dockerfile has them. Pure.

Source: docs.docker.com/reference/dockerfile, "Environment replacement"; POSIX.1-2024, 2.6.2 Parameter Expansion.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPECIAL = "@*#?-$!0123456789"
_MAX_LENGTH = 1 << 20
_MAX_DEPTH = 50


class WordError(ValueError):
    """A word cannot be read; one sentence."""


def expand(word: str, variables: Mapping[str, str], escape: str = "\\") -> str:
    """Return the word without quotes, its variables replaced. Raises WordError."""
    return _Reader(word, variables, escape).read()


def split_quoted(text: str, escape: str = "\\") -> list[str]:
    """Return the words, parted by blanks outside quotes; quotes and escapes stay in them."""
    words: list[str] = []
    current, quote, started, position = "", "", False, 0
    while position < len(text):
        character = text[position]
        if character == escape and quote != "'" and position + 1 < len(text):
            current, started = current + text[position : position + 2], True
            position += 2
            continue
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character.isspace():
            if started:
                words.append(current)
            current, started = "", False
            position += 1
            continue
        current, started = current + character, True
        position += 1
    if started:
        words.append(current)
    return words


class _Reader:
    def __init__(self, text: str, variables: Mapping[str, str], escape: str, depth: int = 0) -> None:
        if depth > _MAX_DEPTH:
            raise WordError("variables are nested too deeply")
        self._text, self._variables, self._escape, self._depth = text, variables, escape, depth
        self._at = 0

    def read(self) -> str:
        out: list[str] = []
        length = 0
        while self._at < len(self._text):
            out.append(self._piece())
            length += len(out[-1])
            if length > _MAX_LENGTH:
                raise WordError(f"a word becomes longer than {_MAX_LENGTH} characters")
        return "".join(out)

    def _piece(self) -> str:
        character = self._text[self._at]
        if character == "'":
            return self._single()
        if character == '"':
            return self._double()
        if character == "$":
            return self._dollar()
        self._at += 1
        if character == self._escape:
            if self._at == len(self._text):
                return ""
            character = self._text[self._at]
            self._at += 1
        return character

    def _single(self) -> str:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise WordError("unexpected end of statement while looking for matching single-quote")
        piece = self._text[self._at + 1 : end]
        self._at = end + 1
        return piece

    def _double(self) -> str:
        out: list[str] = []
        self._at += 1
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == '"':
                self._at += 1
                return "".join(out)
            if character == "$":
                out.append(self._dollar())
                continue
            following = self._text[self._at + 1 : self._at + 2]
            if character == self._escape and following in ('"', "$", self._escape) and following:
                character = following
                self._at += 1
            out.append(character)
            self._at += 1
        raise WordError("unexpected end of statement while looking for matching double-quote")

    def _dollar(self) -> str:
        self._at += 1
        rest = self._text[self._at : self._at + 1]
        if rest == "{":
            return self._braces()
        name = self._name()
        return "$" if not name else self._variables.get(name, "")

    def _name(self) -> str:
        found = _NAME.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
            return found[0]
        character = self._text[self._at : self._at + 1]
        if character and character in _SPECIAL:
            self._at += 1
            return character
        return ""

    def _braces(self) -> str:
        self._at += 1
        name = self._name()
        if not name:
            raise WordError("bad substitution: ${ is not followed by a name")
        body = self._until_brace()
        value = self._variables.get(name)
        if not body:
            return value or ""
        for operator in (":-", ":+", ":?", "-", "+", "?", "##", "#", "%%", "%", "//", "/"):
            if body.startswith(operator):
                return self._modified(name, value, operator, body[len(operator) :])
        raise WordError(f"unsupported modifier ({body[:2]}) in substitution")

    def _modified(self, name: str, value: str | None, operator: str, word: str) -> str:
        kind = operator[-1]
        if kind in "-+?":
            is_set = bool(value) if operator[0] == ":" else value is not None
            if kind == "+":
                return self._nested(word) if is_set else ""
            if is_set:
                return value or ""
            if kind == "-":
                return self._nested(word)
            raise WordError(f"{name}: {self._nested(word) or 'parameter not set'}")
        if kind == "/":
            pattern, _, replacement = word.partition("/")
            return _replaced(value or "", self._nested(pattern), self._nested(replacement), operator == "//")
        return _trimmed(value or "", self._nested(word), operator)

    def _nested(self, word: str) -> str:
        return _Reader(word, self._variables, self._escape, self._depth + 1).read()

    def _until_brace(self) -> str:
        """Return what stands before the closing brace, braces of its own included."""
        start, depth = self._at, 0
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == self._escape:
                self._at += 1
            elif character == "{" and self._text[self._at - 1] == "$":
                depth += 1
            elif character == "}":
                if depth == 0:
                    body = self._text[start : self._at]
                    self._at += 1
                    return body
                depth -= 1
            self._at += 1
        raise WordError("syntax error: missing '}'")


def _trimmed(value: str, pattern: str, operator: str) -> str:
    """Return the value without the shortest (`#`, `%`) or longest beginning or end that fits the pattern."""
    match = re.compile(fnmatch.translate(pattern)).match
    lengths = range(len(value) + 1)
    for length in lengths if len(operator) == 1 else reversed(lengths):
        part = value[:length] if operator[0] == "#" else value[len(value) - length :]
        if match(part):
            return value[length:] if operator[0] == "#" else value[: len(value) - length]
    return value


def _replaced(value: str, pattern: str, replacement: str, everywhere: bool) -> str:
    """Return the value with the first longest match, or all of them, replaced."""
    if not pattern:
        return value
    translated = "".join({"*": ".*", "?": "."}.get(each, re.escape(each)) for each in pattern)
    return re.sub(translated, lambda _: replacement, value, count=0 if everywhere else 1)
