"""Asynchronous code called by code that waits, from any thread and inside a running loop."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncGenerator

import pytest

from trainshed.sdk.portal import portal


async def double(value: int) -> int:
    await asyncio.sleep(0)
    return 2 * value


class Counter:
    """Counts up for ever, and knows when it was closed."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    async def numbers(self) -> AsyncGenerator[int, None]:
        try:
            number = 0
            while True:
                yield number
                number += 1
        finally:
            self.closed.set()


def test_a_call_returns_what_the_coroutine_returns() -> None:
    assert portal().call(double(21)) == 42


async def test_inside_a_running_loop() -> None:
    assert portal().call(double(21)) == 42


def test_a_call_raises_what_the_coroutine_raises() -> None:
    async def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        portal().call(fail())


def test_the_generator_ends_and_hands_over_in_order() -> None:
    async def three() -> AsyncGenerator[int, None]:
        for number in range(3):
            yield number

    assert list(portal().iterate(three())) == [0, 1, 2]


def test_a_caller_that_stops_early_closes_the_generator() -> None:
    counter = Counter()
    for number in portal().iterate(counter.numbers()):
        if number == 3:
            break
    assert counter.closed.wait(5), "the generator was not closed within 5 s"


def test_an_error_between_items_reaches_the_caller() -> None:
    async def broken() -> AsyncGenerator[int, None]:
        yield 1
        raise ValueError("later")

    items = portal().iterate(broken())
    assert next(items) == 1
    with pytest.raises(ValueError, match="later"):
        next(items)


def test_an_interrupted_wait_cancels_the_work() -> None:
    started, cancelled = threading.Event(), threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    async def forever() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def interrupt() -> None:
        assert started.wait(5), "the coroutine did not start within 5 s"
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        portal().call(forever())
    assert cancelled.wait(5), "the coroutine was not cancelled within 5 s"


def test_an_interrupted_wait_for_the_next_item_closes_the_generator() -> None:
    """The interrupt is what the caller sees, not that the generator was still running."""
    started = threading.Event()
    closed = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    async def silent() -> AsyncGenerator[int, None]:
        started.set()
        try:
            await asyncio.Event().wait()
            yield 1
        finally:
            await asyncio.sleep(0.01)
            closed.set()

    def interrupt() -> None:
        assert started.wait(5), "the generator did not start within 5 s"
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        next(portal().iterate(silent()))
    assert closed.is_set()


def test_what_is_collected_in_the_loops_own_thread_is_cleaned_up_there() -> None:
    cleaned = threading.Event()

    async def clean() -> None:
        cleaned.set()

    async def collect() -> None:
        portal().finish(clean())

    portal().call(collect())
    assert cleaned.wait(5), "not cleaned up within 5 s"
