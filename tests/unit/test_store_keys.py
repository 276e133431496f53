"""Keys of the store; that they are built and read in one place is seen in `tests/house`."""

from __future__ import annotations

import pytest

from trainshed.cluster.store import keys
from trainshed.kube.meta.resources import EVENTS, NODES, PODS, ROLES, Resource


@pytest.mark.parametrize(
    ("resource", "namespace", "name", "key"),
    [
        (PODS, "default", "web-0", "/core/pods/default/web-0"),
        (NODES, None, "n1", "/core/nodes/-/n1"),
        (ROLES, "a", "system:x", "/rbac.authorization.k8s.io/roles/a/system:x"),
        (Resource("kubeflow.org", "v1", "xs", "X"), "a", "a/b", "/kubeflow.org/xs/a/a/b"),
    ],
)
def test_a_key_says_where_an_object_is(
    resource: Resource, namespace: str | None, name: str, key: str
) -> None:
    assert keys.of(resource, namespace, name) == key
    assert keys.place(key) == keys.Place(resource.group, resource.plural, namespace, name)
    for prefix in (keys.within(resource.group), keys.under(resource), keys.under(resource, namespace)):
        assert key.startswith(prefix)


def test_prefixes_end_where_a_name_ends() -> None:
    """The keys of `events` are not among those of `even`, nor those of namespace `ab` among those of `a`."""
    assert keys.under(EVENTS) == "/core/events/"
    assert keys.under(EVENTS, "a") == "/core/events/a/"
    assert keys.collection("example.com", "xs") == "/example.com/xs/"
