"""The embedded server answers what a real one did, and the differences that remain are known one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api_world import open_world
from tests.conformance.recorded.play import play
from tests.conformance.recorded.sequences import SEQUENCES
from trainshed.cluster.store import RETAIN
from trainshed.kube.meta.objects import Object

FOLDER = Path(__file__).parent
VERSION = "1.33"
FEW = 4
"""Events that the store keeps where a sequence asks for what it has forgotten."""
KNOWN = FOLDER / "known_differences.json"
"""By reason, sequence and step, the paths at which an answer still differs. What is listed and the same again fails,
too."""


def differences(expected: Any, found: Any, path: str = "") -> list[str]:
    """Return the paths at which two answers differ."""
    if isinstance(expected, dict) and isinstance(found, dict):
        names = sorted(expected.keys() | found.keys())
        return [
            line
            for name in names
            for line in differences(
                expected.get(name, "(absent)"), found.get(name, "(absent)"), f"{path}.{name}"
            )
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [
            line
            for number, (one, other) in enumerate(zip(expected, found, strict=True))
            for line in differences(one, other, f"{path}[{number}]")
        ]
    return [] if expected == found else [path]


@pytest.mark.parametrize("sequence", SEQUENCES)
async def test_as_recorded(tmp_path: Path, sequence: str) -> None:
    recorded: list[Object] = json.loads((FOLDER / VERSION / f"{sequence.replace(' ', '-')}.json").read_text())
    reasons: dict[str, dict[str, dict[str, list[str]]]] = json.loads(KNOWN.read_text())
    known: dict[str, list[str]] = {}
    for rows in reasons.values():
        known |= rows.get(sequence, {})
    async with open_world(tmp_path, retain=FEW if sequence == "expired" else RETAIN) as world:

        async def pass_a_second() -> None:
            world.now += 1

        answers = await play(world.transport, sequence, SEQUENCES[sequence], pass_a_second, real=False)
    assert len(recorded) == len(answers), "recorded with other requests: record again"
    found = {}
    for number, (expected, answer) in enumerate(zip(recorded, answers, strict=True)):
        step = SEQUENCES[sequence][number]
        if paths := differences(expected, answer):
            found[f"{number} {step.method} {step.path}"] = paths
    assert found == known
