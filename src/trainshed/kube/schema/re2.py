"""RE2 patterns, the dialect of OpenAPI schemas in Kubernetes, as Python patterns."""

from __future__ import annotations

import functools
import re

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7f",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_PIECE = re.compile(r"\\.|\[:(\^?)(\w+):\]|\(\?P?<|\$|\[\^?\]?|\]|.", re.DOTALL)


@functools.lru_cache(maxsize=1024)
def compile_re2(pattern: str) -> re.Pattern[str]:
    r"""Return a Python pattern that matches as RE2 does; use `.search`, RE2 schemas are unanchored.

    Differences that matter: `$` and `\z` are the very end (Python's `$` also matches before a last newline),
    `\d \w \s` are ASCII, `[[:alpha:]]` classes exist.

    Raises:
        ValueError: the pattern is not valid or uses a construct that Python cannot express.
    """
    out: list[str] = []
    in_class = False
    for match in _PIECE.finditer(pattern):
        piece = match[0]
        if piece == "\\z":
            piece = r"\Z"
        elif match[2] and in_class:
            if match[1] or match[2] not in _POSIX:
                raise ValueError(f"unsupported character class {piece}")
            piece = _POSIX[match[2]]
        elif match[2]:  # outside of brackets this is a class of its own characters
            piece = "[" + re.escape(piece[1:-1]) + "]"
        elif piece == "(?<":
            piece = "(?P<" if match.end() < len(pattern) and pattern[match.end()] not in "=!" else piece
        elif piece == "$" and not in_class:
            piece = r"\Z"
        elif piece[0] == "[" and in_class:
            piece = "".join("\\" + c if c in "[]" else c for c in piece)
            if piece.endswith("\\]"):
                in_class, piece = False, piece[:-2] + "]"
        elif piece[0] == "[":
            in_class = True
        elif piece == "]":
            in_class = False
        out.append(piece)
    try:
        return re.compile("".join(out), re.ASCII)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"invalid pattern {pattern!r}: {error}") from error
