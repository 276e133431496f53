"""Versions of a custom resource that a webhook converts: v1 has `spec.size`, v2 has `spec.sizes.first`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tests.cluster.api_world import MERGE, World
from tests.fakes.https import Https, serve_https
from trainshed.kube.meta.objects import Object

APPLY = "application/apply-patch+yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = f"{CRDS}/widgets.kapi.test"
V1 = "/apis/kapi.test/v1/namespaces/default/widgets"
V2 = "/apis/kapi.test/v2/namespaces/default/widgets"
INT = {"type": "integer"}
SIZES = {"type": "object", "properties": {"first": INT, "second": {**INT, "default": 7}}}


def convert(obj: Object, wanted: str) -> Object:
    """Return an object in the other version."""
    spec = dict(obj["spec"])
    if wanted.endswith("/v2"):
        spec["sizes"] = {"first": spec.pop("size", 0)}
    else:
        spec["size"] = spec.pop("sizes", {}).get("first", 0)
    return {**obj, "apiVersion": wanted, "spec": spec}


class Converter:
    """A conversion webhook; `answer` changes the review that it answers with."""

    def __init__(self) -> None:
        self.asked: list[Object] = []
        self.answer: Callable[[Object], Any] = lambda review: review
        self.at: Https | None = None

    async def handle(self, request: web.Request) -> web.Response:
        review = msgspec.json.decode(await request.read())
        asked = review["request"]
        self.asked.append({**asked, "path": request.path_qs, "version": review["apiVersion"]})
        done = [convert(obj, asked["desiredAPIVersion"]) for obj in asked["objects"]]
        response = {"uid": asked["uid"], "convertedObjects": done, "result": {"status": "Success"}}
        answer = {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}
        return web.json_response(self.answer(answer))

    def conversion(self, **client: Any) -> Object:
        assert self.at is not None
        config = client or self.at.config("/convert")
        webhook = {"clientConfig": config, "conversionReviewVersions": ["v2", "v1"]}
        return {"strategy": "Webhook", "webhook": webhook}


@pytest.fixture
async def converter(tmp_path: Path) -> AsyncIterator[Converter]:
    made = Converter()
    async with serve_https(tmp_path, made.handle, ["convert.default.svc"]) as made.at:
        yield made


def version(name: str, storage: str, **properties: Any) -> Object:
    spec = {"type": "object", "properties": properties}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    fields = {"name": name, "served": True, "storage": name == storage, "schema": schema}
    if name == "v2":
        fields["selectableFields"] = [{"jsonPath": ".spec.sizes.first"}]
    return fields


def definition(conversion: Object, storage: str = "v1") -> Object:
    names = {"plural": "widgets", "kind": "Widget"}
    versions = [version("v1", storage, size=INT), version("v2", storage, sizes=SIZES)]
    spec = {"group": "kapi.test", "scope": "Namespaced", "names": names, "versions": versions}
    return {"metadata": {"name": "widgets.kapi.test"}, "spec": {**spec, "conversion": conversion}}


def widget(name: str, size: int) -> Object:
    return {
        "apiVersion": "kapi.test/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": size},
    }


async def installed(world: World, converter: Converter, *sizes: int) -> None:
    """Create the definition, and an object `w<size>` of each size as v1."""
    await world.ok("POST", CRDS, definition(converter.conversion()))
    for size in sizes:
        await world.ok("POST", V1, widget(f"w{size}", size))
    assert converter.asked == []  # stored as they came


async def test_every_version_reads_as_the_webhook_converts_it(world: World, converter: Converter) -> None:
    await installed(world, converter, 1, 2)
    one = await world.ok("GET", f"{V2}/w1")
    # Converted, pruned, and with the defaults of the version.
    assert (one["apiVersion"], one["spec"]) == ("kapi.test/v2", {"sizes": {"first": 1, "second": 7}})
    asked = converter.asked[0]
    assert (asked["desiredAPIVersion"], asked["path"]) == ("kapi.test/v2", "/convert?timeout=30s")
    assert asked["version"] == "apiextensions.k8s.io/v1"
    listed = await world.ok("GET", V2)
    assert [item["spec"]["sizes"]["first"] for item in listed["items"]] == [1, 2]
    chosen = await world.ok("GET", V2, fieldSelector="spec.sizes.first=2")
    assert [item["metadata"]["name"] for item in chosen["items"]] == ["w2"]
    # A list asks for what was not converted yet.
    assert [obj["metadata"]["name"] for asked in converter.asked for obj in asked["objects"]] == ["w1", "w2"]


async def test_every_version_writes_what_the_webhook_makes_of_it(world: World, converter: Converter) -> None:
    await installed(world, converter, 1)
    made = await world.ok(
        "POST",
        V2,
        {
            "apiVersion": "kapi.test/v2",
            "kind": "Widget",
            "metadata": {"name": "n"},
            "spec": {"sizes": {"first": 5}},
        },
    )
    assert made["spec"] == {"sizes": {"first": 5, "second": 7}}
    assert (await world.ok("GET", f"{V1}/n"))["spec"] == {"size": 5}
    patched = await world.ok("PATCH", f"{V2}/w1", {"spec": {"sizes": {"first": 6}}}, content_type=MERGE)
    assert patched["spec"]["sizes"]["first"] == 6
    assert (await world.ok("GET", f"{V1}/w1"))["spec"] == {"size": 6}
    applied = {
        "apiVersion": "kapi.test/v2",
        "kind": "Widget",
        "metadata": {"name": "s"},
        "spec": {"sizes": {"first": 8}},
    }
    await world.ok("PATCH", f"{V2}/s", applied, content_type=APPLY, fieldManager="m")
    assert (await world.ok("GET", f"{V1}/s"))["spec"] == {"size": 8}
    gone = await world.ok("DELETE", f"{V2}/w1")
    assert gone["status"] == "Success"
    await world.refused(404, "GET", f"{V1}/w1")


async def test_a_watch_converts_what_it_sends(world: World, converter: Converter) -> None:
    await installed(world, converter, 1)
    async with asyncio.timeout(20), world.lines(V2) as lines:
        first = await lines.next()
        assert (first["type"], first["object"]["spec"]["sizes"]["first"]) == ("ADDED", 1)
        await world.ok("PATCH", f"{V1}/w1", {"spec": {"size": 3}}, content_type=MERGE)
        changed = await lines.next()
        assert (changed["type"], changed["object"]["spec"]["sizes"]["first"]) == ("MODIFIED", 3)
        converter.answer = lambda review: {**review, "response": {**review["response"], "uid": "other"}}
        await world.ok("PATCH", f"{V1}/w1", {"spec": {"size": 4}}, content_type=MERGE)
        failed = await lines.next()
        assert failed["type"] == "ERROR" and "expected response.uid=" in failed["object"]["message"]


async def test_another_storage_version_is_taken_up_write_by_write(world: World, converter: Converter) -> None:
    await installed(world, converter, 1)
    held = await world.ok("GET", DEFINITION)
    held["spec"] = definition(converter.conversion(), "v2")["spec"]
    changed = await world.ok("PUT", DEFINITION, held)
    assert changed["status"]["storedVersions"] == ["v1", "v2"]
    assert (await world.ok("GET", f"{V2}/w1"))["spec"]["sizes"]["first"] == 1
    count = len(converter.asked)
    assert (await world.ok("GET", f"{V1}/w1"))["spec"] == {"size": 1}  # still lies there as v1
    assert len(converter.asked) == count
    one = await world.ok("GET", f"{V2}/w1")
    await world.ok("PUT", f"{V2}/w1", {**one, "spec": {"sizes": {"first": 2}}})
    count = len(converter.asked)
    assert (await world.ok("GET", f"{V1}/w1"))["spec"] == {"size": 2}
    assert len(converter.asked) == count + 1  # lies there as v2 now
    status = {"status": {"storedVersions": ["v1"]}}
    refused = await world.refused(422, "PATCH", f"{DEFINITION}/status", status, content_type=MERGE)
    assert "must have the storage version v2" in refused["message"]
    status = {"status": {"storedVersions": ["v2"]}}
    trimmed = await world.ok("PATCH", f"{DEFINITION}/status", status, content_type=MERGE)
    assert trimmed["status"]["storedVersions"] == ["v2"]


def with_response(**fields: Any) -> Callable[[Object], Any]:
    return lambda review: {**review, "response": {**review["response"], **fields}}


def with_object(**fields: Any) -> Callable[[Object], Any]:
    def answer(review: Object) -> Object:
        done = [{**obj, **fields} for obj in review["response"]["convertedObjects"]]
        return {**review, "response": {**review["response"], "convertedObjects": done}}

    return answer


def with_metadata(**fields: Any) -> Callable[[Object], Any]:
    def answer(review: Object) -> Object:
        done = review["response"]["convertedObjects"]
        done = [{**obj, "metadata": {**obj["metadata"], **fields}} for obj in done]
        return {**review, "response": {**review["response"], "convertedObjects": done}}

    return answer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (with_response(result={"status": "Failed", "message": "no way"}), "failed: no way"),
        (with_response(convertedObjects=[]), "returned 0 objects, expected 1"),
        (lambda review: {**review, "kind": "Other"}, "failed: expected webhook response of"),
        (lambda review: {**review, "response": None}, "failed: no response provided"),
        (lambda review: ["x"], "failed: couldn't get version/kind"),
        (
            with_object(apiVersion="kapi.test/v3"),
            "invalid groupVersion (expected kapi.test/v2, received kapi.test/v3)",
        ),
        (with_object(kind="Gadget"), "invalid kind (expected Widget, received Gadget)"),
        (with_object(metadata=None), "must have the same name: w1 != "),
        (with_object(metadata=7), "invalid metadata of type int64 in converted object"),
        (with_metadata(name="x"), "must have the same name: w1 != x"),
        (
            with_metadata(labels={"a": 1}),
            "metadata.labels[a] must be a string, but is int64 in converted object",
        ),
        (with_metadata(labels={"a b": ""}), "metadata.labels: Invalid value"),
    ],
)
async def test_an_answer_that_does_not_fit_is_a_failure(
    world: World, converter: Converter, answer: Callable[[Object], Any], words: str
) -> None:
    await installed(world, converter, 1)
    converter.answer = answer
    failed = await world.refused(500, "GET", f"{V2}/w1")
    assert failed["message"].startswith("conversion webhook for kapi.test/v1, Kind=Widget ")
    assert words in failed["message"]
    await world.ok("GET", f"{V1}/w1")


async def test_what_else_a_webhook_says_of_metadata_is_not_heard(world: World, converter: Converter) -> None:
    await installed(world, converter, 1)
    stored = await world.ok("GET", f"{V1}/w1")
    converter.answer = with_metadata(
        labels={"new": "x"}, finalizers=["evil/one"], resourceVersion="1", generation=9
    )
    one = await world.ok("GET", f"{V2}/w1")
    assert one["metadata"] == {**stored["metadata"], "labels": {"new": "x"}}


async def test_one_that_cannot_be_reached_fails_the_other_version_alone(
    world: World, converter: Converter
) -> None:
    service = {"service": {"name": "convert", "namespace": "default", "path": "/c"}}
    await world.ok("POST", CRDS, definition(converter.conversion(**service)))
    await world.ok("POST", V1, widget("w", 1))
    failed = await world.refused(500, "GET", f"{V2}/w")
    assert failed["message"] == (
        "conversion webhook for kapi.test/v1, Kind=Widget failed: Post "
        '"https://convert.default.svc:443/c?timeout=30s": service "convert" not found'
    )
    await world.refused(500, "GET", V2)
    await world.refused(500, "PATCH", f"{V2}/w", {"spec": {}}, content_type=MERGE)
    await world.refused(500, "DELETE", f"{V2}/w")
    assert (await world.ok("GET", f"{V1}/w"))["spec"] == {"size": 1}
    await world.ok("DELETE", f"{V1}/w")


async def test_a_client_config_is_checked(world: World, converter: Converter) -> None:
    wrong = converter.conversion(url="http://u@x/?a=b#c")
    refused = await world.refused(422, "POST", CRDS, definition(wrong))
    assert {cause["field"] for cause in refused["details"]["causes"]} == {
        "spec.conversion.webhookClientConfig.url"
    }
    assert len(refused["details"]["causes"]) == 4
    # kube-apiserver 1.33 takes the two for each other here: the field that it names is not the one that lacks.
    wrong = converter.conversion(service={"name": "x", "path": "no-slash"})
    refused = await world.refused(422, "POST", CRDS, definition(wrong))
    assert [cause["field"] for cause in refused["details"]["causes"]] == [
        "spec.conversion.webhookClientConfig.service.name",
        "spec.conversion.webhookClientConfig.service.path",
    ]
