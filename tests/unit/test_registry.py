"""The registry answers by path, kind and preference, and CRDs come and go without touching built-ins."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trainshed.kube.builtin.registry import RESOURCES
from trainshed.kube.meta import resources
from trainshed.kube.meta.resourceinfo import ALL_VERBS, ResourceInfo
from trainshed.kube.meta.resources import Resource
from trainshed.kube.served.ledger import upstream
from trainshed.kube.served.registry import Registry, version_priority


def make_custom(
    version: str = "v1", plural: str = "pytorchjobs", group: str = "kubeflow.org"
) -> ResourceInfo:
    return ResourceInfo(
        resource=Resource(group, version, plural, "PyTorchJob"),
        singular="pytorchjob",
        list_kind="PyTorchJobList",
        crd_name=f"{plural}.{group}",
        storage_version="v1",
    )


def test_every_constant_of_resources_is_served() -> None:
    registry = Registry()
    constants = [value for value in vars(resources).values() if isinstance(value, Resource)]
    for resource in constants:
        if resource.group != "kubeflow.org":
            info = registry.get(resource.group, resource.version, resource.plural)
            assert info is not None, resource
            assert info.resource == resource


def test_paths_and_short_names_are_unambiguous_within_a_group() -> None:
    paths = [(info.resource.group, info.resource.version, info.resource.plural) for info in RESOURCES]
    assert len(paths) == len(set(paths))
    for info in RESOURCES:
        same = [i for i in RESOURCES if i.group_version == info.group_version and i is not info]
        others = {
            name for other in same for name in (other.resource.plural, other.singular, *other.short_names)
        }
        assert not others & {info.singular, *info.short_names}, info.resource


def test_reviews_can_only_be_created_and_metrics_only_read() -> None:
    for info in RESOURCES:
        if info.resource.kind.endswith("Review"):
            assert (info.verbs, info.stored) == (("create",), False)
        if info.resource.group == "metrics.k8s.io":
            assert (info.verbs, info.stored) == (("get", "list"), False)


def test_views_share_the_store_of_another_resource() -> None:
    registry = Registry()
    events = registry.get("events.k8s.io", "v1", "events")
    assert events is not None
    assert events.storage == resources.EVENTS
    hpa = registry.get("autoscaling", "v1", "horizontalpodautoscalers")
    assert hpa is not None
    assert hpa.storage == resources.HORIZONTALPODAUTOSCALERS
    stored = registry.stored()
    assert events not in stored
    assert hpa not in stored


def test_core_comes_first_and_autoscaling_prefers_v2() -> None:
    registry = Registry()
    assert registry.groups()[:3] == ["", "apiregistration.k8s.io", "apps"]
    assert registry.versions("autoscaling") == ["v2", "v1"]


def test_crd_is_served_from_add_to_remove() -> None:
    registry = Registry()
    before = list(registry)
    registry.add("pytorchjobs.kubeflow.org", [make_custom("v1beta1"), make_custom("v1")])
    assert registry.groups()[-1] == "kubeflow.org"
    assert registry.versions("kubeflow.org") == ["v1", "v1beta1"]
    found = registry.get("kubeflow.org", "v1", "pytorchjobs")
    assert found is not None
    assert found.crd
    assert found.verbs == ALL_VERBS
    assert [i.resource.version for i in registry.stored() if i.crd] == ["v1"]
    revision = registry.revision
    registry.add("pytorchjobs.kubeflow.org", [make_custom("v1")])
    assert registry.versions("kubeflow.org") == ["v1"]
    assert registry.revision > revision
    registry.remove("pytorchjobs.kubeflow.org")
    registry.remove("never.there")
    assert list(registry) == before
    assert not registry.has_group("kubeflow.org")


def test_crd_cannot_replace_a_builtin() -> None:
    registry = Registry()
    pods = registry.get("", "v1", "pods")
    impostor = make_custom(group="", plural="pods")
    registry.add("pods.", [impostor])
    assert registry.get("", "v1", "pods") == pods


ORDERED = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]


@given(st.permutations(ORDERED))
def test_version_priority_of_the_documentation(shuffled: list[str]) -> None:
    assert sorted(shuffled, key=version_priority) == ORDERED


def test_kinds_have_the_name_and_the_scope_of_upstream() -> None:
    known = {(one.group, one.version, one.plural): (one.kind, one.namespaced) for one in upstream()}
    for resource in (info.resource for info in RESOURCES):
        kind = known.get((resource.group, resource.version, resource.plural))
        assert kind in (None, (resource.kind, resource.namespaced)), resource
    same = {info.resource.kind: info.resource.namespaced for info in RESOURCES}
    assert all(info.resource.namespaced is same[info.resource.kind] for info in RESOURCES), "in every version"


def test_what_a_put_creates_that_is_not_there() -> None:
    """Upstream's `AllowCreateOnUpdate`."""
    made = {info.resource.plural for info in RESOURCES if info.create_on_update}
    assert made == {
        *("clusterrolebindings", "clusterroles", "rolebindings", "roles"),
        *("endpoints", "events", "leases", "limitranges", "runtimeclasses", "services"),
    }
