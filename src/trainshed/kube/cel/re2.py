"""RE2 patterns, the dialect of OpenAPI schemas in Kubernetes: matched in time linear in the text.

Python's own engine backtracks: with `^([a-z0-9]+-?)+$` a value of 33 characters would occupy it for hours. Go's
`regexp` and this library descend from the same code, so what one compiles the other does.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

MOST_MEMORY = 8 << 20
"""Bytes that one compiled pattern may take: repetitions of repetitions grow without bound otherwise."""

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""What generated CRDs say of each quantity, ours too."""


class Pattern:
    """One compiled pattern. RE2 schemas are unanchored: a match may lie anywhere in the text."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches anywhere in `text`."""
        return self._compiled.search(text) is not None

    def find(self, text: str) -> str:
        """Return the first match, empty when there is none."""
        match = self._compiled.search(text)
        return str(match[0]) if match else ""

    def find_all(self, text: str) -> Iterator[str]:
        """Yield the matches from left to right; none overlaps another."""
        for match in self._compiled.finditer(text):
            yield str(match[0])


@functools.lru_cache(maxsize=1024)
def compile_re2(pattern: str) -> Pattern:
    """Return the compiled pattern.

    Raises:
        ValueError: the pattern is not valid RE2, or too large. The message is that of Go's engine.
    """
    if pattern == QUANTITY_PATTERN:
        # Every cluster has it, and it is linear in Python's engine too: nowhere are there two ways to go on. So the
        # 3.5 MiB of RE2 are loaded only for patterns of others. `\Z` is what RE2 means by `$`.
        return Pattern(re.compile(pattern.removesuffix("$") + r"\Z"))
    import re2  # a native module: loaded when the first pattern has to be compiled

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MOST_MEMORY
    try:
        return Pattern(re2.compile(pattern, options))
    except re2.error as error:
        reason = error.args[0] if error.args else error
        said = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(_as_go(said)) from error


_GO_WORDS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}


def _as_go(said: str) -> str:
    """Return what Go's engine says where this one says `what: place`."""
    what, _, place = said.partition(": ")
    what = _GO_WORDS.get(what, what)
    return f"error parsing regexp: {what}: `{place}`" if place else f"error parsing regexp: {what}"
