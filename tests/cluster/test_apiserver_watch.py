"""Lists and watches: rows 144-148 of the conformance list, and the table of watch behaviour."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.cluster.api_world import MERGE, World, config_map, open_world, pod, types
from trainshed.cluster.apiserver.verbs import watch as watch_module

CMS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def test_list_then_watch_is_seamless_under_concurrent_writes(world: World) -> None:
    """Row 144: every one of 1 000 writes arrives once, in order of revisions."""
    writes = [asyncio.ensure_future(world.ok("POST", CMS, config_map(f"c{i}"))) for i in range(1000)]
    await writes[100]
    listed = await world.ok("GET", CMS)
    names = {item["metadata"]["name"] for item in listed["items"]}
    async with world.lines(CMS, resourceVersion=listed["metadata"]["resourceVersion"]) as lines:
        events = await lines.take(1000 - len(names))
    await asyncio.gather(*writes)
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert not names & {event["object"]["metadata"]["name"] for event in events}
    assert all(event["object"]["kind"] == "ConfigMap" for event in events)


async def test_a_watch_without_version_starts_with_what_is_there(world: World) -> None:
    await world.ok("POST", CMS, config_map("a"))
    for version in ("", "0"):
        async with world.lines(CMS, resourceVersion=version) as lines:
            assert types(await lines.take(1)) == [("ADDED", "a")]


async def test_selectors_turn_changes_into_entering_and_leaving(world: World) -> None:
    """Row 145."""
    listed = await world.ok("GET", CMS)
    since = listed["metadata"]["resourceVersion"]
    await world.ok("POST", CMS, config_map("a"))
    on, off = ({"metadata": {"labels": {"x": value}}} for value in ("y", None))
    await world.ok("PATCH", f"{CMS}/a", on, content_type=MERGE)
    await world.ok("PATCH", f"{CMS}/a", {"data": {"k": "v"}}, content_type=MERGE)
    left = await world.ok("PATCH", f"{CMS}/a", off, content_type=MERGE)
    await world.ok("PATCH", f"{CMS}/a", {"data": {"k": "w"}}, content_type=MERGE)
    await world.ok("PATCH", f"{CMS}/a", on, content_type=MERGE)
    await world.ok("DELETE", f"{CMS}/a")
    async with world.lines(CMS, resourceVersion=since, labelSelector="x=y") as lines:
        events = await lines.take(5)
    assert [e["type"] for e in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    assert events[2]["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]
    async with world.lines(CMS, resourceVersion=since, fieldSelector="metadata.name=b") as lines:
        await world.ok("POST", CMS, config_map("b"))
        assert types(await lines.take(1)) == [("ADDED", "b")]


async def test_an_old_version_ends_the_watch_with_410(tmp_path: Path) -> None:
    """Row 146."""
    async with open_world(tmp_path, retain=30) as world:
        for i in range(20):
            await world.ok("POST", CMS, config_map(f"c{i}"))
        page = await world.ok("GET", CMS, limit="5")
        for i in range(40):
            await world.ok("PATCH", f"{CMS}/c1", {"data": {"i": str(i)}}, content_type=MERGE)
        async with world.lines(CMS, resourceVersion="1") as lines:
            event = await lines.next()
            assert (event["type"], event["object"]["code"], event["object"]["reason"]) == (
                "ERROR",
                410,
                "Expired",
            )
            assert await lines.next() is None
        token = page["metadata"]["continue"]
        expired = await world.refused(410, "GET", CMS, limit="5", **{"continue": token})
        rest = await world.ok("GET", CMS, **{"continue": expired["metadata"]["continue"]})
        assert len(rest["items"]) == 15, "the token of the error goes on in the present"


async def test_pages_are_one_snapshot(world: World) -> None:
    for i in range(7):
        await world.ok("POST", CMS, config_map(f"c{i}"))
    first = await world.ok("GET", CMS, limit="3")
    assert first["metadata"]["remainingItemCount"] == 4
    await world.ok("DELETE", f"{CMS}/c4")
    await world.ok("POST", CMS, config_map("c3a"))
    names, token = [i["metadata"]["name"] for i in first["items"]], first["metadata"]["continue"]
    while token:
        page = await world.ok("GET", CMS, limit="3", **{"continue": token})
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        names += [i["metadata"]["name"] for i in page["items"]]
        token = page["metadata"].get("continue")
    assert names == [f"c{i}" for i in range(7)]
    selected = await world.ok("GET", CMS, limit="1", labelSelector="!x")
    assert "remainingItemCount" not in selected["metadata"]
    await world.refused(400, "GET", CMS, **{"continue": "garbage"})
    await world.refused(400, "GET", CMS, limit="x")
    assert len((await world.ok("GET", CMS, limit="-1"))["items"]) == 7


async def test_versions_of_lists(world: World) -> None:
    await world.ok("POST", CMS, config_map("a"))
    at = (await world.ok("GET", CMS))["metadata"]["resourceVersion"]
    await world.ok("POST", CMS, config_map("b"))
    exact = await world.ok("GET", CMS, resourceVersion=at, resourceVersionMatch="Exact")
    assert [i["metadata"]["name"] for i in exact["items"]] == ["a"]
    assert len((await world.ok("GET", CMS, resourceVersion="0"))["items"]) == 2
    error = await world.refused(504, "GET", CMS, resourceVersion="999999")
    assert error["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    await world.refused(400, "GET", CMS, resourceVersion="x")
    await world.refused(422, "GET", CMS, resourceVersionMatch="Exact")
    await world.refused(422, "GET", CMS, resourceVersion=at, resourceVersionMatch="Sideways")
    empty = await world.ok("GET", "/api/v1/namespaces/nowhere/configmaps")
    assert empty["items"] == []
    assert int(empty["metadata"]["resourceVersion"]) > 0


async def test_initial_events(world: World) -> None:
    """Row 147: what client-go 1.35 and later start with."""
    await world.ok("POST", CMS, config_map("a"))
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    async with world.lines(CMS, **query) as lines:
        added, end = await lines.take(2)
        assert added["type"] == "ADDED"
        assert end["type"] == "BOOKMARK"
        assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert end["object"]["metadata"]["resourceVersion"] == str(world.store.revision)
        await world.ok("POST", CMS, config_map("b"))
        assert types([await lines.next()]) == [("ADDED", "b")]
    accept = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
    async with world.lines(CMS, accept=accept, **query) as lines:
        assert (await lines.next())["object"]["kind"] == "ConfigMap", "no table"
    await world.refused(422, "GET", CMS, watch="1", sendInitialEvents="true")
    error = await world.refused(422, "GET", CMS, watch="1", resourceVersionMatch="Exact")
    assert [cause["reason"] for cause in error["details"]["causes"]] == [
        "FieldValueForbidden",
        "FieldValueNotSupported",
    ]
    del query["allowWatchBookmarks"]
    error = await world.refused(422, "GET", CMS, **query)
    assert [cause["field"] for cause in error["details"]["causes"]] == [
        "resourceVersionMatch",
        "sendInitialEvents",
    ]


async def test_bookmarks_only_when_asked_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 148, with a minute made short."""
    monkeypatch.setattr(watch_module, "BOOKMARK_SECONDS", 0.05)
    since = str(world.store.revision)
    async with world.lines(CMS, resourceVersion=since, timeoutSeconds="1", allowWatchBookmarks="1") as lines:
        event = await lines.next()
        assert event["type"] == "BOOKMARK"
        assert set(event["object"]) == {"kind", "apiVersion", "metadata"}
        assert set(event["object"]["metadata"]) == {"resourceVersion", "creationTimestamp"}
    forms = {"PartialObjectMetadata": ["metadata"], "Table": ["columnDefinitions", "metadata", "rows"]}
    for form, fields in forms.items():
        query = {"resourceVersion": since, "timeoutSeconds": "1", "allowWatchBookmarks": "1"}
        accept = f"application/json;as={form};g=meta.k8s.io;v=v1"
        async with world.lines(CMS, accept=accept, **query) as lines:
            event = await lines.next()
            assert (event["type"], event["object"]["kind"]) == ("BOOKMARK", form)
            assert sorted(set(event["object"]) - {"kind", "apiVersion"}) == fields
            assert event["object"]["metadata"]["resourceVersion"] == since
    async with world.lines(CMS, resourceVersion=since, timeoutSeconds="1") as lines:
        assert await lines.next() is None, "closed after a second, and nothing before"


