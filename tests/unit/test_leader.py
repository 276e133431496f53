"""Leader election: never two leaders at a time, a dead one is replaced, a leaving one hands over at once."""

from __future__ import annotations

import asyncio
import time
from typing import ClassVar

import pytest

from tests.fakes.api import FakeApi
from tests.fakes.virtual_time import run_virtual
from trainshed.client.client import Client
from trainshed.client.leader import LeaderElector, LeadershipLost
from trainshed.kube.builtin.registry import validate_object
from trainshed.kube.meta.resources import LEASES

LEASE = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/op"


class Candidate:
    """One process that competes; `api` is its own way to the server, so that it can be cut off alone."""

    working: ClassVar[list[str]] = []

    def __init__(self, api: FakeApi, name: str) -> None:
        self.name = name
        self.elector = LeaderElector(Client(api), "ns", "op", name)
        self.task = asyncio.create_task(self.elector.run(self._work))

    async def _work(self) -> None:
        Candidate.working.append(self.name)
        assert len(Candidate.working) == 1, f"two leaders: {Candidate.working}"
        try:
            await asyncio.Event().wait()
        finally:
            Candidate.working.remove(self.name)


async def leader(name: str, seconds: float = 60) -> float:
    """Wait until `name` leads; return how long that took."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    while Candidate.working != [name]:
        assert loop.time() - started < seconds, f"{name} does not lead; leading: {Candidate.working}"
        await asyncio.sleep(0.1)
    return loop.time() - started


@pytest.fixture(autouse=True)
def _nobody_leads() -> None:
    Candidate.working = []


def test_one_leads_and_hands_over_when_it_stops() -> None:
    async def main() -> None:
        api = FakeApi()
        a = Candidate(api, "a")
        await leader("a")
        b = Candidate(api, "b")
        first = dict(api.objects[LEASE]["spec"])
        await asyncio.sleep(100)
        assert Candidate.working == ["a"]
        renewed = api.objects[LEASE]["spec"]
        assert (renewed["acquireTime"], renewed["leaseTransitions"]) == (first["acquireTime"], 0)
        assert renewed["renewTime"] > first["renewTime"]
        a.task.cancel()
        assert await leader("b") < 5, "released, not run out"
        taken = api.objects[LEASE]["spec"]
        assert taken["acquireTime"] > renewed["acquireTime"] and taken["leaseTransitions"] == 1
        released = next(obj for _, _, _, obj in reversed(api.log) if obj["spec"].get("holderIdentity") != "b")
        assert list(validate_object(LEASES, released, None)) == [], "a server takes the release"
        b.task.cancel()
        await asyncio.wait([a.task, b.task])

    run_virtual(main())


def test_a_leader_cut_off_stops_before_the_next_starts() -> None:
    """The `_work` assertion fails if the two ever overlap."""

    async def main() -> None:
        shared = FakeApi()
        cut = FakeApi()
        cut.objects, cut.log = shared.objects, shared.log
        a = Candidate(cut, "a")
        await leader("a")
        b = Candidate(shared, "b")
        await asyncio.sleep(30)
        cut.fail_requests = 10**6
        with pytest.raises(LeadershipLost):
            await a.task
        assert Candidate.working == []
        assert await leader("b") > 1
        b.task.cancel()
        await asyncio.wait([b.task])

    run_virtual(main())


def test_a_killed_leader_is_replaced_after_its_lease() -> None:
    async def main() -> None:
        api = FakeApi()
        await api.put(
            LEASE,
            spec={"holderIdentity": "dead", "leaseDurationSeconds": 15, "renewTime": "2000-01-01T00:00:00Z"},
        )
        b = Candidate(api, "b")
        # Its renewTime is long past by the wall clock, but we have only just begun to watch it.
        assert 15 <= await leader("b") < 20
        b.task.cancel()
        await asyncio.wait([b.task])

    run_virtual(main())


@pytest.mark.parametrize("hours", [-5, 5])
def test_a_clock_that_is_set_moves_no_lease(hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader's clock jumps: its renewTime is hours off, and nobody takes the lease from it."""

    async def main() -> None:
        api = FakeApi()
        a = Candidate(api, "a")
        await leader("a")
        b = Candidate(api, "b")
        await asyncio.sleep(30)
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + hours * 3600)
        await asyncio.sleep(300)
        assert Candidate.working == ["a"]
        for candidate in (a, b):
            candidate.task.cancel()
        await asyncio.wait([a.task, b.task])

    run_virtual(main())


def test_work_that_ends_ends_the_election() -> None:
    async def main() -> None:
        api = FakeApi()

        async def work() -> None:
            await asyncio.sleep(5)
            raise ValueError("a bug")

        with pytest.raises(ValueError, match="a bug"):
            await LeaderElector(Client(api), "ns", "op", "a").run(work)
        assert not api.objects[LEASE]["spec"].get("holderIdentity")

    run_virtual(main())
