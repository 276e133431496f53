"""Large objects keep others waiting as little as may be: what is asked of them often needs no decoding."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from trainshed.cluster.apiserver import http
from trainshed.cluster.apiserver.http import Bodies, Pieces
from trainshed.cluster.apiserver.kinds import Kinds
from trainshed.cluster.apiserver.selection import selection
from trainshed.cluster.apiserver.verbs.watch import joined
from trainshed.cluster.store import Store, Stored, writer
from trainshed.kube.meta.objects import Object
from trainshed.kube.served.registry import Registry
from trainshed.kube.wire.options import ListOptions

METADATA = {
    "name": "a",
    "namespace": "ns",
    "uid": "u",
    "resourceVersion": "7",
    "deletionTimestamp": "2026-01-01T00:00:00Z",
    "finalizers": ["foregroundDeletion"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "o"}],
}


def unread(metadata: object) -> Stored:
    """Return an object that is not decoded."""
    encoded = msgspec.json.encode({"apiVersion": "v1", "metadata": metadata, "data": {"k": "v"}})
    return Stored("/core/configmaps/ns/a", 7, 7, encoded)


def test_what_an_object_is_and_whose_is_found_without_decoding_it() -> None:
    stored = unread({**METADATA, "labels": {"a": "b"}, "managedFields": [{}]})
    assert stored.identity == {**METADATA, "labels": {"a": "b"}}
    assert stored._obj is None
    assert stored.obj["metadata"] is stored.identity, "once it is decoded there is nothing to look for"
    assert unread({"name": "a", "uid": "u"}).identity == {"name": "a", "uid": "u"}


def test_what_an_object_too_large_to_stay_decoded_is_does_not_have_to_be_found_again() -> None:
    metadata = {**METADATA, "labels": {"a": "b"}}
    obj: Object = {
        "apiVersion": "v1",
        "metadata": {**metadata, "managedFields": [{}]},
        "data": {"k": "v" * 100_000},
    }
    encoded = msgspec.json.encode(obj)
    for stored in (
        Stored("/core/configmaps/ns/a", 7, 7, encoded, obj),
        Stored("/core/configmaps/ns/a", 7, 7, encoded),
    ):
        found = stored.identity
        assert found == metadata
        assert stored.identity is found
        assert stored.labels == {"a": "b"}
        assert stored._obj is None


@pytest.mark.parametrize(
    ("selector", "selected"),
    [("metadata.name=a", True), ("metadata.name=b", False), ("metadata.namespace=ns,metadata.name!=b", True)],
)
def test_a_name_is_selected_without_decoding_the_object(selector: str, selected: bool) -> None:
    kind = Kinds(Registry()).get("", "v1", "configmaps")
    assert kind is not None
    stored = unread(METADATA)
    chosen = selection(kind, ListOptions(field_selector=selector))
    assert chosen.selects(stored) is selected
    assert stored._obj is None
    labelled = selection(kind, ListOptions(field_selector=selector, label_selector="a=b"))
    assert labelled.selects(stored) is False
    assert labelled.selects(unread({**METADATA, "labels": {"a": "b"}})) is selected


async def test_however_many_long_things_are_under_way_each_turn_of_the_loop_has_one_piece() -> None:
    bodies, pieces, turns = Bodies(), 0, 0

    async def long() -> None:
        nonlocal pieces
        for _ in range(10):
            await bodies.give_way()
            pieces += 1

    under_way = asyncio.gather(*(long() for _ in range(16)))
    while not under_way.done():
        before = pieces
        await asyncio.sleep(0)
        turns += 1
        assert pieces - before <= 1
    assert pieces == 160 and turns >= 160


@pytest.mark.parametrize("between", [b"", b",", b",{"])
@pytest.mark.parametrize("sizes", [[0], [1], [3, 3], [9, 1], [1, 9], [10, 10, 10], [4, 4, 4, 4, 4], [25]])
def test_a_text_in_pieces_is_the_text(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], between: bytes
) -> None:
    monkeypatch.setattr(http, "SENT_BYTES", 8)
    parts = [bytes([97 + number]) * size for number, size in enumerate(sizes)]
    pieces = Pieces([parts[0], *map(memoryview, parts[1:])], between)
    assert b"".join(pieces) == between.join(parts)
    assert pieces.length == len(between.join(parts))
    whole = Pieces.of(between.join(parts))
    assert b"".join(whole) == between.join(parts)
    assert all(len(piece) <= 8 for piece in whole) and all(list(whole)[1:])


def test_events_are_sent_together_as_long_as_they_are_short() -> None:
    short = [b"%d\n" % number for number in range(450)]
    assert [body.count(b"\n") for body in joined(short)] == [200, 200, 50]
    assert b"".join(joined(short)) == b"".join(short)
    long = [b"x" * 200_000] * 5
    assert [len(body) for body in joined(long)] == [400_000, 400_000, 200_000]
    assert list(joined([])) == []


async def test_small_objects_are_written_before_all_large_ones_but_one(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "store.db")
    large = {"metadata": {"uid": "u"}, "data": "x" * writer.LARGE_BYTES}
    small: Object = {"metadata": {"uid": "u"}}
    try:
        held = [await store.create(f"/core/configmaps/ns/held-{n}", large) for n in range(3)]
        before, commits = store.revision, store.commits
        updates = [store.update(stored.key, large, stored.revision) for stored in held]
        sized = [store.create(f"/core/configmaps/ns/sized-{n}", large, writer.LARGE_BYTES) for n in range(3)]
        later = [store.create(f"/core/configmaps/ns/small-{n}", small) for n in range(5)]
        written = await asyncio.gather(*updates, *sized, *later)
        commits = store.commits - commits
    finally:
        await store.close()
    assert [stored.revision - before for stored in written[6:]] == [1, 2, 3, 4, 5]
    assert sorted(stored.revision - before for stored in written[:6]) == [6, 7, 8, 9, 10, 11]
    assert commits == 7, "each large one by itself"
