"""Every decision of the program has one form; that each is pure is seen in `tests/process/test_contracts.py`."""

from __future__ import annotations

import importlib
import re
from typing import get_type_hints

import pytest

from tests.house.source import SRC, files, text
from trainshed.kube.meta.plan import PlanOf

DECISIONS = [
    ".".join(("trainshed", *file.relative_to(SRC).with_suffix("").parts))
    for file in files()
    if re.search(r"^def decide\(", text(file), re.MULTILINE)
]


@pytest.mark.parametrize("module", DECISIONS)
def test_decisions_have_one_form(module: str) -> None:
    """From what was observed to actions, status, events and when to look again."""
    hints = get_type_hints(importlib.import_module(module).decide)
    assert issubclass(hints.pop("return"), PlanOf)
    assert list(hints) == ["observed"] and hints["observed"].__name__ == "Observed"


def test_decisions_are_found() -> None:
    assert len(DECISIONS) >= 15, DECISIONS
