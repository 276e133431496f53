"""Sandboxes and the attempts of their containers, from the first start to the removal."""

from __future__ import annotations

import signal
import time

import pytest

from tests.conformance.runtime.conftest import Boxes
from trainshed.cluster.sandbox.api import SandboxNotFound, StartError


async def test_a_sandbox_is_listed_with_an_address_of_its_own(boxes: Boxes) -> None:
    one, two = await boxes.pod("one"), await boxes.pod("two", namespace="other", name="web")
    assert one.alive and one.pid > 0 and one.containers == ()
    assert one.ip.startswith(boxes.network) and one.ip != two.ip
    assert (two.uid, two.namespace, two.name) == ("two", "other", "web")
    assert sorted([s.uid for s in await boxes.runtime.list()]) == ["one", "two"]
    assert await boxes.state("one") == one


async def test_a_pod_of_the_host_network_has_no_address(boxes: Boxes) -> None:
    assert (await boxes.pod("one", host_network=True)).ip == ""


async def test_a_living_sandbox_is_not_made_again(boxes: Boxes) -> None:
    first = await boxes.pod("one")
    await boxes.start("one")
    again = await boxes.pod("one")
    assert (again.pid, again.ip) == (first.pid, first.ip)
    assert [c.name for c in again.containers] == ["c"]


async def test_a_container_runs_until_it_ends_by_itself(boxes: Boxes) -> None:
    await boxes.pod("one")
    before = time.time()
    started = await boxes.start("one")
    assert (started.name, started.attempt, started.finished_at) == ("c", 0, None)
    assert started.pid is not None and before - 1 <= started.started_at <= time.time() + 1
    listed = await boxes.state("one")
    assert listed is not None and listed.containers == (started,)
    boxes.finish("one", 3)
    ended = await boxes.end("one")
    assert (ended.exit_code, ended.signal) == (3, None)
    assert ended.finished_at is not None and ended.finished_at >= ended.started_at == started.started_at
    listed = await boxes.state("one")
    assert listed is not None and listed.alive and listed.containers == (ended,)


async def test_an_attempt_is_started_once(boxes: Boxes) -> None:
    await boxes.pod("one")
    started = await boxes.start("one")
    assert await boxes.start("one") == started
    boxes.finish("one", 0)
    ended = await boxes.end("one")
    assert await boxes.start("one") == ended, "also when it has ended"


async def test_attempts_are_listed_newest_first(boxes: Boxes) -> None:
    await boxes.pod("one")
    for attempt in (0, 1):
        await boxes.start("one", attempt=attempt)
        boxes.finish("one", attempt, attempt=attempt)
        await boxes.end("one", attempt=attempt)
    listed = await boxes.state("one")
    assert listed is not None
    assert [(c.attempt, c.exit_code) for c in listed.containers] == [(1, 1), (0, 0)]


async def test_containers_of_a_pod_end_each_for_itself(boxes: Boxes) -> None:
    await boxes.pod("one")
    await boxes.start("one", "a")
    await boxes.start("one", "b")
    boxes.finish("one", 5, "b")
    assert (await boxes.end("one", "b")).exit_code == 5
    listed = await boxes.state("one")
    assert listed is not None
    assert {c.name: c.finished_at is None for c in listed.containers} == {"a": True, "b": False}


async def test_a_command_that_is_not_there(boxes: Boxes) -> None:
    await boxes.pod("one")
    for _ in range(2):
        with pytest.raises(StartError) as caught:
            await boxes.start("one", "missing", missing=True)
        assert caught.value.exit_code == 127
        assert caught.value.message == 'exec: "no-such-program": executable file not found in $PATH'
    listed = await boxes.state("one")
    assert listed is not None and listed.containers == (), "it never ran"


@pytest.mark.parametrize(
    ("number", "exit_code", "by_signal"), [(signal.SIGTERM, 143, None), (signal.SIGKILL, 137, signal.SIGKILL)]
)
async def test_signals(boxes: Boxes, number: int, exit_code: int, by_signal: int | None) -> None:
    """SIGTERM is caught by the program, which exits; SIGKILL is what ends it."""
    await boxes.pod("one")
    await boxes.start("one")
    await boxes.runtime.signal_container("one", "c", number)
    ended = await boxes.end("one")
    assert (ended.exit_code, ended.signal) == (exit_code, by_signal)


async def test_what_does_not_run_cannot_be_signalled(boxes: Boxes) -> None:
    await boxes.pod("one")
    await boxes.start("one")
    boxes.finish("one", 0)
    await boxes.end("one")
    for uid, name in (("one", "c"), ("one", "other"), ("nobody", "c")):
        with pytest.raises(SandboxNotFound):
            await boxes.runtime.signal_container(uid, name, signal.SIGTERM)


async def test_nothing_starts_where_no_sandbox_is(boxes: Boxes) -> None:
    with pytest.raises(SandboxNotFound):
        await boxes.start("nobody")
    await boxes.pod("one")
    await boxes.runtime.stop_sandbox("one")
    with pytest.raises(SandboxNotFound):
        await boxes.start("one")


async def test_a_stopped_sandbox_is_known_and_what_ran_in_it_has_ended(boxes: Boxes) -> None:
    await boxes.pod("one")
    await boxes.start("one", "done")
    boxes.finish("one", 0, "done")
    await boxes.end("one", "done")
    await boxes.start("one")
    await boxes.runtime.stop_sandbox("one")
    stopped = await boxes.state("one")
    assert stopped is not None and not stopped.alive and stopped.pid == 0
    assert {c.name: c.exit_code for c in stopped.containers} == {"done": 0, "c": 137}
    assert all(c.finished_at is not None for c in stopped.containers)
    await boxes.runtime.stop_sandbox("one")
    assert await boxes.state("one") == stopped, "stopping again changes nothing"


async def test_a_sandbox_that_is_made_again_remembers_its_attempts(boxes: Boxes) -> None:
    await boxes.pod("one")
    await boxes.start("one")
    boxes.finish("one", 4)
    await boxes.end("one")
    await boxes.runtime.stop_sandbox("one")
    again = await boxes.pod("one")
    assert again.alive and [(c.attempt, c.exit_code) for c in again.containers] == [(0, 4)]
    await boxes.start("one", attempt=1)
    listed = await boxes.state("one")
    assert listed is not None and [c.attempt for c in listed.containers] == [1, 0]


async def test_a_removed_sandbox_is_unknown(boxes: Boxes) -> None:
    await boxes.pod("one")
    await boxes.start("one")
    await boxes.runtime.remove_sandbox("one")
    assert await boxes.runtime.list() == []
    await boxes.runtime.remove_sandbox("one")
    await boxes.runtime.stop_sandbox("one")
    fresh = await boxes.pod("one")
    assert fresh.containers == ()
