"""Many similar writes at once, carefully."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 16
"""Requests in flight for one key."""


async def slow_start(
    items: Sequence[T],
    write: Callable[[T], Awaitable[R]],
    told: Callable[[T, R | BaseException], None] | None = None,
) -> None:
    """Write 1, then 2, then 4 … up to `AT_ONCE` items together; stop after a batch with a failure.

    One bad template or full quota then costs one refused request, not thousands (as in the Job controller of
    Kubernetes). `told` hears of each item and its outcome, in the order of the items.

    Raises:
        Exception: the first failure, after its batch has ended.
    """
    start, size = 0, 1
    while start < len(items):
        batch = items[start : start + size]
        outcomes = await asyncio.gather(*(write(item) for item in batch), return_exceptions=True)
        if told is not None:
            for item, outcome in zip(batch, outcomes, strict=True):
                told(item, outcome)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        start += size
        size = min(size * 2, AT_ONCE)


async def all_of(items: Sequence[T], write: Callable[[T], Awaitable[object]]) -> list[Exception]:
    """Write every item, `AT_ONCE` at a time; return what failed."""
    failures: list[Exception] = []
    for start in range(0, len(items), AT_ONCE):
        batch = items[start : start + AT_ONCE]
        for outcome in await asyncio.gather(*(write(item) for item in batch), return_exceptions=True):
            if isinstance(outcome, Exception):
                failures.append(outcome)
            elif isinstance(outcome, BaseException):
                raise outcome
    return failures