async def test_tables(world: World) -> None:
    await world.ok("POST", CMS, config_map("a", k="v"))
    table = await world.ok("GET", CMS, accept=TABLE)
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert table["columnDefinitions"][0]["format"] == "name"
    assert table["rows"][0]["cells"] == ["a", 1, "0s"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    one = await world.ok("GET", f"{CMS}/a", accept=TABLE, includeObject="Object")
    assert one["rows"][0]["object"]["data"] == {"k": "v"}
    async with world.lines(CMS, accept=TABLE) as lines:
        first = await lines.next()
        await world.ok("POST", CMS, config_map("b"))
        second = await lines.next()
    assert first["object"]["columnDefinitions"]
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][0] == "b"


async def test_metadata_only(world: World) -> None:
    await world.ok("POST", CMS, config_map("a", k="v"))
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    listed = await world.ok("GET", CMS, accept=accept)
    assert listed["kind"] == "PartialObjectMetadataList"
    assert set(listed["items"][0]) == {"kind", "apiVersion", "metadata"}
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    async with world.lines(CMS, accept=accept) as lines:
        event = await lines.next()
    assert event["object"]["kind"] == "PartialObjectMetadata"


async def test_deletion_is_seen_in_steps(world: World) -> None:
    body = config_map("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    made = await world.ok("POST", CMS, body)
    async with world.lines(CMS, resourceVersion=made["metadata"]["resourceVersion"]) as lines:
        await world.ok("DELETE", f"{CMS}/a")
        await world.ok("PATCH", f"{CMS}/a", {"metadata": {"finalizers": None}}, content_type=MERGE)
        modified, deleted = await lines.take(2)
    assert modified["type"] == "MODIFIED"
    assert modified["object"]["metadata"]["deletionTimestamp"]
    assert deleted["type"] == "DELETED"
    assert deleted["object"]["metadata"]["finalizers"] == ["example.com/hold"]  # what was there


async def test_state_and_revisions_survive_a_restart(tmp_path: Path) -> None:
    """Row 158."""
    async with open_world(tmp_path) as world:
        made = await world.ok("POST", CMS, config_map("a"))
        await world.ok("POST", CMS, config_map("b"))
        revision = world.store.revision
    async with open_world(tmp_path) as world:
        assert await world.ok("GET", f"{CMS}/a") == made
        assert world.store.revision == revision, "starting again writes nothing"
        async with world.lines(CMS, resourceVersion=made["metadata"]["resourceVersion"]) as lines:
            assert types([await lines.next()]) == [("ADDED", "b")]


async def test_a_hundred_watchers_see_the_same(world: World) -> None:
    """Row 160, smaller: nothing is lost, whoever watches."""
    since = str(world.store.revision)

    async def follow(number: int) -> list[tuple[str, str]]:
        accept = TABLE if number % 2 else "application/json"
        async with world.lines(CMS, accept=accept, resourceVersion=since) as lines:
            events = await lines.take(20)
        if number % 2:
            return [(e["type"], e["object"]["rows"][0]["cells"][0]) for e in events]
        return types(events)

    followers = [asyncio.ensure_future(follow(i)) for i in range(100)]
    for i in range(20):
        await world.ok("POST", CMS, config_map(f"c{i}"))
    expected = [("ADDED", f"c{i}") for i in range(20)]
    assert all(seen == expected for seen in await asyncio.gather(*followers))


async def test_cluster_wide_and_by_field(world: World) -> None:
    await world.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
    account = {"metadata": {"name": "default"}}
    await world.ok("POST", "/api/v1/namespaces/other/serviceaccounts", account)
    for namespace in ("default", "other"):
        await world.ok("POST", f"/api/v1/namespaces/{namespace}/pods", pod("p"))
    listed = await world.ok("GET", "/api/v1/pods")
    assert [i["metadata"]["namespace"] for i in listed["items"]] == ["default", "other"]
    selector = "metadata.namespace=other,spec.nodeName="
    assert len((await world.ok("GET", "/api/v1/pods", fieldSelector=selector))["items"]) == 1
    error = await world.refused(400, "GET", "/api/v1/pods", fieldSelector="spec.foo=x")
    assert "field label not supported: spec.foo" in error["message"]
    error = await world.refused(400, "GET", "/api/v1/pods", labelSelector="x in (a")
    assert error["message"].startswith("unable to parse requirement")


async def test_watch_words_that_mean_true(world: World) -> None:
    """Row 150: Python clients say `watch=True`."""

    async def ends_without_event(word: str) -> bool:
        async with world.lines(CMS, watch=word, timeoutSeconds="1") as lines:
            return lines.status == 200 and await lines.next() is None

    assert all(await asyncio.gather(*(ends_without_event(word) for word in ("True", "true", "1", ""))))
    listed = await world.ok("GET", CMS, watch="False")
    assert listed["kind"] == "ConfigMapList"
