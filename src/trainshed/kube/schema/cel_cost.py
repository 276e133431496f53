"""What a CEL rule costs at most, before it runs: the engine can neither be interrupted nor share the interpreter.

A rule costs as many steps as its innermost macros (`all`, `exists`, `map`) can go round, which follows from how they
are nested and how large the collections are that they go over; long strings and `in` make each round cost more.

Source of the texts and of there being two limits: apiextensions-apiserver, `pkg/apiserver/schema/cel`.
"""

from __future__ import annotations

import functools
import re
from typing import Any, TypeAlias

MAX_RULE_STEPS = 200_000
"""Steps of one rule on one value, about 0.2 s; uniqueness in a list of 400 items by two nested macros fits."""
MAX_STEPS = 500_000
"""Steps of all rules of a request."""
RULE_STEPS = 25
"""What it takes to start a rule, in steps."""
_CHARACTERS_PER_STEP = 1_000
_ITEMS_PER_STEP = 50

Chain: TypeAlias = tuple[str, ...]
"""What nested macros go over, outermost first: names of fields or variables, empty for other expressions."""

_TOKEN = re.compile(
    r"""
      (?P<text>  [rR]?(?:\"\"\".*?\"\"\" | '''.*?''' | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*') )
    | (?P<macro> (?P<over>\w*)\s*\.\s*(?:all|exists|exists_one|existsOne|map|filter|transformList|transformMap)\s*\( )
    | (?P<open>  \( )
    | (?P<close> \) )
    """,
    re.VERBOSE | re.DOTALL,
)
_SEARCHES = re.compile(r"\bin\b|\b(?:indexOf|lastIndexOf|isSorted|sum|min|max|join)\b")


@functools.lru_cache(maxsize=512)
def chains(rule: str) -> tuple[Chain, ...]:
    """Return the nesting of each macro of a rule."""
    found: list[Chain] = []
    nested: list[str | None] = []
    for token in _TOKEN.finditer(rule):
        match token.lastgroup:
            case "close":
                if nested:
                    nested.pop()
            case "open":
                nested.append(None)
            case "macro" | "over":
                nested.append(token["over"])
                found.append(tuple(name for name in nested if name is not None))
    return tuple(found)


def steps(rule: str, *values: Any) -> int:
    """Return at most how many steps the rule takes on these values: `self` and `oldSelf` as JSON."""
    sizes = _Sizes()
    for value in values:
        sizes.add("self", value)
    each = 1 + sizes.longest_text // _CHARACTERS_PER_STEP
    if _SEARCHES.search(rule):
        each += sizes.largest // _ITEMS_PER_STEP
    # A list that the rule itself spells out, too, can be gone over.
    largest = max(
        sizes.largest, rule.count(",") + 1, sizes.longest_text if "split" in rule or "findAll" in rule else 0
    )
    total = 1
    for chain in chains(rule):
        rounds = 1
        for over in chain:
            rounds *= max(sizes.by_name.get(over, largest), 1)
        total += rounds
    return RULE_STEPS + total * each


class _Sizes:
    """How large the collections of a value are, by the name of their field."""

    def __init__(self) -> None:
        self.by_name: dict[str, int] = {}
        self.largest = 0
        self.longest_text = 0

    def add(self, name: str, value: Any) -> None:
        if isinstance(value, str):
            self.longest_text = max(self.longest_text, len(value))
        elif isinstance(value, dict):
            self._collection(name, len(value))
            for key, item in value.items():
                self.add(key, item)
        elif isinstance(value, list):
            self._collection(name, len(value))
            for item in value:
                self.add("", item)

    def _collection(self, name: str, size: int) -> None:
        self.largest = max(self.largest, size)
        if name:
            self.by_name[name] = max(self.by_name.get(name, 0), size)
