"""Legacy and aggregated discovery say the same, and change with CRDs."""

from __future__ import annotations

from tests.unit.test_registry import make_custom
from trainshed.kube.meta.objects import Object
from trainshed.kube.served import discovery
from trainshed.kube.served.registry import Registry


def _legacy(registry: Registry) -> set[tuple[str, str, str, str]]:
    found = set()
    for group in registry.groups():
        for version in registry.versions(group):
            document = discovery.api_resource_list(registry, group, version)
            assert document is not None
            found |= {(group, version, r["name"], r["kind"]) for r in document["resources"]}
    return found


def _aggregated(registry: Registry) -> set[tuple[str, str, str, str]]:
    found = set()
    for core in (True, False):
        for group in discovery.aggregated(registry, core=core, version="v2")["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                for item in version["resources"]:
                    key = (name, version["version"])
                    found.add((*key, item["resource"], item["responseKind"]["kind"]))
                    for sub in item.get("subresources", ()):
                        path = f"{item['resource']}/{sub['subresource']}"
                        found.add((*key, path, sub["responseKind"]["kind"]))
    return found


def test_both_families_agree() -> None:
    registry = Registry()
    registry.add("pytorchjobs.kubeflow.org", [make_custom()])
    assert _legacy(registry) == _aggregated(registry)


def test_subresources_of_another_kind_name_its_group() -> None:
    document = discovery.api_resource_list(Registry(), "", "v1")
    assert document is not None
    entries: dict[str, Object] = {r["name"]: r for r in document["resources"]}
    assert entries["pods/eviction"]["group"] == "policy"
    assert entries["pods/eviction"]["kind"] == "Eviction"
    assert "group" not in entries["pods/log"]
    assert entries["pods/log"]["singularName"] == ""
    assert entries["pods"]["shortNames"] == ["po"]
    assert "deletecollection" not in entries["namespaces"]["verbs"]


def test_core_group_lives_apart() -> None:
    registry = Registry()
    names = [group["name"] for group in discovery.api_group_list(registry)["groups"]]
    assert "" not in names
    assert names[:2] == ["apiregistration.k8s.io", "apps"]
    assert [g["metadata"] for g in discovery.aggregated(registry, core=True, version="v2")["items"]] == [{}]
    assert discovery.api_group(registry, "") is None
    assert discovery.api_group(registry, "nope") is None
    assert discovery.api_resource_list(registry, "apps", "v9") is None
    group = discovery.api_group(registry, "autoscaling")
    assert group is not None
    assert group["preferredVersion"] == {"groupVersion": "autoscaling/v2", "version": "v2"}


def test_etag_follows_the_content() -> None:
    registry = Registry()
    tag = discovery.etag(discovery.aggregated(registry, core=False, version="v2"))
    assert tag == discovery.etag(discovery.aggregated(Registry(), core=False, version="v2"))
    registry.add("pytorchjobs.kubeflow.org", [make_custom()])
    assert tag != discovery.etag(discovery.aggregated(registry, core=False, version="v2"))
    assert discovery.matches(f'W/"x", {tag}', tag)
    assert discovery.matches("*", tag)
    assert not discovery.matches('"x"', tag)
    assert not discovery.matches(None, tag)
