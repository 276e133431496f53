"""The clock of the machine is set forward or back by hours: what the API server does with it.

Leases are measured by the clock that cannot be set (`tests/unit/test_leader.py`), deadlines of jobs are decisions about
`now` (`tests/unit/test_jobs_cleanup.py`), certificates are in `tests/unit/test_pki.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.api_world import START, World, config_map, open_world, pod
from tests.cluster.test_apiserver_protocol import call
from trainshed.cluster.apiserver.eventttl import EVENT_SECONDS, sweep
from trainshed.kube.meta.times import format_time

NS = "/api/v1/namespaces/default"
HOURS = 3600.0


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as started:
        yield started


async def token(world: World) -> str:
    issued = await world.ok("POST", f"{NS}/serviceaccounts/default/token", {"spec": {}})
    return str(issued["status"]["token"])


async def test_a_token_counts_when_the_clock_is_set_back(world: World) -> None:
    held = await token(world)
    for back in (60, 2 * HOURS, 30 * 24 * HOURS):
        world.now = START - back
        assert (await call(world, "/version", token=held)).status == 200


async def test_a_token_ends_when_the_clock_is_set_forward_and_a_new_one_counts(world: World) -> None:
    held = await token(world)
    world.now += 2 * HOURS
    assert (await call(world, "/version", token=held)).status == 401
    assert (await call(world, "/version", token=await token(world))).status == 200


async def test_revisions_and_watches_do_not_follow_the_clock(world: World) -> None:
    seen = []
    async with world.lines(f"{NS}/configmaps", resourceVersion=str(world.store.revision)) as watch:
        for number, step in enumerate((0.0, 2 * HOURS, -3 * HOURS, 100 * HOURS, -200 * HOURS)):
            world.now += step
            made = await world.ok("POST", f"{NS}/configmaps", config_map(f"c{number}"))
            assert made["metadata"]["creationTimestamp"] == format_time(world.now)
            seen.append(int(made["metadata"]["resourceVersion"]))
        events = await watch.take(len(seen))
    assert seen == sorted(set(seen))
    assert [int(e["object"]["metadata"]["resourceVersion"]) for e in events] == seen


async def test_events_live_by_their_own_time(world: World) -> None:
    """Set back, nothing expires early and what is new stays; set forward, what is old by then goes."""

    async def record(name: str) -> None:
        stamp = format_time(world.now)
        event = {
            "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
            "reason": "R",
            "type": "Normal",
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
        }
        await world.ok("POST", f"{NS}/events", event)

    async def left() -> list[str]:
        await sweep(world.api.core, world.now)
        return [e["metadata"]["name"] for e in (await world.ok("GET", f"{NS}/events"))["items"]]

    await record("before")
    world.now -= 5 * HOURS
    await record("set-back")
    assert await left() == ["before", "set-back"]
    world.now += EVENT_SECONDS + 1
    assert await left() == ["before"]
    world.now = START + EVENT_SECONDS + 1
    await record("after")
    assert await left() == ["after"]


async def test_the_grace_of_a_pod_follows_the_clock_only_for_show(world: World) -> None:
    """The node counts the grace from when it heard of it: the timestamp may be anywhere."""
    await world.ok("POST", f"{NS}/pods", pod("p", nodeName="n1"))
    world.now -= 2 * HOURS
    marked = await world.ok("DELETE", f"{NS}/pods/p", {"gracePeriodSeconds": 30})
    assert marked["metadata"]["deletionTimestamp"] == format_time(world.now + 30)
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    world.now += 10 * HOURS
    await world.ok("DELETE", f"{NS}/pods/p", {"gracePeriodSeconds": 0})
    await world.refused(404, "GET", f"{NS}/pods/p")
