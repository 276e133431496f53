"""Deletion: preconditions, grace, finalizers."""

from __future__ import annotations

import pytest

from tests.conformance.api.conftest import Api, config_map, pod
from tests.conformance.api.test_objects import refused
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import CONFIGMAPS, PODS, SERVICES

GONE = (404, "NotFound")


async def running(api: Api, name: str, **spec: object) -> Object:
    """Return a pod that runs on a node."""
    await api.client.create(PODS, pod(name, nodeName="n", **spec))
    return await api.client.patch(PODS, name, None, {"status": {"phase": "Running"}}, subresource="status")


async def test_it_is_gone_at_once(api: Api) -> None:
    made = await api.config_map("a")
    answer = await api.client.delete(CONFIGMAPS, "a")
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert (answer["details"]["name"], answer["details"]["uid"]) == ("a", made["metadata"]["uid"])
    assert await refused(api.client.get(CONFIGMAPS, "a")) == GONE


async def test_some_kinds_answer_with_the_object(api: Api) -> None:
    await api.client.create(PODS, pod("p"))
    assert (await api.client.delete(PODS, "p"))["metadata"]["name"] == "p"
    assert await refused(api.client.get(PODS, "p")) == GONE, "a pod that no node has goes at once"
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"clusterIP": "None"},
    }
    await api.client.create(SERVICES, service)
    assert (await api.client.delete(SERVICES, "s"))["metadata"]["name"] == "s"


@pytest.mark.parametrize("field", ["uid", "resource_version"])
async def test_a_precondition_that_does_not_hold(api: Api, field: str) -> None:
    await api.config_map("a")
    assert await refused(api.client.delete(CONFIGMAPS, "a", **{field: "12345678"})) == (409, "Conflict")  # type: ignore[arg-type]
    await api.client.get(CONFIGMAPS, "a")


async def test_preconditions_that_hold(api: Api) -> None:
    metadata = (await api.config_map("a"))["metadata"]
    await api.client.delete(
        CONFIGMAPS, "a", uid=metadata["uid"], resource_version=metadata["resourceVersion"]
    )
    assert await refused(api.client.get(CONFIGMAPS, "a")) == GONE


async def test_a_running_pod_is_given_its_grace(api: Api) -> None:
    before = await running(api, "p", terminationGracePeriodSeconds=7)
    answer = await api.client.delete(PODS, "p")
    assert answer["metadata"]["deletionGracePeriodSeconds"] == 7
    assert answer["metadata"]["deletionTimestamp"] > before["metadata"]["creationTimestamp"]
    held = await api.client.get(PODS, "p")
    assert held == answer and held["status"]["phase"] == "Running"
    await api.client.delete(PODS, "p", grace_period_seconds=0)
    assert await refused(api.client.get(PODS, "p")) == GONE


async def test_grace_can_be_shortened_and_not_lengthened(api: Api) -> None:
    await running(api, "p")
    for asked, granted in ((None, 30), (60, 30), (5, 5), (10, 5)):
        answer = await api.client.delete(PODS, "p", grace_period_seconds=asked)
        assert answer["metadata"]["deletionGracePeriodSeconds"] == granted, asked


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_pod_that_has_ended_needs_no_grace(api: Api, phase: str) -> None:
    await running(api, "p")
    await api.client.patch(PODS, "p", None, {"status": {"phase": phase}}, subresource="status")
    await api.client.delete(PODS, "p")
    assert await refused(api.client.get(PODS, "p")) == GONE


async def test_finalizers_hold_an_object_until_the_last_is_removed(api: Api) -> None:
    obj = config_map("a", x="1")
    obj["metadata"]["finalizers"] = ["example.com/one", "example.com/two"]
    await api.client.create(CONFIGMAPS, obj)
    answer = await api.client.delete(CONFIGMAPS, "a")
    assert answer["data"] == {"x": "1"} and answer["metadata"]["deletionTimestamp"]
    again = await api.client.delete(CONFIGMAPS, "a")
    assert again["metadata"]["resourceVersion"] == answer["metadata"]["resourceVersion"]
    one = await api.client.patch(CONFIGMAPS, "a", None, {"metadata": {"finalizers": ["example.com/two"]}})
    assert one["metadata"]["deletionTimestamp"] == answer["metadata"]["deletionTimestamp"]
    await api.client.patch(CONFIGMAPS, "a", None, {"metadata": {"finalizers": None}})
    assert await refused(api.client.get(CONFIGMAPS, "a")) == GONE


async def test_nobody_takes_a_deletion_back(api: Api) -> None:
    obj = config_map("a")
    obj["metadata"]["finalizers"] = ["example.com/one"]
    await api.client.create(CONFIGMAPS, obj)
    marked = await api.client.delete(CONFIGMAPS, "a")
    metadata = {key: value for key, value in marked["metadata"].items() if key != "deletionTimestamp"}
    updated = await api.client.update(CONFIGMAPS, {**marked, "metadata": metadata, "data": {"x": "1"}})
    assert updated["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]
    assert updated["data"] == {"x": "1"}
