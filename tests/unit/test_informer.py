"""The mirror equals the server whatever happens to the connection, and handlers see each change once."""

from __future__ import annotations

import asyncio
import copy
import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.examples import times
from tests.fakes.api import FakeApi
from tests.fakes.virtual_time import run_virtual
from trainshed.client.client import Client
from trainshed.client.informer import Informer, State
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import core

THINGS = core("things", "Thing")
BASE = "/api/v1/namespaces/ns/things"


class Recorder:
    """Replays what handlers are told into a second mirror and checks each step against it."""

    def __init__(self) -> None:
        self.mirror: dict[str, Object] = {}
        self.seen: list[tuple[str, str, str]] = []

    def __call__(self, kind: str, old: Object | None, new: Object) -> None:
        name = new["metadata"]["name"]
        before = self.mirror.get(name)
        assert (before is None) == (kind == "ADDED"), (kind, name)
        assert before == old, "the old state is the one told last"
        if kind == "DELETED":
            del self.mirror[name]
        else:
            self.mirror[name] = copy.deepcopy(new)
        self.seen.append((kind, name, new["metadata"]["resourceVersion"]))


async def settle(api: FakeApi, informer: Informer) -> None:
    """Wait until the mirror equals the server and has seen its last write, which may have undone the one before.

    The assertion of the deadline shows the difference.
    """
    expected: dict[Any, Any] = {}
    for _ in range(500):
        expected = {("ns", path.rpartition("/")[2]): obj for path, obj in api.objects.items()}
        equal = {("ns", o["metadata"]["name"]): o for o in informer.items()} == expected
        if equal and informer.synced and int(informer.resource_version or 0) >= api.revision:
            return
        await asyncio.sleep(1)
    assert informer.items() == list(expected.values())


@times(1.5)
@given(st.integers(0, 2**32))
@example(295)
def test_converges_and_never_repeats_under_faults(seed: int) -> None:
    """Writes, dropped streams, refused requests, compactions and small pages in random order.

    Without a compaction the handlers see exactly the server's log; with one, its net effect.
    """

    async def main() -> None:
        choose = random.Random(seed)
        compacts = choose.random() < 0.5
        api = FakeApi()
        api.page_size = choose.choice([1, 2, 500])
        for number in range(choose.randrange(4)):
            await api.put(f"{BASE}/t{number}", value=0)
        listed_at = api.revision
        informer = Informer(Client(api), THINGS, compact=choose.random() < 0.5)
        recorder = Recorder()
        informer.add_handler(recorder)
        running = asyncio.create_task(informer.run())
        if not compacts:
            await informer.wait_synced(1000)
        for step in range(choose.randrange(40)):
            path = f"{BASE}/t{choose.randrange(5)}"
            match choose.randrange(10):
                case 0:
                    await api.drop_streams(cleanly=choose.random() < 0.5)
                case 1:
                    api.fail_requests = choose.randrange(4)
                case 2 if compacts:
                    api.compact()
                    await api.drop_streams()
                case 3 | 4 if path in api.objects:
                    await api.remove(path)
                case _:
                    await api.put(path, value=step)
            await asyncio.sleep(choose.choice([0, 0, 0.01, 1, 20]))
        await settle(api, informer)
        changes = [entry for entry in recorder.seen if entry[0] != "DELETED"]
        assert len(set(changes)) == len(changes), "nothing is repeated"
        assert recorder.mirror == {o["metadata"]["name"]: o for o in informer.items()}
        if not compacts:
            log = [(kind, obj["metadata"]["name"], str(at)) for at, kind, _, obj in api.log if at > listed_at]
            assert [entry for entry in recorder.seen if int(entry[2]) > listed_at] == log
        running.cancel()
        await asyncio.wait([running])
        assert informer.state is State.STOPPED
        assert api.watching == 0, "no stream stays open"

    run_virtual(main())


def test_replaced_object_is_a_deletion_and_an_addition() -> None:
    """Deleted and created again while we were not looking: another uid under the same name."""

    async def main() -> None:
        api = FakeApi()
        first = await api.put(f"{BASE}/a", value=1)
        informer = Informer(Client(api), THINGS)
        recorder = Recorder()
        informer.add_handler(recorder)
        running = asyncio.create_task(informer.run())
        await informer.wait_synced(100)
        api.fail_requests = 1
        await api.drop_streams()
        await asyncio.sleep(0)
        await api.remove(f"{BASE}/a")
        second = await api.put(f"{BASE}/a", value=2)
        api.compact()
        await settle(api, informer)
        assert first["metadata"]["uid"] != second["metadata"]["uid"]
        assert [kind for kind, _, _ in recorder.seen] == ["ADDED", "DELETED", "ADDED"]
        running.cancel()

    run_virtual(main())


def test_index_follows_changes() -> None:
    async def main() -> None:
        api = FakeApi()
        await api.put(f"{BASE}/a", groups=["x", "y"])
        informer = Informer(Client(api), THINGS)
        running = asyncio.create_task(informer.run())
        await informer.wait_synced(100)
        index = informer.index(lambda obj: obj.get("groups", ()))
        await api.put(f"{BASE}/b", groups=["y"])
        await settle(api, informer)

        def names(value: str) -> list[str]:
            return sorted(o["metadata"]["name"] for o in index.get(value))

        assert (names("x"), names("y"), names("z")) == (["a"], ["a", "b"], [])
        await api.put(f"{BASE}/a", groups=["z"])
        await api.remove(f"{BASE}/b")
        await settle(api, informer)
        assert (names("x"), names("y"), names("z")) == ([], [], ["a"])
        running.cancel()

    run_virtual(main())


def test_a_faulty_handler_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        api = FakeApi()
        await api.put(f"{BASE}/a", value=1)
        informer = Informer(Client(api), THINGS)

        def broken(kind: str, old: Object | None, new: Object) -> None:
            raise ValueError("a bug")

        recorder = Recorder()
        informer.add_handler(broken)
        informer.add_handler(recorder)
        running = asyncio.create_task(informer.run())
        await informer.wait_synced(100)
        assert [kind for kind, _, _ in recorder.seen] == ["ADDED"]
        running.cancel()

    run_virtual(main())
    assert "informer handler failed" in caplog.text


def test_missing_resource_is_retried_slowly() -> None:
    """A CRD that is not installed yet: no busy loop, and the informer comes up once it is."""

    async def main() -> None:
        api = FakeApi()
        api.fail_requests = 10_000
        informer = Informer(Client(api), THINGS)
        running = asyncio.create_task(informer.run())
        with pytest.raises(TimeoutError, match="things: no list"):
            await informer.wait_synced(600)
        assert 100 < len(api.calls) < 250
        api.fail_requests = 0
        await informer.wait_synced(10)
        running.cancel()

    run_virtual(main())
