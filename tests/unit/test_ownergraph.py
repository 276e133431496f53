"""Who owns whom: what has to be looked at again after each event, and what an old graph must not vouch for."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from trainshed.client.client import Client
from trainshed.cluster.controllers import ownergraph
from trainshed.cluster.controllers.garbage import GarbageCollector
from trainshed.cluster.controllers.ownergraph import OwnerGraph
from trainshed.cluster.controllers.storedobjects import ServedKinds
from trainshed.cluster.store import Store, Stored


def make(name: str, *owners: str, uid: str = "") -> Any:
    references = [{"apiVersion": "v1", "kind": "ConfigMap", "name": o, "uid": f"uid-{o}"} for o in owners]
    metadata = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}", "ownerReferences": references}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def stored(name: str, *owners: str) -> Stored:
    return Stored(f"/core/configmaps/ns/{name}", 1, 1, b"", make(name, *owners))


def key(name: str) -> str:
    return f"/core/configmaps/ns/{name}"


def test_an_owner_that_goes_touches_its_dependents() -> None:
    graph = OwnerGraph()
    assert graph.seen(stored("a")) == set()
    assert graph.seen(stored("child", "a")) == {key("child")}
    assert graph.seen(stored("child", "a")) == set(), "nothing about its owners has changed"
    assert graph.dependents("uid-a") == [key("child")]
    assert graph.gone(stored("a")) == {key("child")}
    assert graph.is_gone("uid-a") and graph.key("uid-a") is None


def test_a_dependent_that_goes_or_is_let_go_touches_its_owner() -> None:
    graph = OwnerGraph()
    for each in (stored("a"), stored("b"), stored("child", "a", "b")):
        graph.seen(each)
    assert graph.seen(stored("child", "b")) == {key("child"), key("a")}
    assert graph.gone(stored("child", "b")) == {key("b")}
    assert graph.dependents("uid-b") == []


def test_of_objects_that_owned_nothing_fewer_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownergraph, "REMEMBERED", 2)
    monkeypatch.setattr(ownergraph, "REMEMBERED_ALONE", 1)
    graph = OwnerGraph()
    for name in ("a", "b", "c"):
        graph.seen(stored(name))
        graph.seen(stored(f"child-{name}", name))
    for name in ("a", "b", "c"):
        graph.gone(stored(name))
        graph.gone(stored(f"child-{name}", name))
    gone = [name for name in ("a", "b", "c", "child-a", "child-b", "child-c") if graph.is_gone(f"uid-{name}")]
    assert gone == ["b", "c", "child-c"]


async def test_a_name_taken_again_does_not_vouch_for_the_owner_before(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "store.db")
    collector = GarbageCollector(cast("Client", None), store)
    first = await store.create(key("a"), make("a"))
    collector._graph.seen(first)
    reference = make("child", "a")["metadata"]["ownerReferences"][0]
    assert collector._state(reference, "ns", ServedKinds(store)) == "present"
    await store.delete(key("a"), first.revision)
    await store.create(key("a"), make("a", uid="another"))
    assert collector._state(reference, "ns", ServedKinds(store)) == "absent", (
        "although the deletion has not been read yet"
    )
    await store.close()
