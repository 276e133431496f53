"""Manifests of every kind with one to three wrong things: taken, or refused at a field, and never a traceback.

Some hundreds, always the same; `python -m bench.fuzz` does any number.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.api_world import World
from tests.cluster.job_fuzz import by_check, by_the_server, examined, fuzzed_server
from tests.fakes.manifests import mutant, mutants, whole
from trainshed.testing.builders import JOB_KINDS

COUNT = 210


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with fuzzed_server(tmp_path) as opened:
        yield opened


async def test_the_manifests_themselves_are_taken(world: World) -> None:
    for kind in JOB_KINDS:
        assert await by_the_server(world, kind, whole(kind), 0) == "taken", kind
        assert await by_check(world, kind, whole(kind), 0) == "taken", kind


@pytest.mark.timeout(240)
async def test_any_manifest_is_taken_or_refused_at_a_field(world: World) -> None:
    fates, wrong = await examined(world, mutants(range(COUNT)))
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:20])
    assert fates["server: taken"] > COUNT / 20 and fates["server: refused"] > COUNT / 4, fates
    assert fates["check: taken"] > COUNT / 20 and fates["check: refused"] > COUNT / 4, fates


def test_a_manifest_can_be_made_again() -> None:
    assert mutant("JAXJob", 7) == mutant("JAXJob", 7) != mutant("JAXJob", 8)
