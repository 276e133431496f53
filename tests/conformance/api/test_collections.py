"""Lists in pages and by selectors, and the deletion of a collection."""

from __future__ import annotations

import pytest

from tests.conformance.api.conftest import Api, config_map, pod
from tests.conformance.api.test_objects import refused
from trainshed.kube.meta.resources import CONFIGMAPS, PODS
from trainshed.kube.wire.request import Request


def names(items: list[dict[str, object]]) -> list[str]:
    return [item["metadata"]["name"] for item in items]  # type: ignore[index]


async def labelled(api: Api, name: str, **labels: str) -> None:
    obj = config_map(name)
    obj["metadata"]["labels"] = labels
    await api.client.create(CONFIGMAPS, obj)


async def test_a_list_is_ordered_and_says_which_state_it_shows(api: Api) -> None:
    for name in ("b", "c", "a"):
        last = await api.config_map(name)
    listed = await api.client.list(CONFIGMAPS, "default")
    assert names(listed.items) == ["a", "b", "c"]
    assert listed.resource_version == last["metadata"]["resourceVersion"]
    assert await api.client.get(CONFIGMAPS, "a") == listed.items[0]


async def test_an_empty_list_has_a_version_too(api: Api) -> None:
    listed = await api.client.list(PODS, "default")
    assert listed.items == [] and int(listed.resource_version) > 0


async def test_namespaces_are_apart_and_can_be_listed_together(api: Api) -> None:
    await api.config_map("a")
    await api.config_map("b", "other")
    assert names((await api.client.list(CONFIGMAPS, "default")).items) == ["a"]
    assert names((await api.client.list(CONFIGMAPS, "other")).items) == ["b"]
    everywhere = (await api.client.list(CONFIGMAPS)).items
    assert [o["metadata"]["namespace"] for o in everywhere if o["metadata"]["name"] in "ab"] == [
        "default",
        "other",
    ]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", ["a", "b", "c"]),
        ("tier=web", ["a"]),
        ("tier!=web", ["b", "c"]),
        ("tier", ["a", "b"]),
        ("!tier", ["c"]),
        ("tier in (web,db)", ["a", "b"]),
        ("tier notin (web)", ["b", "c"]),
        ("tier,env=prod", ["b"]),
    ],
)
async def test_label_selectors(api: Api, selector: str, expected: list[str]) -> None:
    await labelled(api, "a", tier="web")
    await labelled(api, "b", tier="db", env="prod")
    await labelled(api, "c", env="prod")
    assert names((await api.client.list(CONFIGMAPS, "default", label_selector=selector)).items) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=p", ["p"]),
        ("spec.nodeName=n", ["q"]),
        ("spec.nodeName!=n", ["p"]),
        ("spec.nodeName=", ["p"]),
        ("metadata.namespace=other", []),
        ("spec.nodeName=n,metadata.name=p", []),
    ],
)
async def test_field_selectors(api: Api, selector: str, expected: list[str]) -> None:
    await api.client.create(PODS, pod("p"))
    await api.client.create(PODS, pod("q", nodeName="n"))
    assert names((await api.client.list(PODS, "default", field_selector=selector)).items) == expected


async def test_a_selector_that_makes_no_sense_is_refused(api: Api) -> None:
    request = api.client.list(CONFIGMAPS, "default", label_selector="a in b")
    assert await refused(request) == (400, "BadRequest")


async def test_pages_are_one_snapshot(api: Api) -> None:
    for number in range(5):
        await api.config_map(f"c{number}")
    page = await api.client.list(CONFIGMAPS, "default", limit=2)
    version, found = page.resource_version, names(page.items)
    await api.config_map("c9")
    await api.client.delete(CONFIGMAPS, "c4")
    while page.continue_token:
        page = await api.client.list(CONFIGMAPS, "default", limit=2, continue_token=page.continue_token)
        assert page.resource_version == version
        found += names(page.items)
    assert found == ["c0", "c1", "c2", "c3", "c4"]


async def test_pages_of_a_selection(api: Api) -> None:
    for number in range(6):
        await labelled(api, f"c{number}", odd=str(number % 2))
    page = await api.client.list(CONFIGMAPS, "default", label_selector="odd=1", limit=2)
    assert names(page.items) == ["c1", "c3"] and page.continue_token
    page = await api.client.list(
        CONFIGMAPS, "default", label_selector="odd=1", limit=2, continue_token=page.continue_token
    )
    assert names(page.items) == ["c5"] and not page.continue_token


async def test_a_page_after_its_snapshot_was_forgotten(api: Api) -> None:
    for number in range(3):
        await api.config_map(f"c{number}")
    page = await api.client.list(CONFIGMAPS, "default", limit=1)
    await api.config_map("later")
    await api.forget()
    request = api.client.list(CONFIGMAPS, "default", limit=1, continue_token=page.continue_token)
    assert await refused(request) == (410, "Expired")


async def test_a_collection_is_deleted_as_selected(api: Api) -> None:
    await labelled(api, "a", go="yes")
    await labelled(api, "b")
    await api.config_map("a", "other")
    path = CONFIGMAPS.path("default")
    await api.client._object(Request("DELETE", path, [("labelSelector", "go=yes")]))
    assert names((await api.client.list(CONFIGMAPS, "default")).items) == ["b"]
    assert names((await api.client.list(CONFIGMAPS, "other")).items)[0] == "a"
