"""Create, read, replace: what any API answers to one object's requests."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from tests.conformance.api.conftest import Api, config_map, pod
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.resources import CONFIGMAPS, NODES, PODS, SERVICES
from trainshed.kube.wire.request import JSON, Request


async def refused(request: Any) -> tuple[int, str]:
    """Return code and reason of a request that must fail."""
    with pytest.raises(ApiError) as caught:
        await request
    return caught.value.code, caught.value.reason


async def test_the_server_fills_in_what_it_owns(api: Api) -> None:
    sent = config_map("a", x="1")
    sent["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "labels": {"l": "1"}}
    made = await api.client.create(CONFIGMAPS, sent)
    metadata = made["metadata"]
    assert (metadata["name"], metadata["namespace"], metadata["labels"]) == ("a", "default", {"l": "1"})
    assert metadata["uid"] not in ("", "mine")
    assert metadata["creationTimestamp"] > "2026" and metadata["resourceVersion"].isdigit()
    assert made["data"] == {"x": "1"}
    assert await api.client.get(CONFIGMAPS, "a") == made


async def test_a_name_can_be_taken_once_and_again_after_a_deletion(api: Api) -> None:
    first = await api.config_map("a")
    assert await refused(api.config_map("a")) == (409, "AlreadyExists")
    await api.client.delete(CONFIGMAPS, "a")
    second = await api.config_map("a")
    assert second["metadata"]["uid"] != first["metadata"]["uid"]


async def test_the_same_name_in_another_namespace_is_another_object(api: Api) -> None:
    one, two = await api.config_map("a", x="1"), await api.config_map("a", "other", x="2")
    assert one["metadata"]["uid"] != two["metadata"]["uid"]
    await api.client.delete(CONFIGMAPS, "a", "other")
    assert (await api.client.get(CONFIGMAPS, "a"))["data"] == {"x": "1"}


async def test_cluster_scoped_objects_have_no_namespace(api: Api) -> None:
    made = await api.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    assert "namespace" not in made["metadata"]
    assert (await api.client.get(NODES, "n"))["metadata"]["uid"] == made["metadata"]["uid"]


async def test_generated_names_differ_and_begin_as_asked(api: Api) -> None:
    sent = config_map("")
    sent["metadata"] = {"generateName": "gen-"}
    names = [(await api.client.create(CONFIGMAPS, sent))["metadata"]["name"] for _ in range(5)]
    assert len(set(names)) == 5
    assert all(re.fullmatch("gen-[a-z0-9]{5}", name) for name in names), names


async def test_what_does_not_exist(api: Api) -> None:
    for request in (
        api.client.get(CONFIGMAPS, "no"),
        api.client.update(CONFIGMAPS, config_map("no")),
        api.client.patch(CONFIGMAPS, "no", None, {"data": {"x": "1"}}),
        api.client.delete(CONFIGMAPS, "no"),
        api.client.update(PODS, {**pod("no"), "status": {}}, subresource="status"),
    ):
        assert await refused(request) == (404, "NotFound")


async def test_the_message_names_the_resource(api: Api) -> None:
    with pytest.raises(ApiError, match=r'^configmaps "no" not found$'):
        await api.client.get(CONFIGMAPS, "no")
    await api.config_map("a")
    with pytest.raises(ApiError, match=r'^configmaps "a" already exists$'):
        await api.config_map("a")


@pytest.mark.parametrize("metadata", [{"resourceVersion": "1"}, {"namespace": "other"}])
async def test_objects_that_cannot_be_created(api: Api, metadata: dict[str, str]) -> None:
    obj = {"metadata": {"name": "a", **metadata}}
    request = api.client._object(Request("POST", CONFIGMAPS.path("default"), (), _json(obj), JSON))
    assert await refused(request) == (400, "BadRequest")


async def test_an_update_needs_the_version_it_was_made_from(api: Api) -> None:
    first = await api.config_map("a", x="1")
    second = await api.client.update(CONFIGMAPS, {**first, "data": {"x": "2"}})
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert await refused(api.client.update(CONFIGMAPS, {**first, "data": {"x": "3"}})) == (409, "Conflict")
    assert (await api.client.get(CONFIGMAPS, "a"))["data"] == {"x": "2"}
    forced = await api.client.update(CONFIGMAPS, config_map("a", x="3"))
    assert forced["data"] == {"x": "3"}, "without a version the last one wins"


async def test_one_of_two_updates_at_once_wins(api: Api) -> None:
    first = await api.config_map("a")
    results = await asyncio.gather(
        *(api.client.update(CONFIGMAPS, {**first, "data": {"by": str(n)}}) for n in range(4)),
        return_exceptions=True,
    )
    winners = [r for r in results if not isinstance(r, BaseException)]
    assert len(winners) == 1
    assert {r.code for r in results if isinstance(r, ApiError)} == {409}
    assert await api.client.get(CONFIGMAPS, "a") == winners[0]


async def test_an_update_replaces_what_was_there_but_for_what_the_server_owns(api: Api) -> None:
    sent = config_map("a", x="1", y="2")
    sent["metadata"]["labels"] = {"l": "1"}
    first = await api.client.create(CONFIGMAPS, sent)
    second = await api.client.update(CONFIGMAPS, config_map("a", x="1"))
    assert second["data"] == {"x": "1"} and "labels" not in second["metadata"]
    for field in ("uid", "creationTimestamp", "name", "namespace"):
        assert second["metadata"][field] == first["metadata"][field]


async def test_an_update_that_changes_nothing_writes_nothing(api: Api) -> None:
    first = await api.config_map("a", x="1")
    again = await api.client.update(CONFIGMAPS, first)
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    patched = await api.client.patch(CONFIGMAPS, "a", None, {"data": {"x": "1"}})
    assert patched["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_a_body_for_another_object_is_refused(api: Api) -> None:
    await api.config_map("a")
    path = CONFIGMAPS.path("default", "a")
    for body in (config_map("b"), config_map("a", "other")):
        request = api.client._object(Request("PUT", path, (), _json(body), JSON))
        assert await refused(request) == (400, "BadRequest")


async def test_status_is_written_through_its_own_path_only(api: Api) -> None:
    made = await api.client.create(PODS, {**pod("p"), "status": {"message": "by the creator"}})
    assert "message" not in (made.get("status") or {})
    status = {"phase": "Running", "message": "by the kubelet"}
    spec = {**made["spec"], "nodeName": "elsewhere"}
    ran = await api.client.update(PODS, {**made, "spec": spec, "status": status}, subresource="status")
    assert ran["status"]["message"] == "by the kubelet" and ran["spec"] == made["spec"]
    labelled = {**ran, "metadata": {**ran["metadata"], "labels": {"l": "1"}}, "status": {"phase": "Failed"}}
    changed = await api.client.update(PODS, labelled)
    assert changed["metadata"]["labels"] == {"l": "1"} and changed["status"] == ran["status"]
    stale = api.client.update(PODS, {**made, "status": status | {"message": "late"}}, subresource="status")
    assert await refused(stale) == (409, "Conflict")


async def test_a_status_patch_merges(api: Api) -> None:
    await api.client.create(PODS, pod("p"))
    for patch in ({"status": {"phase": "Running"}}, {"status": {"message": "m"}, "spec": {"nodeName": "n"}}):
        ran = await api.client.patch(PODS, "p", None, patch, subresource="status")
    assert (ran["status"]["phase"], ran["status"]["message"]) == ("Running", "m")
    assert "nodeName" not in ran["spec"]


async def test_a_status_patch_for_a_pod_that_was_replaced_is_refused(api: Api) -> None:
    await api.client.create(PODS, pod("p"))
    patch = {"metadata": {"uid": "of-the-one-before"}, "status": {"phase": "Failed"}}
    assert await refused(api.client.patch(PODS, "p", None, patch, subresource="status")) == (422, "Invalid")
    assert ((await api.client.get(PODS, "p")).get("status") or {}).get("phase") != "Failed"


async def test_a_dry_run_answers_and_changes_nothing(api: Api) -> None:
    made = await api.client.create(CONFIGMAPS, config_map("a", x="1"), dry_run=True)
    assert made["data"] == {"x": "1"}
    assert await refused(api.client.get(CONFIGMAPS, "a")) == (404, "NotFound")
    kept = await api.config_map("a", x="1")
    changed = await api.client.update(CONFIGMAPS, config_map("a", x="2"), dry_run=True)
    assert changed["data"] == {"x": "2"}
    assert await api.client.get(CONFIGMAPS, "a") == kept


async def test_services_keep_what_they_were_given(api: Api) -> None:
    spec = {"clusterIP": "None", "selector": {"app": "a"}, "ports": [{"port": 1}]}
    sent = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}
    made = await api.client.create(SERVICES, sent)
    assert made["spec"]["clusterIP"] == "None" and made["spec"]["selector"] == {"app": "a"}


def _json(document: Any) -> bytes:
    return json.dumps(document).encode()
