"""What a container holds, counted process by process while these come and go."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from trainshed.cluster.sandbox.daemon import accounting

MIB = 1 << 20
LIMIT = 120 * MIB


class Processes:
    """Process 1 with its children, which all have the same `held` bytes.

    With each look at the share of one of them the next of `worlds` is which there are.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, held: int, worlds: Sequence[set[int]]) -> None:
        self._held = held
        self._worlds = list(worlds)
        self._now = self._worlds.pop(0)
        for name, fake in (("children", self.children), ("_memory", self.memory), ("_share", self.share)):
            monkeypatch.setattr(accounting, name, fake)

    def children(self, pid: int) -> set[int]:
        return self._now - {1} if pid == 1 else set()

    def memory(self, pid: int) -> tuple[int, int]:
        return self._held, 0

    def share(self, pid: int) -> tuple[int, int]:
        found = self._held // len(self._now) if pid in self._now else 0
        self._now = self._worlds.pop(0) if self._worlds else self._now
        return found, 0


ENDING = ({1, 2, 3, 4, 5}, {1, 3, 4, 5}, {1, 4, 5}, {1, 5}, {1, 5})
"""Each but the last ends just after it was looked at."""


@pytest.mark.parametrize(
    ("held", "worlds", "is_over"),
    [(100, [{1, 2, 3, 4, 5}], False), (100, ENDING, False), (250, ENDING, True)],
)
def test_who_ends_meanwhile_is_not_counted_twice(
    monkeypatch: pytest.MonkeyPatch, held: int, worlds: Sequence[set[int]], is_over: bool
) -> None:
    Processes(monkeypatch, held * MIB, worlds)
    monkeypatch.setattr(
        accounting, "descendants", lambda pids: sorted(accounting.children(1) | pids, key=_last)
    )
    found = accounting.held_bytes([1], LIMIT, 0)
    assert (found > LIMIT) is is_over
    assert found <= held * MIB


def _last(pid: int) -> tuple[bool, int]:
    """Sort process 1 behind its children."""
    return pid == 1, pid


def test_those_who_come_and_go_without_an_end_are_not_looked_at_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Processes(monkeypatch, 1000 * MIB, [{1, number} for number in range(2, 1000)])
    assert accounting.held_bytes([1], LIMIT, 0) > LIMIT


@pytest.mark.parametrize(
    ("mapped", "in_files", "held"),
    [(0, 80, 90), (80, 80, 90), (30, 80, 90), (80, 0, 90), (120, 50, 130), (0, 130, 140)],
)
def test_files_in_memory_count_once_whether_they_are_mapped_or_not(
    monkeypatch: pytest.MonkeyPatch, mapped: int, in_files: int, held: int
) -> None:
    for name in ("_memory", "_share"):
        monkeypatch.setattr(accounting, name, lambda pid: (10 * MIB, mapped * MIB))
    monkeypatch.setattr(accounting, "children", lambda pid: set())
    assert accounting.held_bytes([1], LIMIT, in_files * MIB) == held * MIB
