"""The work queue never loses a key, never hands one to two workers, and times its retries."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.virtual_time import run_virtual
from trainshed.client.controllers.controller import Controller, Worker
from trainshed.client.controllers.workqueue import QueueClosed, WorkQueue
from trainshed.client.transport import TransportError
from trainshed.kube.meta.errors import conflict


def test_a_key_waits_once() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        queue.add("a")
        queue.add("b")
        assert [await queue.get(), await queue.get()] == ["a", "b"]
        assert len(queue) == 0

    run_virtual(main())


def test_a_key_added_while_processed_comes_again_after_done() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        assert await queue.get() == "a"
        queue.add("a")
        assert len(queue) == 0
        queue.done("a")
        assert await queue.get() == "a"

    run_virtual(main())


def test_add_after_keeps_the_earliest_time() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        queue: WorkQueue[str] = WorkQueue()
        start = loop.time()
        queue.add_after("a", 60)
        queue.add_after("a", 20)
        queue.add_after("a", 40)
        await queue.get()
        assert loop.time() - start == pytest.approx(20)
        queue.done("a")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1000):
                await queue.get()

    run_virtual(main())


def test_backoff_doubles_up_to_the_limit_until_forgotten() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue(base_seconds=1, max_seconds=5)
        assert [queue.add_rate_limited("a") for _ in range(5)] == [1, 2, 4, 5, 5]
        queue.forget("a")
        assert queue.add_rate_limited("a") == 1

    run_virtual(main())


def test_shut_down_wakes_all_workers() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        workers = [asyncio.ensure_future(queue.get()) for _ in range(3)]
        await asyncio.sleep(0)
        queue.add_after("late", 5)
        queue.shut_down()
        results = await asyncio.gather(*workers, return_exceptions=True)
        assert all(isinstance(r, QueueClosed) for r in results)
        queue.add("a")
        with pytest.raises(QueueClosed):
            await queue.get()

    run_virtual(main())


def test_a_cancelled_worker_does_not_swallow_a_wake_up() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        first, second = asyncio.ensure_future(queue.get()), asyncio.ensure_future(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        assert await asyncio.wait_for(second, 10) == "a"

    run_virtual(main())


@given(st.integers(0, 2**32), st.integers(1, 4))
def test_every_change_is_seen_after_it_happened(seed: int, workers: int) -> None:
    """Keys change at random while workers run and fail at random: in the end each worker has seen the last
    state of each key, and no key was ever in two hands."""

    async def main() -> None:
        choose = random.Random(seed)
        wanted: dict[int, int] = {}
        seen: dict[int, int] = {}
        in_hand: set[int] = set()

        async def reconcile(key: int) -> float | None:
            assert key not in in_hand
            in_hand.add(key)
            value = wanted[key]
            await asyncio.sleep(choose.random())
            in_hand.discard(key)
            fate = choose.random()
            if fate < 0.2:
                raise TransportError("away")
            if fate < 0.3:
                raise conflict("things", "", str(key))
            seen[key] = value
            return None

        controller = Worker("test", reconcile, workers=workers)
        running = asyncio.create_task(controller.run())
        for step in range(30):
            key = choose.randrange(4)
            wanted[key] = step
            controller.enqueue(key)
            await asyncio.sleep(choose.random() * 0.3)
        async with asyncio.timeout(1000):
            while seen != wanted:
                await asyncio.sleep(1)
        controller.stop()
        await running

    run_virtual(main())


def test_controller_requeues_and_reports_results() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        times: list[float] = []
        results: list[str] = []
        start = loop.time()

        async def reconcile(key: str) -> float | None:
            times.append(loop.time() - start)
            if len(times) == 2:
                raise ValueError("a bug")
            return 30.0 if len(times) == 1 else None

        class Noting(Controller[str]):
            async def reconcile(self, key: str) -> float | None:
                return await reconcile(key)

        controller = Noting("test", on_result=lambda result, _: results.append(result))
        running = asyncio.create_task(controller.run())
        controller.enqueue("a")
        await asyncio.sleep(100)
        controller.stop()
        await running
        assert times == pytest.approx([0, 30, 30.01])
        assert results == ["requeue_after", "error", "success"]

    run_virtual(main())


def test_a_key_that_comes_back_at_once_leaves_time_for_others() -> None:
    rounds = 0

    async def reconcile(key: str) -> None:
        nonlocal rounds
        rounds += 1
        if rounds < 1_000:
            controller.enqueue(key)

    controller = Worker("test", reconcile)

    async def scenario() -> None:
        controller.enqueue("a")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(controller.run())
            while not rounds:
                await asyncio.sleep(0)
            assert rounds == 1, "reconciled again before anyone else had a turn"
            controller.stop()

    run_virtual(scenario())
