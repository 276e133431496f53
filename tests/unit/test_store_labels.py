"""Lists by label look at few objects, and find each that has the label, whatever was written before."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.cluster.store import ADDED, DELETED, MODIFIED, Stored, StoreEvent
from trainshed.cluster.store import index as module
from trainshed.cluster.store.index import INDEXED_FROM, INDEXED_LABELS, Index, Values
from trainshed.kube.wire.body import decode_value

LABELS = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("xyz"), max_size=3) | st.none()
KEYS = [f"/core/pods/{namespace}/{name}" for namespace in ("one", "two") for name in "klm"]
WRITES = st.tuples(st.sampled_from(KEYS), LABELS | st.just("deleted"))
ASKED = st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from("xyz")), max_size=2)


class Kept:
    """An index, and what was put into it."""

    def __init__(self) -> None:
        self.index, self.revision = Index(), 0

    def put(self, key: str, labels: object) -> None:
        self.revision += 1
        old = self.index.get(key)
        if labels == "deleted":
            if old is not None:
                self.index.apply(StoreEvent(DELETED, Stored(key, self.revision, 1, old.encoded), old))
            return
        encoded = b'{"metadata":{"labels":%s}}' % (b"null" if labels is None else _json(labels))
        stored = Stored(key, self.revision, 1, encoded, decode_value(encoded))
        self.index.apply(StoreEvent(ADDED if old is None else MODIFIED, stored, old))


def _json(labels: object) -> bytes:
    return str(labels).replace("'", '"').encode()


def asked(index: Index, prefix: str, wanted: Values) -> list[Stored]:
    asyncio.run(index.prepare(prefix, wanted))
    return index.labelled(prefix, wanted)


def having(found: list[Stored], wanted: dict[str, set[str]]) -> list[str]:
    return [s.key for s in found if all((s.labels or {}).get(k) in values for k, values in wanted.items())]


@given(st.lists(WRITES | ASKED, max_size=30), st.sampled_from(["/core/pods/", "/core/pods/one/"]))
def test_a_list_by_labels_finds_what_looking_at_all_finds(steps: list[object], prefix: str) -> None:
    kept = Kept()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "INDEXED_FROM", 0)
        patch.setattr(module, "INDEXED_LABELS", 2)
        for step in steps:
            if isinstance(step, tuple):
                kept.put(*step)
            else:
                assert isinstance(step, dict)
                found = asked(kept.index, prefix, step)
                assert having(found, step) == having(kept.index.list(prefix), step)


def test_a_label_that_few_have_leaves_few_to_look_at() -> None:
    kept = Kept()
    for number in range(1000):
        kept.put(f"/core/pods/ns/p{number:03}", {"part": str(number % 100), "app": "x"})
    first = asked(kept.index, "/core/pods/ns/", {"part": ["7"]})
    assert [s.key[-3:] for s in first] == [f"{hundred}07" for hundred in range(10)]
    kept.put("/core/pods/ns/p107", {"part": "8"})
    kept.put("/core/pods/ns/p207", "deleted")
    kept.put("/core/pods/ns/q", {"part": "7"})
    found = asked(kept.index, "/core/pods/ns/", {"part": ["7"], "other": ["y"]})
    assert [s.key[-3:] for s in found] == [f"{hundred}07" for hundred in (0, 3, 4, 5, 6, 7, 8, 9)] + ["s/q"]


def test_only_the_labels_asked_for_last_are_indexed() -> None:
    kept = Kept()
    for number in range(INDEXED_FROM):
        kept.put(f"/core/pods/ns/p{number}", {"a": "1"})
    for label in "abcdefgh":
        asked(kept.index, "/core/pods/", {label: ["1"]})
    (bucket,) = kept.index._buckets.values()
    assert list(bucket.by_label) == list("abcdefgh")[-INDEXED_LABELS:]


async def test_what_is_written_while_an_index_is_made_is_in_it() -> None:
    kept = Kept()
    for number in range(2_000):
        kept.put(f"/core/pods/ns/p{number:04}", {"part": str(number % 2)})
    making = asyncio.create_task(kept.index.prepare("/core/pods/", {"part": ["1"]}))
    await asyncio.sleep(0)  # the first part has been looked at
    assert kept.index.labelled("/core/pods/", {"part": ["1"]}) == kept.index.list("/core/pods/")
    for number in (1, 1_999):
        kept.put(f"/core/pods/ns/p{number:04}", {"part": "0"})
    for number in (3, 1_997):
        kept.put(f"/core/pods/ns/p{number:04}", "deleted")
    for name in ("a", "p0000", "p1998", "z"):
        kept.put(f"/core/pods/ns/{name}", {"part": "1"})
    await making
    found = kept.index.labelled("/core/pods/", {"part": ["1"]})
    assert [s.key for s in found] == having(kept.index.list("/core/pods/"), {"part": {"1"}})
    assert len(found) == 1_000
