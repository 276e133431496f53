"""What Go says of a text that is no JSON.

Source: the states of `encoding/json/scanner.go`, and what kube-apiserver 1.33 answers.
"""

from __future__ import annotations

import json
import re

LONGEST = 64 * 1024
"""Bytes of a text that is looked at: nobody waits for the words about a longer one."""
TRUNCATED = "unexpected end of JSON input"
_SPACE = re.compile(rb"[ \t\r\n]*")
_TEXT = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*')
_HEX = re.compile(rb"\\u[0-9a-fA-F]{0,3}")
_NUMBER = (
    (re.compile(rb"-"), re.compile(rb"\d"), "in numeric literal"),
    (re.compile(rb"\."), re.compile(rb"\d"), "after decimal point in numeric literal"),
    (re.compile(rb"[eE][+-]?"), re.compile(rb"\d"), "in exponent of numeric literal"),
)
_WHOLE = re.compile(rb"0|[1-9]\d*")
_DIGITS = re.compile(rb"\d+")
_LITERALS = {b"t": b"true", b"f": b"false", b"n": b"null"}


class _Wrong(Exception):
    """A character that does not fit where it stands."""


def syntax_error(data: bytes) -> str:
    """Return what is wrong with a text; empty where nothing is, and for one that is longer than `LONGEST`."""
    if len(data) > LONGEST:
        return ""
    try:
        _Scanner(data + b" ").document()  # Go ends a text with a blank, too
    except _Wrong as wrong:
        return str(wrong)
    return ""


class _Scanner:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def document(self) -> None:
        open_: list[bytes] = []
        self.value(open_)
        while open_:
            self.after(open_)
        if self.space():
            raise self.wrong("after top-level value")

    def value(self, open_: list[bytes]) -> None:
        """Pass a scalar, an empty object or list, or all up to the first scalar in one."""
        while (first := self.space()) in (b"{", b"["):
            self.at += 1
            if self.space() == (b"}" if first == b"{" else b"]"):
                self.at += 1
                return
            open_.append(first)
            if first == b"{":
                self.key()
        if first == b'"':
            self.text()
        elif first in _LITERALS:
            self.literal(_LITERALS[first])
        elif first and first in b"-0123456789":
            self.number()
        else:
            raise self.wrong("looking for beginning of value")

    def after(self, open_: list[bytes]) -> None:
        """Pass what follows a value in an object or a list: its end, or the next value."""
        found = self.space()
        within_object = open_[-1] == b"{"
        if found == (b"}" if within_object else b"]"):
            self.at += 1
            open_.pop()
        elif found == b",":
            self.at += 1
            if within_object:
                self.key()
            self.value(open_)
        else:
            raise self.wrong("after object key:value pair" if within_object else "after array element")

    def key(self) -> None:
        if self.space() != b'"':
            raise self.wrong("looking for beginning of object key string")
        self.text()
        if self.space() != b":":
            raise self.wrong("after object key")
        self.at += 1

    def text(self) -> None:
        self.skip(_TEXT)
        found = self.data[self.at : self.at + 1]
        if found == b'"':
            self.at += 1
        elif found == b"\\":
            if self.skip(_HEX):
                raise self.wrong("in \\u hexadecimal character escape")
            self.at += 1
            raise self.wrong("in string escape code")
        elif self.at >= len(self.data):
            raise _Wrong(TRUNCATED)
        else:
            raise self.wrong("in string literal")

    def number(self) -> None:
        minus, point, exponent = _NUMBER
        self.part(*minus)
        self.skip(_WHOLE)
        for each in (point, exponent):
            if self.part(*each):
                self.skip(_DIGITS)

    def part(self, mark: re.Pattern[bytes], follows: re.Pattern[bytes], where: str) -> bool:
        if not self.skip(mark):
            return False
        if not follows.match(self.data, self.at):
            raise self.wrong(where)
        return True

    def literal(self, word: bytes) -> None:
        for letter in word.decode():
            if self.data[self.at : self.at + 1] != letter.encode():
                raise self.wrong(f"in literal {word.decode()} (expecting '{letter}')")
            self.at += 1

    def skip(self, pattern: re.Pattern[bytes]) -> bool:
        match = pattern.match(self.data, self.at)
        if match is None:
            return False
        self.at = match.end()
        return True

    def space(self) -> bytes:
        """Pass white space and return the character after it, none at the end."""
        self.skip(_SPACE)
        return self.data[self.at : self.at + 1]

    def wrong(self, where: str) -> _Wrong:
        found = self.data[self.at : self.at + 1].decode("latin-1")
        if not found:
            return _Wrong(TRUNCATED)
        shown = "'\\''" if found == "'" else "'\"'" if found == '"' else f"'{_quoted(found)}'"
        return _Wrong(f"invalid character {shown} {where}")


_ESCAPES = {"\a": "\\a", "\v": "\\v"}


def _quoted(character: str) -> str:
    """Return a character as Go quotes it, without the quotes."""
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable() or character in "\b\f\n\r\t":
        return json.dumps(character, ensure_ascii=False)[1:-1]
    return f"\\x{ord(character):02x}" if ord(character) < 0x80 else f"\\u{ord(character):04x}"
