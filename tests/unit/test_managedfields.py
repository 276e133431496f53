"""managedFields of creates, updates and patches: who owns what, and what clients may do to the entries."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.kube.patch import fieldset
from trainshed.kube.patch.managedfields import entries_of, same_but_times, track_update
from trainshed.kube.schema.nodes import builtin

CONFIGMAP = builtin(("", "v1", "ConfigMap"))
POD = builtin(("", "v1", "Pod"))

T0, T1, T2 = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"


def configmap(managed: Any = None, **data: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "cm", "namespace": "default"}
    if managed is not None:
        metadata["managedFields"] = managed
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def update(old: Any, new: Any, manager: str, now: str = T1, subresource: str = "") -> dict[str, Any]:
    before = copy.deepcopy((old, new))
    result = track_update(old, new, CONFIGMAP, manager=manager, subresource=subresource, now=now)
    assert (old, new) == before, "arguments were changed"
    return result


def changed_to(live: Any, **data: str) -> dict[str, Any]:
    return {**live, "data": data}


def owners(obj: Any) -> dict[str, list[str]]:
    return {e["manager"]: list(fieldset.paths(e["fieldsV1"])) for e in entries_of(obj)}


def test_create_owns_everything() -> None:
    created = update(None, configmap(a="1"), "kubectl-create", T0)
    assert created["metadata"]["managedFields"] == [
        {
            "manager": "kubectl-create",
            "operation": "Update",
            "apiVersion": "v1",
            "time": T0,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:a": {}}},
        }
    ]


def test_update_takes_what_it_changes() -> None:
    live = update(None, configmap(a="1", b="2"), "one", T0)
    after = update(live, changed_to(live, a="9", b="2", c="3"), "two")
    assert owners(after) == {"one": [".data", ".data.b"], "two": [".data.a", ".data.c"]}
    times = {e["manager"]: e["time"] for e in entries_of(after)}
    assert times == {"one": T0, "two": T1}


def test_removed_fields_and_empty_entries_vanish() -> None:
    live = update(None, configmap(a="1"), "one", T0)
    live = update(live, changed_to(live, a="1", b="2"), "two", T1)
    after = update(live, changed_to(live, a="1"), "three", T2)
    assert owners(after) == {"one": [".data", ".data.a"]}


def test_an_update_that_changes_nothing_keeps_the_entries() -> None:
    live = update(None, configmap(a="1"), "one", T0)
    assert update(live, copy.deepcopy(live), "two", T1) == live
    without = {**live, "metadata": {k: v for k, v in live["metadata"].items() if k != "managedFields"}}
    assert update(live, without, "two", T1) == live


def test_subresources_have_their_own_entries() -> None:
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n"},
    }
    live = track_update(None, pod, POD, manager="m", subresource="", now=T0)
    after = track_update(
        live, {**live, "status": {"phase": "Running"}}, POD, manager="m", subresource="status", now=T1
    )
    assert [(e.get("subresource"), e["fieldsV1"]) for e in entries_of(after)] == [
        (None, {"f:spec": {"f:nodeName": {}}}),
        ("status", {"f:status": {"f:phase": {}}}),
    ]


def test_clients_may_replace_the_entries() -> None:
    live = update(None, configmap(a="1"), "kubectl-client-side-apply", T0)
    entry = {**entries_of(live)[0], "manager": "kubectl", "operation": "Apply"}
    sent = {**live, "metadata": {**live["metadata"], "managedFields": [entry]}}
    assert update(live, sent, "kubectl")["metadata"]["managedFields"] == [entry]


@pytest.mark.parametrize("sent", [[], [{}]])
def test_clearing_stops_tracking_until_the_next_apply(sent: Any) -> None:
    live = update(None, configmap(a="1"), "one", T0)
    cleared = update(live, {**live, "metadata": {**live["metadata"], "managedFields": sent}}, "one")
    assert "managedFields" not in cleared["metadata"]
    assert "managedFields" not in update(cleared, changed_to(cleared, a="2"), "two", T2)["metadata"]


@pytest.mark.parametrize(
    "sent", [None, "x", [1], [{"manager": "m"}], [{"manager": "m", "operation": "Apply", "fieldsV1": 1}]]
)
def test_unreadable_entries_are_ignored(sent: Any) -> None:
    live = update(None, configmap(a="1"), "one", T0)
    damaged = {**live, "metadata": {**live["metadata"], "managedFields": sent}}
    assert update(live, damaged, "one") == live


def test_entries_sent_through_a_subresource_are_ignored() -> None:
    live = update(None, configmap(a="1"), "one", T0)
    sent = {**live, "metadata": {**live["metadata"], "managedFields": [{}]}}
    assert update(live, sent, "one", subresource="status") == live


def test_update_entries_are_capped() -> None:
    live = update(None, configmap(a="0"), "m0", T0)
    for i in range(1, 15):
        data = {**live["data"], f"k{i:02}": "x"}
        live = update(live, {**live, "data": data}, f"m{i:02}", f"2026-01-01T00:01:{i:02}Z")
    entries = entries_of(live)
    assert len(entries) == 10
    assert entries[0]["manager"] == "ancient-changes"
    owned = [path for paths in owners(live).values() for path in paths]
    assert sorted(owned) == sorted([".data", ".data.a", *(f".data.k{i:02}" for i in range(1, 15))])


def test_same_but_times() -> None:
    live = update(None, configmap(a="1"), "one", T0)
    later = copy.deepcopy(live)
    later["metadata"]["managedFields"][0]["time"] = T2
    assert same_but_times(live, later)
    assert not same_but_times(live, changed_to(live, a="2"))
    assert not same_but_times({"spec": {"x": 1}}, {"spec": {"x": True}})


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["one", "two", "three"]),
            st.dictionaries(st.sampled_from("abcd"), st.sampled_from("12"), max_size=4),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_every_value_has_exactly_one_owner_and_nobody_owns_what_is_gone(
    writes: list[tuple[str, dict[str, str]]],
) -> None:
    """Without applies, ownership is never shared: the last one to change a value owns it."""
    live: dict[str, Any] | None = None
    last: dict[str, str] = {}
    for manager, data in writes:
        before = live["data"] if live else {}
        for key, value in data.items():
            if before.get(key) != value:
                last[key] = manager
        new = configmap(**data) if live is None else changed_to(live, **data)
        live = update(live, new, manager)
    assert live is not None
    owned = [(path, manager) for manager, paths in owners(live).items() for path in paths if path != ".data"]
    assert sorted(owned) == sorted((f".data.{key}", last[key]) for key in live["data"])
