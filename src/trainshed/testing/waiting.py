"""Waiting for something to happen elsewhere: every wait has a deadline and says what it waited for."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

T = TypeVar("T")

WAIT_SECONDS = 30.0
POLL_SECONDS = 0.05


def until(check: Callable[[], T], what: str, seconds: float = WAIT_SECONDS) -> T:
    """Return the first true value of `check`.

    Raises:
        AssertionError: it was not true within `seconds`; says `what` did not happen.
    """
    deadline = time.monotonic() + seconds
    while not (value := check()):
        assert time.monotonic() < deadline, f"after {seconds:g} s still not: {what}"
        time.sleep(POLL_SECONDS)
    return value


async def until_async(
    check: Callable[[], T | Awaitable[T]],
    what: str,
    seconds: float = WAIT_SECONDS,
    *,
    poll_seconds: float = POLL_SECONDS,
) -> T:
    """Return the first true value of `check`, which may be a coroutine function. Raises as `until`.

    Time is the event loop's, so that virtual time counts.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds
    while True:
        found = check()
        value = cast(T, await found if inspect.isawaitable(found) else found)
        if value:
            return value
        assert clock() < deadline, f"after {seconds:g} s still not: {what}"
        await asyncio.sleep(poll_seconds)
