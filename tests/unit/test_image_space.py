"""Which images go when they take more than they may."""

from __future__ import annotations

import pytest

from trainshed.cluster.images.store.space import Item, Space, first_to_go

SIZES = {"base": 100, "a": 10, "b": 20, "c": 40}


def item(name: str, parts: str, used_at: float, kept: str = "") -> Item:
    return Item(name, frozenset(parts.split()), used_at, kept)


@pytest.mark.parametrize(
    ("used", "excess"),
    [(0, 0), (849, 0), (850, 50), (1000, 200), (3000, 2200)],
)
def test_nothing_goes_below_the_high_threshold_and_then_what_is_above_the_low_one(used, excess):
    assert Space().excess(used, 1000) == excess
    assert Space().excess(used, 0) == 0


@pytest.mark.parametrize(
    ("items", "excess", "names", "freed"),
    [
        pytest.param([item("old", "a", 1), item("new", "b", 2)], 5, ["old"], 10, id="oldest-first"),
        pytest.param([item("old", "a", 1), item("new", "b", 2)], 11, ["old", "new"], 30, id="as-many-as-needed"),
        pytest.param([item("old", "a", 1, "pinned"), item("new", "b", 2)], 11, ["new"], 20, id="kept-ones-stay"),
        pytest.param([item("old", "a", 1), item("recent", "b", 99)], 30, ["old"], 10, id="recent-ones-stay"),
        pytest.param(
            [item("base", "base", 1), item("derived", "base c", 2, "made here")], 100, [], 0,
            id="what-frees-nothing-stays",
        ),
        pytest.param(
            [item("base", "base", 1), item("derived", "base c", 2)], 1, ["base", "derived"], 140,
            id="shared-parts-count-with-the-last-that-has-them",
        ),
        pytest.param([item("base", "base", 1), item("step", "base a", 2)], 0, [], 0, id="nothing-wanted"),
    ],
)  # fmt: skip
def test_what_goes_first(items, excess, names, freed):
    chosen = first_to_go(items, SIZES, excess, before=50)
    assert ([each.name for each in chosen.items], chosen.bytes) == (names, freed)
