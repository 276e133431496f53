"""Tables give room back once they are nearly empty, keep what is in them and its order, and are seldom made anew."""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import Any

import pytest

from trainshed.kube.meta.sparse import ROOM_BYTES, give_back

MANY = 10_000


@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_a_table_that_was_full_gives_its_room_back(kind: type[dict[Any, Any]]) -> None:
    table = kind((f"k{n}", n) for n in range(MANY))
    full = sys.getsizeof(table)
    for number in range(MANY - 10):
        del table[f"k{number}"]
        give_back(table)
    assert sys.getsizeof(table) <= ROOM_BYTES < full
    assert list(table.items()) == [(f"k{n}", n) for n in range(MANY - 10, MANY)]


def test_a_set_that_was_full_gives_its_room_back() -> None:
    table = set(range(MANY))
    for number in range(MANY):
        table.discard(number)
        give_back(table)
    assert sys.getsizeof(table) <= ROOM_BYTES
    assert table == set()


def test_a_table_is_made_anew_only_when_most_of_it_is_gone() -> None:
    table, sizes = {n: n for n in range(MANY)}, set()
    for number in range(MANY):
        sizes.add(sys.getsizeof(table))
        del table[number]
        give_back(table)
    assert len(sizes) <= 6, "each is half of the one before"


def test_a_small_table_is_left_alone() -> None:
    table = {n: n for n in range(500)}
    size = sys.getsizeof(table)
    for number in range(499):
        del table[number]
        give_back(table)
    assert sys.getsizeof(table) == size
