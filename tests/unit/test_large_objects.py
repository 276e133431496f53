"""Large objects keep others waiting as little as may be: what is asked of them often needs no decoding."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from trainshed.cluster.apiserver import http
from trainshed.cluster.apiserver.http import Bodies, Pieces
from trainshed.cluster.apiserver.kinds import Kinds
from trainshed.cluster.apiserver.selection import selection
from trainshed.cluster.apiserver.verbs.watch import joined
from trainshed.cluster.store import Stored
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
    assert stored.identity == METADATA
    assert stored._obj is None
    assert stored.obj["metadata"] is stored.identity, "once it is decoded there is nothing to look for"
    assert unread({"name": "a", "uid": "u"}).identity == {"name": "a", "uid": "u"}


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
