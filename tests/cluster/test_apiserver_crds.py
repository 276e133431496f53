"""Custom resources: served at once, in several versions, gone with their definition."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api_world import MERGE, World, open_world
from trainshed.kube.meta.objects import Object
from trainshed.kube.wire.body import MAX_DEPTH

APPLY = "application/apply-patch+yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
V1 = "/apis/kapi.test/v1/namespaces/default/widgets"
V2 = "/apis/kapi.test/v2/namespaces/default/widgets"


def version(name: str, *, storage: bool = False, **properties: Any) -> Object:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}}


def definition(*versions: Object, plural: str = "widgets", kind: str = "Widget") -> Object:
    names = {"plural": plural, "kind": kind}
    return {
        "metadata": {"name": f"{plural}.kapi.test"},
        "spec": {"group": "kapi.test", "scope": "Namespaced", "names": names, "versions": list(versions)},
    }


SIZE = {"type": "integer"}


def widget(api_version: str = "kapi.test/v1", **spec: Any) -> Object:
    return {"apiVersion": api_version, "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


async def test_served_as_soon_as_the_create_returns(world: World) -> None:
    answer = await world.ok("POST", CRDS, definition(version("v1", storage=True, size=SIZE)))
    assert answer["status"]["conditions"] is None, "as upstream: what is accepted is seen by reading"
    made = await world.ok("GET", f"{CRDS}/{answer['metadata']['name']}")
    conditions = {c["type"]: c["status"] for c in made["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert made["status"]["storedVersions"] == ["v1"]
    assert made["spec"]["names"]["listKind"] == "WidgetList"
    held = await world.ok("POST", V1, widget(size=1))
    assert held["metadata"]["generation"] == 1
    groups = await world.ok("GET", "/apis")
    assert "kapi.test" in [g["name"] for g in groups["groups"]]
    listed = await world.ok("GET", V1)
    assert (listed["kind"], listed["items"]) == ("WidgetList", [held])
    error = await world.refused(400, "POST", V1, {"metadata": {"name": "x"}, "spec": {}})
    assert "'Kind' is missing" in error["message"]


async def test_objects_are_selected_by_the_fields_that_the_definition_names(world: World) -> None:
    selectable = {"selectableFields": [{"jsonPath": ".spec.size"}]}
    await world.ok("POST", CRDS, definition({**version("v1", storage=True, size=SIZE), **selectable}))
    for name, size in (("small", 1), ("large", 9)):
        await world.ok("POST", V1, {**widget(size=size), "metadata": {"name": name}})
    listed = await world.ok("GET", V1, fieldSelector="spec.size=9")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["large"]
    error = await world.refused(400, "GET", V1, fieldSelector="spec.colour=red")
    assert "field label not supported: spec.colour" in error["message"]


async def test_versions_show_the_same_object(world: World) -> None:
    both = definition(version("v1", size=SIZE), version("v2", storage=True, size=SIZE))
    await world.ok("POST", CRDS, both)
    await world.ok("POST", V1, widget(size=1))
    old, new = await world.ok("GET", f"{V1}/w"), await world.ok("GET", f"{V2}/w")
    assert (old["apiVersion"], new["apiVersion"]) == ("kapi.test/v1", "kapi.test/v2")
    assert old["metadata"]["uid"] == new["metadata"]["uid"]
    await world.ok("PATCH", f"{V1}/w", {"spec": {"size": 2}}, content_type=MERGE)
    assert (await world.ok("GET", f"{V2}/w"))["spec"] == {"size": 2}
    async with world.lines(V1) as lines:
        assert (await lines.next())["object"]["apiVersion"] == "kapi.test/v1"
    assert world.store.list("/kapi.test/widgets/")[0][0].obj["apiVersion"] == "kapi.test/v2"


async def test_new_defaults_apply_to_old_objects(world: World) -> None:
    made = await world.ok("POST", CRDS, definition(version("v1", storage=True, size=SIZE)))
    await world.ok("POST", V1, widget(size=1))
    made["spec"]["versions"] = [
        version("v1", storage=True, size=SIZE, color={"type": "string", "default": "red"})
    ]
    await world.ok("PUT", f"{CRDS}/widgets.kapi.test", made)
    held = await world.ok("GET", f"{V1}/w")
    assert held["spec"] == {"size": 1, "color": "red"}
    assert (await world.ok("GET", V1))["items"] == [held]


async def test_what_was_valid_once_may_stay_in_an_update(world: World) -> None:
    made = await world.ok("POST", CRDS, definition(version("v1", storage=True, size=SIZE)))
    await world.ok("POST", V1, widget(size=9))
    stricter = definition(version("v1", storage=True, size={**SIZE, "maximum": 5}, other=SIZE))
    stricter["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    await world.ok("PATCH", f"{CRDS}/widgets.kapi.test", {"spec": stricter["spec"]}, content_type=MERGE)
    change: Object = {"metadata": {"labels": {"a": "b"}}, "spec": {"other": 1}}
    kept = await world.ok("PATCH", f"{V1}/w", change, content_type=MERGE)
    assert kept["spec"] == {"size": 9, "other": 1}
    error = await world.refused(422, "PATCH", f"{V1}/w", {"spec": {"size": 8}}, content_type=MERGE)
    assert "spec.size in body should be less than or equal to 5" in error["message"]


async def test_names_are_unique_in_a_group(world: World) -> None:
    await world.ok("POST", CRDS, definition(version("v1", storage=True)))
    other = definition(version("v1", storage=True), plural="gadgets", kind="Widget")
    answer = await world.ok("POST", CRDS, other)
    made = await world.ok("GET", f"{CRDS}/{answer['metadata']['name']}")
    conditions = {c["type"]: c["status"] for c in made["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "False", "Established": "False"}
    await world.refused(404, "GET", "/apis/kapi.test/v1/namespaces/default/gadgets")


async def test_deleting_a_definition_deletes_its_objects(world: World) -> None:
    await world.ok("POST", CRDS, definition(version("v1", storage=True)))
    await world.ok("POST", V1, widget())
    held = {**widget(), "metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    await world.ok("POST", V1, held)
    running = asyncio.ensure_future(world.api.run())
    watch = world.store.watch("/", world.store.revision)
    await world.ok("DELETE", f"{CRDS}/widgets.kapi.test")
    async with asyncio.timeout(5):
        async for event in watch:
            if event.type == "DELETED" and event.key.endswith("/w"):
                break
    assert (await world.ok("GET", f"{V1}/held"))["metadata"]["deletionTimestamp"]
    await world.refused(405, "POST", V1, {**widget(), "metadata": {"name": "late"}})
    await world.refused(404, "GET", f"{V1}/w")
    await world.ok("PATCH", f"{V1}/held", {"metadata": {"finalizers": None}}, content_type=MERGE)
    async with asyncio.timeout(5):
        async for event in watch:
            if event.type == "DELETED" and "customresourcedefinitions" in event.key:
                break
    response = await world.raw("GET", V1)
    assert response.status == 404
    assert "kapi.test" not in [g["name"] for g in (await world.ok("GET", "/apis"))["groups"]]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_watches_end_with_what_they_watch(world: World) -> None:
    """As recorded from Kubernetes 1.33: all that happens to the objects is told, then the stream ends."""
    made = definition(version("v1", storage=True), version("v2"))
    await world.ok("POST", CRDS, made)
    await world.ok("POST", V1, widget())
    running = asyncio.ensure_future(world.api.run())
    async with (
        world.lines(V1, watch="1") as first,
        world.lines(V2, watch="1") as second,
        world.lines(CRDS, watch="1", resourceVersion=str(world.store.revision)) as definitions,
    ):
        assert (await first.next())["type"] == (await second.next())["type"] == "ADDED"
        stored = await world.ok("GET", f"{CRDS}/widgets.kapi.test")
        stored["spec"]["versions"].pop()
        stored["status"] = {}
        await world.ok("PUT", f"{CRDS}/widgets.kapi.test", stored)
        assert await second.next() is None, "this version is served no more"
        await world.ok("DELETE", f"{CRDS}/widgets.kapi.test")
        assert (await first.next())["type"] == "DELETED"
        assert await first.next() is None
        seen = [await definitions.next() for _ in range(4)]
    assert [event["type"] for event in seen] == ["MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]
    reasons = [event["object"]["status"]["conditions"][-1]["reason"] for event in seen[1:]]
    assert reasons == ["InstanceDeletionPending", "InstanceDeletionInProgress", "InstanceDeletionInProgress"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_definitions_survive_a_restart(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        await world.ok("POST", CRDS, definition(version("v1", storage=True, size=SIZE)))
        made = await world.ok("POST", V1, widget(size=1))
    async with open_world(tmp_path) as world:
        assert await world.ok("GET", f"{V1}/w") == made


async def test_invalid_definitions(world: World) -> None:
    wrong = definition(version("v1", storage=True))
    wrong["metadata"]["name"] = "x.kapi.test"
    error = await world.refused(422, "POST", CRDS, wrong)
    assert 'must be spec.names.plural+"."+spec.group' in error["message"]
    twice = definition(version("v1", storage=True), version("v2", storage=True))
    await world.refused(422, "POST", CRDS, twice)
    assert json.loads((await world.raw("GET", CRDS)).body)["items"] == []


def nest(levels: int, inside: Any = 1) -> Any:
    for _ in range(levels):
        inside = {"a": inside}
    return inside


def nested_schema(levels: int) -> Object:
    schema: Object = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


async def test_the_deepest_objects_and_deeper_ones(world: World) -> None:
    """Whatever fits into a body is served in every way; what does not is the client's fault."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await world.ok("POST", CRDS, definition(version("v1", storage=True, a=anything)))
    path = f"{V1}/w"
    body = widget(**nest(MAX_DEPTH - 8))  # managed fields are deeper than their object
    await world.ok("POST", V1, body)
    await world.ok("PUT", path, await world.ok("GET", path))
    for content_type in (MERGE, APPLY):
        query = {"fieldManager": "me", "force": "true"} if "apply" in content_type else {}
        await world.ok("PATCH", path, body, content_type=content_type, **query)
    for accept in ("application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io"):
        assert (await world.raw("GET", V1, accept=accept)).status == 200
    async with world.lines(V1) as watched:
        assert (await watched.next())["object"]["spec"] == body["spec"]
    deeper = widget(**nest(MAX_DEPTH))
    await world.refused(400, "POST", V1, deeper)
    await world.refused(400, "PATCH", path, deeper, content_type=MERGE)
    await world.refused(400, "PATCH", path, deeper, content_type=APPLY, fieldManager="me")
    grow = [{"op": "copy", "from": "/spec", "path": "/spec" + "/a" * 20 + "/b"}]
    status = await world.refused(400, "PATCH", path, grow, content_type="application/json-patch+json")
    assert "nested too deeply" in status["message"]


@pytest.mark.parametrize("depth", [MAX_DEPTH // 2 - 10, MAX_DEPTH // 2, MAX_DEPTH])
async def test_deep_schemas(world: World, depth: int) -> None:
    crd = definition(version("v1", storage=True, a=nested_schema(depth - 1)))
    if 2 * depth >= MAX_DEPTH:
        await world.refused(400, "POST", CRDS, crd)
        return
    await world.ok("POST", CRDS, crd)
    body = widget(**nest(depth, "x"))
    await world.ok("POST", V1, body)
    await world.ok("PATCH", f"{V1}/w", body, content_type=APPLY, fieldManager="me", force="true")
    await world.ok("GET", "/openapi/v3/apis/kapi.test/v1")
