"""Watches: every change once, in order, from where the client left off."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from tests.conformance.api.conftest import Api, config_map
from tests.conformance.api.test_objects import refused
from trainshed.client.watching import WatchEvent
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.resources import CONFIGMAPS

DEADLINE = 10.0


async def take(api: Api, count: int, **options: Any) -> list[WatchEvent]:
    """Return the next events of a watch on the ConfigMaps of `default`; fails after a deadline."""
    found: list[WatchEvent] = []
    try:
        async with (
            asyncio.timeout(DEADLINE),
            aclosing(api.client.watch(CONFIGMAPS, "default", **options)) as events,
        ):
            async for event in events:
                found.append(event)
                if len(found) == count:
                    break
    except TimeoutError:
        raise AssertionError(f"waited in vain for {count} events, got {said(found)}") from None
    return found


def said(events: list[WatchEvent]) -> list[tuple[str, str]]:
    """Return (type, name) of each event."""
    return [(event.type, event.object["metadata"].get("name", "")) for event in events]


async def version(api: Api) -> str:
    return (await api.client.list(CONFIGMAPS, "default")).resource_version


async def test_every_change_in_order_from_a_version_on(api: Api) -> None:
    await api.config_map("before")
    since = await version(api)
    made = await api.config_map("a", x="1")
    changed = await api.client.update(CONFIGMAPS, {**made, "data": {"x": "2"}})
    await api.config_map("a", "other")
    await api.client.delete(CONFIGMAPS, "a")
    last = await api.config_map("b")
    events = await take(api, 4, resource_version=since)
    assert said(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b")]
    assert [events[0].object, events[1].object, events[3].object] == [made, changed, last]
    assert events[2].object["data"] == {"x": "2"}, "the last state"
    versions = [int(event.resource_version) for event in events]
    assert versions == sorted(set(versions)) and versions[0] > int(since)
    resumed = await take(api, 2, resource_version=events[1].resource_version)
    assert said(resumed) == [("DELETED", "a"), ("ADDED", "b")]


async def test_changes_while_watching(api: Api) -> None:
    since = await version(api)
    watching = asyncio.create_task(take(api, 2, resource_version=since))
    await asyncio.sleep(0)
    await api.config_map("a")
    await api.client.delete(CONFIGMAPS, "a")
    assert said(await watching) == [("ADDED", "a"), ("DELETED", "a")]


async def test_without_a_version_it_begins_with_what_there_is(api: Api) -> None:
    for name in ("a", "b"):
        await api.config_map(name)
    assert said(await take(api, 2)) == [("ADDED", "a"), ("ADDED", "b")]


async def test_what_enters_a_selection_is_added_and_what_leaves_it_deleted(api: Api) -> None:
    since = await version(api)
    obj = config_map("a")
    for labels in ({"l": "no"}, {"l": "yes"}, {"l": "yes", "m": "1"}, {"l": "no"}, {"l": "yes"}):
        obj["metadata"]["labels"] = labels
        if labels == {"l": "no"} and "resourceVersion" not in obj["metadata"]:
            obj = await api.client.create(CONFIGMAPS, obj)
        else:
            obj = await api.client.update(CONFIGMAPS, obj)
    await api.client.delete(CONFIGMAPS, "a")
    events = await take(api, 5, resource_version=since, label_selector="l=yes")
    assert [kind for kind, _ in said(events)] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]


async def test_a_write_that_changes_nothing_is_no_event(api: Api) -> None:
    made = await api.config_map("a", x="1")
    since = made["metadata"]["resourceVersion"]
    await api.client.update(CONFIGMAPS, made)
    await api.config_map("b")
    assert said(await take(api, 1, resource_version=since)) == [("ADDED", "b")]


async def test_a_forgotten_version_is_410(api: Api) -> None:
    first = await api.config_map("a")
    await api.config_map("b")
    await api.forget()
    with pytest.raises(ApiError) as caught:
        await take(api, 1, resource_version=first["metadata"]["resourceVersion"])
    assert (caught.value.code, caught.value.reason) == (410, "Expired")


async def test_a_bookmark_says_how_far_a_quiet_watch_has_seen(api: Api) -> None:
    since = await version(api)
    other = await api.config_map("elsewhere", "other")
    events, without = await asyncio.gather(
        *(
            take(api, 2, resource_version=since, timeout_seconds=1, bookmarks=wanted)
            for wanted in (True, False)
        )
    )
    assert [event.type for event in events] == ["BOOKMARK"], "and the server closed the watch in time"
    assert events[0].resource_version == other["metadata"]["resourceVersion"]
    assert without == []


async def test_finalizers_show_each_step_of_a_deletion(api: Api) -> None:
    obj = config_map("a")
    obj["metadata"]["finalizers"] = ["example.com/one"]
    made = await api.client.create(CONFIGMAPS, obj)
    await api.client.delete(CONFIGMAPS, "a")
    await api.client.patch(CONFIGMAPS, "a", None, {"metadata": {"finalizers": None}})
    events = await take(api, 2, resource_version=made["metadata"]["resourceVersion"])
    assert [event.type for event in events] == ["MODIFIED", "DELETED"]
    assert all(event.object["metadata"]["deletionTimestamp"] for event in events)
    assert await refused(api.client.get(CONFIGMAPS, "a")) == (404, "NotFound")
