"""Whose request is begun next, where one user sends more than can be answered at once."""

from __future__ import annotations

import asyncio
from collections import deque

AT_ONCE = 4
"""How many requests of one user begin in one turn of the event loop. One takes up to a millisecond of it, most of that
in one piece: so long does a user who asks seldom wait for each of these of somebody who asks without end."""


class FairQueue:
    """Lets requests begin, in each turn of the event loop at most `at_once` of each user's, in their order.

    Upstream: API Priority and Fairness, whose flows are users, too. Nothing is held while a request is under way, so
    that one which waits for others of the same user, as a webhook's, is never what those wait for.
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._begun: dict[str, int] = {}
        """Requests that began in this turn, by user. While there are any, `_next_turn` is under way."""
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def begins(self, user: str) -> bool:
        """Return whether one more request of `user` begins in this turn; if not, it is `turn` that it waits for."""
        if not self._begun:
            asyncio.get_running_loop().call_soon(self._next_turn)
        begun = self._begun.get(user, 0)
        if begun >= self._at_once:
            return False
        self._begun[user] = begun + 1
        return True

    async def turn(self, user: str) -> None:
        """Return when it is the turn of a request of `user` that does not begin at once."""
        mine = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(mine)
        await mine

    def _next_turn(self) -> None:
        self._begun = {}
        if self._waiting:
            self._begun = {
                user: begun for user, queue in self._waiting.items() if (begun := self._let(queue))
            }
            self._waiting = {user: queue for user, queue in self._waiting.items() if queue}
        if self._begun:
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _let(self, queue: deque[asyncio.Future[None]]) -> int:
        """Let the first few begin, and return how many; those whose client has gone do not count."""
        begun = 0
        while queue and begun < self._at_once:
            one = queue.popleft()
            if not one.done():
                one.set_result(None)
                begun += 1
        return begun
