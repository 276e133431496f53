"""The three patches and server-side apply."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.api.conftest import Api, config_map, pod
from tests.conformance.api.test_objects import refused
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.resources import CONFIGMAPS, PODS
from trainshed.kube.patch.types import JSON, MERGE, STRATEGIC


@pytest.mark.parametrize(
    ("patch_type", "patch", "expected"),
    [
        (MERGE, {"data": {"x": "2"}}, {"x": "2", "y": "1"}),
        (MERGE, {"data": {"x": None, "z": "3"}}, {"y": "1", "z": "3"}),
        (MERGE, {"data": None}, None),
        (STRATEGIC, {"data": {"x": None, "z": "3"}}, {"y": "1", "z": "3"}),
        (STRATEGIC, {"data": {"$patch": "replace", "z": "3"}}, {"z": "3"}),
        (JSON, [{"op": "add", "path": "/data/z", "value": "3"}], {"x": "1", "y": "1", "z": "3"}),
        (
            JSON,
            [{"op": "test", "path": "/data/x", "value": "1"}, {"op": "remove", "path": "/data/x"}],
            {"y": "1"},
        ),
    ],
)
async def test_data(api: Api, patch_type: str, patch: Any, expected: dict[str, str] | None) -> None:
    made = await api.config_map("a", x="1", y="1")
    changed = await api.client.patch(CONFIGMAPS, "a", None, patch, patch_type=patch_type)
    assert changed.get("data") == expected
    assert changed["metadata"]["uid"] == made["metadata"]["uid"]
    assert await api.client.get(CONFIGMAPS, "a") == changed


async def test_lists_are_replaced_by_a_merge_and_merged_by_name_by_a_strategic_one(api: Api) -> None:
    await api.client.create(PODS, pod("p"))
    image = [{"name": "main", "image": "train:2"}]
    strategic = await api.client.patch(PODS, "p", None, {"spec": {"containers": image}}, patch_type=STRATEGIC)
    assert [c["image"] for c in strategic["spec"]["containers"]] == ["train:2"]
    finalizers = {"metadata": {"finalizers": ["example.com/one"]}}
    await api.client.patch(PODS, "p", None, finalizers, patch_type=STRATEGIC)
    other = {"metadata": {"finalizers": ["example.com/two"]}}
    both = await api.client.patch(PODS, "p", None, other, patch_type=STRATEGIC)
    assert sorted(both["metadata"]["finalizers"]) == ["example.com/one", "example.com/two"]
    one = await api.client.patch(PODS, "p", None, other, patch_type=MERGE)
    assert one["metadata"]["finalizers"] == ["example.com/two"]


async def test_a_json_patch_whose_test_fails_changes_nothing(api: Api) -> None:
    made = await api.config_map("a", x="1")
    patch = [
        {"op": "replace", "path": "/data/x", "value": "2"},
        {"op": "test", "path": "/data/x", "value": "nothing"},
    ]
    code, _ = await refused(api.client.patch(CONFIGMAPS, "a", None, patch, patch_type=JSON))
    assert code == 422
    assert await api.client.get(CONFIGMAPS, "a") == made


@pytest.mark.parametrize(("field", "refusal"), [("resourceVersion", 409), ("uid", 422)])
async def test_a_patch_can_name_the_object_that_it_is_for(api: Api, field: str, refusal: int) -> None:
    made = await api.config_map("a", x="1")
    right = {"metadata": {field: made["metadata"][field]}, "data": {"x": "2"}}
    assert (await api.client.patch(CONFIGMAPS, "a", None, right))["data"] == {"x": "2"}
    wrong = {"metadata": {field: "1"}, "data": {"x": "3"}}
    assert (await refused(api.client.patch(CONFIGMAPS, "a", None, wrong)))[0] == refusal
    assert (await api.client.get(CONFIGMAPS, "a"))["data"] == {"x": "2"}


async def test_apply_creates_changes_and_removes_what_it_does_not_name_any_more(api: Api) -> None:
    made = await api.client.apply(CONFIGMAPS, config_map("a", x="1", y="1"), field_manager="one")
    assert made["data"] == {"x": "1", "y": "1"} and made["metadata"]["uid"]
    again = await api.client.apply(CONFIGMAPS, config_map("a", x="1", y="1"), field_manager="one")
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    less = await api.client.apply(CONFIGMAPS, config_map("a", x="2"), field_manager="one")
    assert less["data"] == {"x": "2"}


async def test_two_who_apply_share_an_object(api: Api) -> None:
    await api.client.apply(CONFIGMAPS, config_map("a", x="1"), field_manager="one")
    both = await api.client.apply(CONFIGMAPS, config_map("a", y="2"), field_manager="two")
    assert both["data"] == {"x": "1", "y": "2"}
    with pytest.raises(ApiError) as caught:
        await api.client.apply(CONFIGMAPS, config_map("a", x="9"), field_manager="two", force=False)
    assert (caught.value.code, caught.value.reason) == (409, "Conflict")
    assert [(c.reason, c.field) for c in caught.value.causes] == [("FieldManagerConflict", ".data.x")]
    forced = await api.client.apply(CONFIGMAPS, config_map("a", x="9"), field_manager="two")
    assert forced["data"] == {"x": "9"}, "y is no longer wanted by the one who wanted it"
