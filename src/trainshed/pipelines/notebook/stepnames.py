"""Which names steps may have: each becomes part of the names of resources."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from trainshed.pipelines.diagnostics import Diagnostic, diagnostic

_RESOURCE_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LONGEST_NAME = 48
"""Characters of a step's name, so that those of its pods and results fit into 63."""


class NamedStep(msgspec.Struct, frozen=True):
    """A step's name, how many workers it has if it is distributed, and where it stands: its cell, or its line."""

    name: str
    workers: int | None = None
    cell: int | None = None
    line: int | None = None


def resource_name(step: str) -> str:
    """Return the step's name as part of a resource's, where `_` is not allowed."""
    return step.replace("_", "-").strip("-")


def wrong_names(steps: Iterable[NamedStep]) -> list[Diagnostic]:
    """Find names that no resource may have, and steps whose resources would have the same."""
    found = []
    taken: dict[str, str] = {}
    for step in steps:
        own = resource_name(step.name)
        if not _RESOURCE_NAME.fullmatch(own) or len(own) > _LONGEST_NAME:
            found.append(
                diagnostic(
                    "NB107",
                    f"no resource can be named after step {step.name}",
                    cell=step.cell,
                    line=step.line,
                    step=step.name,
                    fix=f"begin with a letter, and use {_LONGEST_NAME} characters at most",
                )
            )
            continue
        names = [own, *(f"{own}{i + 1}" for i in range(step.workers or 0))]
        for name in names:
            other = taken.setdefault(name, step.name)
            if other != step.name:
                found.append(
                    diagnostic(
                        "NB106",
                        f"steps {other} and {step.name} would both be called {name}",
                        cell=step.cell,
                        line=step.line,
                        step=step.name,
                        fix="rename one",
                    )
                )
    return found
