"""Requests of one user who sends many begin in their order, and not before another's."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from trainshed.cluster.apiserver.fairqueue import FairQueue


class Crowd:
    """Requests that wait for their turns; `begun` has their names in the order in which they began."""

    def __init__(self, at_once: int) -> None:
        self.queue = FairQueue(at_once)
        self.begun: list[str] = []

    def ask(self, user: str, *numbers: int) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self._one(user, f"{user}{number}")) for number in numbers]

    async def _one(self, user: str, name: str) -> None:
        if not self.queue.begins(user):
            await self.queue.turn(user)
        self.begun.append(name)


def test_a_few_of_each_user_begin_in_a_turn_in_their_order() -> None:
    async def main() -> None:
        crowd = Crowd(2)
        asked = crowd.ask("a", *range(5)) + crowd.ask("b", 0)
        await asyncio.sleep(0)
        assert crowd.begun == ["a0", "a1", "b0"]
        await asyncio.gather(*asked)
        assert crowd.begun == ["a0", "a1", "b0", "a2", "a3", "a4"]

    asyncio.run(main())


def test_each_turn_lets_as_many_begin_and_none_fails() -> None:
    async def main() -> None:
        failures: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
        crowd = Crowd(3)
        asked = crowd.ask("a", *range(10))
        counts = [0]
        while counts[-1] < 10:
            await asyncio.sleep(0)
            counts.append(len(crowd.begun))
        await asyncio.gather(*asked)
        await asyncio.sleep(0)
        begun = [after - before for before, after in itertools.pairwise(counts) if after > before]
        assert (begun, failures) == ([3, 3, 3, 1], [])

    asyncio.run(main())


def test_who_comes_while_others_wait_begins_before_them_and_after_ones_own() -> None:
    async def main() -> None:
        crowd = Crowd(2)
        asked = crowd.ask("a", *range(100))
        for _ in range(10):
            await asyncio.sleep(0)
        before = len(crowd.begun)
        await asyncio.gather(*asked, *crowd.ask("b", 0), *crowd.ask("a", 100))
        assert crowd.begun.index("b0") - before <= 2 * 2, "those of one turn of the loop, or two"
        assert [name for name in crowd.begun if name != "b0"] == [f"a{number}" for number in range(101)]

    asyncio.run(main())


def test_who_has_gone_takes_nobodys_turn() -> None:
    async def main() -> None:
        crowd = Crowd(1)
        asked = crowd.ask("a", *range(4))
        await asyncio.sleep(0)
        asked[1].cancel()
        asked[2].cancel()
        await asyncio.wait(asked)
        assert crowd.begun == ["a0", "a3"]

    asyncio.run(main())


def test_a_user_who_was_quiet_begins_at_once_again() -> None:
    async def main() -> None:
        crowd = Crowd(2)
        await asyncio.gather(*crowd.ask("a", *range(7)))
        for _ in range(3):
            await asyncio.sleep(0)
        assert [crowd.queue.begins("a") for _ in range(3)] == [True, True, False]

    asyncio.run(main())
