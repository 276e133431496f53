"""`$(NAME)` references in env values, commands, arguments and subPathExpr (third_party/forked/golang/expansion).

`$$` is a literal `$`, so `$$(NAME)` stays `$(NAME)`; a reference to an unknown name is left as it is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

LONGEST = 131_072
"""Characters that a text may become: no program takes a longer argument or variable (MAX_ARG_STRLEN of Linux's
binfmts.h). Without a bound, forty variables that each name the one before twice take all memory."""
LONGEST_TOGETHER = 6 * 1024 * 1024
"""The same for all arguments and variables of a program (3/4 of `_STK_LIM`: bprm_stack_limits in Linux's exec.c)."""


class TooLong(Exception):
    """A text would become longer than any program takes."""


def expand(text: str, variables: Mapping[str, str], most: int = LONGEST) -> str:
    """Return `text` with every reference to a known variable replaced.

    Raises:
        TooLong: with references it would have more than `most` characters.
    """
    if "$" not in text:
        return text
    out: list[str] = []
    length = 0
    for literal, name in _parts(text):
        out.append(literal if name is None else variables.get(name, literal))
        length += len(out[-1])
        if length > most:
            raise TooLong(f"with the variables that it names longer than {most:,} characters")
    return "".join(out)


def references(text: str) -> set[str]:
    """Return the names that `text` refers to."""
    return {name for _, name in _parts(text) if name is not None}


def expand_all(texts: Iterable[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return each of `texts` expanded. Raises `TooLong`, also for all together."""
    out: list[str] = []
    left = LONGEST_TOGETHER
    for text in texts:
        out.append(expand(text, variables, min(left, LONGEST)))
        left -= len(out[-1])
    return tuple(out)


def _parts(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the text in parts: what it says, and the name where that is a reference."""
    position = 0
    last_closing = text.rfind(")")
    while True:
        dollar = text.find("$", position)
        if dollar < 0 or dollar + 1 >= len(text):
            yield text[position:], None
            return
        yield text[position:dollar], None
        following = text[dollar + 1]
        position = dollar + 2
        if following == "$":
            yield "$", None
        elif following == "(" and position <= last_closing:
            closing = text.index(")", position)
            yield text[dollar : closing + 1], text[position:closing]
            position = closing + 1
        else:
            yield "$" + following, None
