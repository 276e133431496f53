"""Plans: the answer of every decision, and what their values are equal by."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import get_type_hints

import pytest

import trainshed
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.plan import Create, PlanOf
from trainshed.kube.meta.resources import PODS, SERVICES


def test_creations_are_equal_by_what_they_create_whoever_writes_it() -> None:
    written: list[Object] = []

    def write() -> Object:
        written.append({"kind": "Pod"})
        return written[-1]

    late, here = Create(resource=PODS, given=write), Create(resource=PODS, given={"kind": "Pod"})
    assert written == [], "only when it is asked for"
    assert late == here
    assert late.object == {"kind": "Pod"}
    assert late != Create(resource=PODS, given={"kind": "Service"})
    assert late != Create(resource=SERVICES, given=write)
    assert late != Create(resource=PODS, given=write, counter="restarted")


SRC = Path(trainshed.__file__).parent
DECISIONS = sorted(
    ".".join(("trainshed", *file.relative_to(SRC).with_suffix("").parts))
    for file in SRC.rglob("*.py")
    if re.search(r"^def decide\(", file.read_text(), re.MULTILINE)
)


@pytest.mark.parametrize("module", DECISIONS)
def test_decisions_have_one_form(module: str) -> None:
    """From what was observed to actions, status, events and when to look again."""
    hints = get_type_hints(importlib.import_module(module).decide)
    assert issubclass(hints.pop("return"), PlanOf)
    assert list(hints) == ["observed"] and hints["observed"].__name__ == "Observed"


def test_decisions_are_found() -> None:
    """That each is held to be pure is seen in `tests/process/test_contracts.py`."""
    assert len(DECISIONS) >= 15, DECISIONS
