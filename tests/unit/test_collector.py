"""The collector of processes that stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from trainshed import _collector


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)
    gc.enable()


def test_nothing_is_collected_between_pause_and_settle_and_what_was_there_then_never_again() -> None:
    _collector.pause()
    assert not gc.isenabled()
    cycle: list[object] = []
    cycle.append(cycle)
    _collector.settle()
    assert gc.isenabled() and gc.get_threshold()[0] == _collector.COLLECT_EVERY
    assert gc.get_freeze_count() > 1000
    assert not any(found is cycle for found in gc.get_objects())
