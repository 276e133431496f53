"""A damaged or full disk as clients of the API see it: a clear Status, and everything else goes on."""

from __future__ import annotations

import resource
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.cluster import read_only_disk
from tests.cluster.api_world import MERGE, World, config_map, open_world
from tests.cluster.control_world import World as Controllers
from tests.cluster.control_world import cluster
from trainshed.kube.meta.ownership import controller_reference
from trainshed.kube.meta.resources import CONFIGMAPS, NAMESPACES

CMS = "/api/v1/namespaces/default/configmaps"


def spoil(home: Path, key: str) -> None:
    """Change a byte of what is stored last under `key`."""
    with sqlite3.connect(home / "store.db") as db:
        revision, value = db.execute(
            "SELECT revision, value FROM log WHERE key = ? ORDER BY revision DESC LIMIT 1", (key,)
        ).fetchone()
        db.execute(
            "UPDATE log SET value = ? WHERE revision = ?", (value.replace(b'"data"', b'"dota"'), revision)
        )
    db.close()


@asynccontextmanager
async def damaged(home: Path, name: str, *others: str) -> AsyncIterator[World]:
    """Yield a world in which the ConfigMap `name` is damaged, and `others` are not."""
    async with open_world(home) as world:
        for each in (name, *others):
            await world.ok("POST", CMS, config_map(each, k="v"))
    spoil(home, f"/core/configmaps/default/{name}")
    async with open_world(home) as world:
        yield world


async def test_a_damaged_object_is_named_left_out_and_can_be_deleted(tmp_path: Path) -> None:
    async with damaged(tmp_path, "bad", "good") as world:
        status = await world.refused(500, "GET", f"{CMS}/bad")
        assert status["reason"] == "StorageReadError"
        assert "configmaps 'bad' is damaged on the disk" in status["message"]
        assert "trainshed restore" in status["message"]
        assert status["details"] == {"name": "bad", "kind": "configmaps"}
        listed = await world.raw("GET", CMS)
        assert listed.status == 200 and b'"good"' in listed.body and b'"bad"' not in listed.body
        assert any("'default/bad' is damaged" in text for text in listed.warnings)
        for method, path, body in (
            ("POST", CMS, config_map("bad")),
            ("PUT", f"{CMS}/bad", config_map("bad")),
        ):
            assert (await world.refused(500, method, path, body))["reason"] == "StorageReadError"
        await world.refused(500, "PATCH", f"{CMS}/bad", {"data": {"a": "b"}}, content_type=MERGE)
        await world.refused(500, "DELETE", f"{CMS}/bad", {"preconditions": {"uid": "x"}})
        await world.ok("DELETE", f"{CMS}/bad", {"dryRun": ["All"]})
        async with world.lines(CMS, resourceVersion=str(world.store.revision)) as watch:
            assert (await world.ok("DELETE", f"{CMS}/bad"))["status"] == "Success"
            event = await watch.next()
            assert (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "bad")
        await world.refused(404, "GET", f"{CMS}/bad")
        await world.ok("POST", CMS, config_map("bad"))
        assert not (await world.raw("GET", CMS)).warnings


async def test_a_collection_is_deleted_with_what_is_damaged(tmp_path: Path) -> None:
    async with damaged(tmp_path, "bad", "good") as world:
        await world.ok("DELETE", CMS)
        assert world.store.damaged() == {}
        assert (await world.ok("GET", CMS))["items"] == []


async def test_dependents_of_a_damaged_owner_stay_until_it_is_deleted(tmp_path: Path) -> None:
    async with cluster(tmp_path, node=False) as world:
        owner = await world.client.create(CONFIGMAPS, config_map("owner", k="v"), namespace="default")
        child = config_map("child")
        child["metadata"]["ownerReferences"] = [controller_reference(owner)]
        await world.client.create(CONFIGMAPS, child, namespace="default")
    spoil(tmp_path, "/core/configmaps/default/owner")
    async with cluster(tmp_path, node=False) as world:
        canary = config_map("canary")
        canary["metadata"]["ownerReferences"] = [{**controller_reference(owner), "name": "no", "uid": "gone"}]
        await world.client.create(CONFIGMAPS, canary, namespace="default")
        await world.until("the collector has been round", lambda: _absent(world, "canary"))
        assert not _absent(world, "child")
        await world.client.delete(CONFIGMAPS, "owner", "default")
        await world.until("the dependent is collected", lambda: _absent(world, "child"))


async def test_a_namespace_ends_with_what_is_damaged_in_it(tmp_path: Path) -> None:
    async with cluster(tmp_path, node=False) as world:
        await world.client.create(NAMESPACES, {"metadata": {"name": "team"}})
        await world.client.create(CONFIGMAPS, config_map("bad", k="v"), namespace="team")
    spoil(tmp_path, "/core/configmaps/team/bad")
    async with cluster(tmp_path, node=False) as world:
        assert list(world.store.damaged()) == ["/core/configmaps/team/bad"]
        await world.client.delete(NAMESPACES, "team")
        await world.until("the namespace is gone", lambda: world.stored(NAMESPACES, "team") is None)
        assert world.store.damaged() == {}


def _absent(world: Controllers, name: str) -> bool:
    return world.stored(CONFIGMAPS, name, "default") is None


async def test_a_full_disk_is_a_507_and_reads_go_on(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        await world.ok("POST", CMS, config_map("kept"))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "store.db-wal").stat().st_size, hard))
        try:
            status = await world.refused(507, "POST", CMS, config_map("lost", k="x" * 100_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert status["reason"] == "InsufficientStorage"
        assert "free some space" in status["message"]
        assert [o["metadata"]["name"] for o in (await world.ok("GET", CMS))["items"]][-1] == "kept"
        await world.ok("POST", CMS, config_map("lost"))


def test_a_disk_that_becomes_read_only_is_a_507_and_reads_go_on(tmp_path: Path) -> None:
    """In a process with mounts of its own."""
    command = [sys.executable, "-m", read_only_disk.__name__, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "refused, read, and written again\n"), done.stderr
