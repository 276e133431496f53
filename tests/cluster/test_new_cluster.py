"""What the store of a new cluster is filled with is what requests would have led to."""

from __future__ import annotations

import runpy
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.cluster.api_world import World
from trainshed.cli import newcluster
from trainshed.cluster.apiserver.bootstrap import bootstrap
from trainshed.cluster.control import installing
from trainshed.cluster.pki import Pki
from trainshed.cluster.scheduler.install import FIELD_MANAGER, install
from trainshed.cluster.store import Store
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import CRDS
from trainshed.operator.install import definitions
from trainshed.tekton import crds
from trainshed.tekton.versions import CONVERSIONS

GENERATOR = runpy.run_path(str(Path(__file__).parents[2] / "scripts/generate_newcluster.py"))
NOW = "2026-01-02T03:04:05Z"


def test_the_file_holds_what_the_code_stores() -> None:
    assert newcluster.FILE.read_text() == GENERATOR["text"](), "run: python scripts/generate_newcluster.py"


def test_each_object_has_a_uid_of_its_own_and_the_time_of_the_start() -> None:
    found = [obj for step in newcluster.steps(NOW) for _, obj in step]
    metadata = [obj["metadata"] for obj in found]
    assert len({uuid.UUID(one["uid"]) for one in metadata}) == len(found)
    assert {one["creationTimestamp"] for one in metadata} == {NOW}
    assert newcluster.TIME not in repr(found)


@asynccontextmanager
async def _filled(
    home: Path, *steps: Sequence[tuple[str, Object]], crash: bool = False
) -> AsyncIterator[World]:
    store = await Store.open(home / "store.db")
    rest = await installing.fill(store, lambda now: iter(steps))
    assert rest is not None
    world = World(home, store, conversions=CONVERSIONS)
    try:
        if not crash:
            await installing.install(world.client, store, Pki(home / "pki"), rest, lambda is_new: iter(()))
        yield world
    finally:
        await world.transport.close()
        await store.close()


async def _ask_for_all(world: World) -> None:
    await bootstrap(world.client)
    await install(world.client)
    for definition in (*crds.crds(), *definitions()):
        await world.client.apply(CRDS, definition, field_manager=FIELD_MANAGER)


async def test_the_next_start_finds_nothing_to_do(tmp_path: Path) -> None:
    async with _filled(tmp_path, *newcluster.steps(NOW)) as world:
        before = world.store.revision
        assert await installing.fill(world.store, newcluster.steps) is None
        await _ask_for_all(world)
        assert world.store.revision == before
        jobs = await world.ok("GET", "/apis/kubeflow.org/v1/pytorchjobs")
        assert jobs["kind"] == "PyTorchJobList"


@pytest.mark.parametrize("kept", [1, 40, 90])
async def test_what_a_crash_cut_off_is_made_by_the_next_start(tmp_path: Path, kept: int) -> None:
    """But what the controllers make: they are not there in this world."""
    everything = [pair for step in newcluster.steps(NOW) for pair in step]
    async with _filled(tmp_path, everything[:kept], crash=True) as world:
        await _ask_for_all(world)
        found = {stored.key for stored in world.store.list("/")[0]}
    wanted = {key for key, _ in everything if not key.startswith("/apiregistration.k8s.io/")}
    assert wanted <= found


async def test_a_definition_that_came_meanwhile_stays(tmp_path: Path) -> None:
    first, (definition,), *_ = newcluster.steps(NOW)
    key, obj = definition
    theirs = (key, {**obj, "spec": {**obj["spec"], "preserveUnknownFields": False}})
    async with _filled(tmp_path, [*first, theirs], [definition]) as world:
        stored = world.store.get(key)
        assert stored is not None and "preserveUnknownFields" in stored.obj["spec"]
