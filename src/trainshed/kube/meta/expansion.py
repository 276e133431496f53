"""`$(NAME)` references in env values, commands, arguments and subPathExpr (third_party/forked/golang/expansion).

`$$` is a literal `$`, so `$$(NAME)` stays `$(NAME)`; a reference to an unknown name is left as it is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Return `text` with every reference to a known variable replaced."""
    if "$" not in text:
        return text
    out: list[str] = []
    position = 0
    while True:
        dollar = text.find("$", position)
        if dollar < 0 or dollar + 1 >= len(text):
            out.append(text[position:])
            return "".join(out)
        out.append(text[position:dollar])
        following = text[dollar + 1]
        closing = text.find(")", dollar + 2) if following == "(" else -1
        if following == "$":
            out.append("$")
            position = dollar + 2
        elif closing >= 0:
            name = text[dollar + 2 : closing]
            out.append(variables.get(name, f"$({name})"))
            position = closing + 1
        else:
            out.append("$" + following)
            position = dollar + 2


def unresolved(text: str, variables: Mapping[str, str]) -> list[str]:
    """Return the referenced names that `variables` lacks, in order."""
    missing: list[str] = []
    expand(text, _Noting(variables, missing))
    return missing


def expand_all(texts: Iterable[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return each of `texts` expanded."""
    return tuple(expand(text, variables) for text in texts)


class _Noting(dict[str, str]):
    """Variables that note the names asked for that are not there."""

    def __init__(self, variables: Mapping[str, str], missing: list[str]) -> None:
        super().__init__(variables)
        self._noted = missing

    def get(self, name: str, default: str = "") -> str:  # type: ignore[override]
        if name not in self:
            self._noted.append(name)
            return default
        return self[name]
