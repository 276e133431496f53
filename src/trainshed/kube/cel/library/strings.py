"""Strings and regular expressions: CEL's own, version 2 of its string extension, and Kubernetes' regex library.

Source: `cel-go/ext/strings.go` (texts of errors) and the Kubernetes documentation, "CEL in Kubernetes".
"""

from __future__ import annotations

import string
from typing import Any

from trainshed.kube.cel.library.overloads import function, member
from trainshed.kube.cel.re2 import Pattern, compile_re2
from trainshed.kube.cel.values import NO_OVERLOAD, EvaluationError

_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_UPPER = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
_ESCAPES = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
_BLANK = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))

member("contains", str, str)(lambda text, part: part in text)
member("startsWith", str, str)(lambda text, start: text.startswith(start))
member("endsWith", str, str)(lambda text, end: text.endswith(end))
member("lowerAscii", str)(lambda text: text.translate(_LOWER))
member("upperAscii", str)(lambda text: text.translate(_UPPER))
member("trim", str)(lambda text: text.strip(_BLANK))
member("replace", str, str, str)(lambda text, old, new: text.replace(old, new))
member("replace", str, str, str, int)(lambda text, old, new, count: text.replace(old, new, max(count, -1)))


def _range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


@member("charAt", str, int)
def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _range(index)
    return text[index : index + 1]


@member("substring", str, int)
def _from(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise _range(start)
    return text[start:]


@member("substring", str, int, int)
def _between(text: str, start: int, end: int) -> str:
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _range(start)
    if not 0 <= end <= len(text):
        raise _range(end)
    return text[start:end]


@member("indexOf", str, str)
def _index_of(text: str, part: str) -> int:
    return text.find(part)


@member("indexOf", str, str, int)
def _index_from(text: str, part: str, start: int) -> int:
    if start < 0:
        raise _range(start)
    if not part:
        return start
    return text.find(part, start)


@member("lastIndexOf", str, str)
def _last_index_of(text: str, part: str) -> int:
    return text.rfind(part)


@member("lastIndexOf", str, str, int)
def _last_index_to(text: str, part: str, end: int) -> int:
    if end < 0:
        raise _range(end)
    if not part:
        return end
    if end >= len(text):
        return -1
    return text.rfind(part, 0, end + len(part))


@member("split", str, str)
def _split(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else list(text)


@member("split", str, str, int)
def _split_most(text: str, separator: str, count: int) -> list[str]:
    if count == 0:
        return []
    if count < 0:
        return _split(text, separator)
    if separator:
        return text.split(separator, count - 1)
    return [*text[: count - 1], *([text[count - 1 :]] if text[count - 1 :] else [])]


@member("join", list)
def _join(items: list[Any]) -> str:
    return _joined(items, "")


@member("join", list, str)
def _joined(items: list[Any], separator: str) -> str:
    if not all(type(item) is str for item in items):
        shown = "join(list, string)" if separator else "join(list)"
        raise EvaluationError(f"{NO_OVERLOAD}: {shown}")
    return separator.join(items)


@function("strings.quote", str)
def quoted(text: str) -> str:
    """Return a text in quotes, so that it can be printed."""
    out = text.replace("\\", r"\\").replace('"', r"\"")
    return '"' + "".join(_ESCAPES.get(sign, sign) for sign in out) + '"'


@member("matches", str, str)
@function("matches", str, str)
def _matches(text: str, pattern: str) -> bool:
    return _compiled(pattern, "").matches(text)


@member("find", str, str)
def _find(text: str, pattern: str) -> str:
    return _compiled(pattern, "Illegal regex: ").find(text)


@member("findAll", str, str)
def _find_all(text: str, pattern: str) -> list[str]:
    return list(_compiled(pattern, "Illegal regex: ").find_all(text))


@member("findAll", str, str, int)
def _find_most(text: str, pattern: str, count: int) -> list[str]:
    found = _find_all(text, pattern)
    return found if count < 0 else found[:count]


def _compiled(pattern: str, before: str) -> Pattern:
    try:
        return compile_re2(pattern)
    except ValueError as error:
        raise EvaluationError(f"{before}{error}") from error
