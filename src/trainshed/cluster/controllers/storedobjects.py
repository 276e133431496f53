"""From keys of the store back to resources: for controllers that work on every kind at once."""

from __future__ import annotations

from trainshed.cluster.store import Store, Stored
from trainshed.kube.builtin.builtins import BUILTINS
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import Resource

_DEFINITIONS = "/apiextensions.k8s.io/customresourcedefinitions/"
_NAMESPACED = {(i.resource.api_version, i.resource.kind): i.resource.namespaced for i in BUILTINS}


def resource_of(stored: Stored) -> Resource:
    """Return the resource of a stored object, at the version that it was written in."""
    _, group, plural, namespace, _ = stored.key.split("/", 4)
    version = stored.obj["apiVersion"].rpartition("/")[2]
    return Resource("" if group == "core" else group, version, plural, stored.obj["kind"], namespace != "-")


def is_namespaced(store: Store, api_version: str, kind: str) -> bool | None:
    """Return whether objects of the kind live in namespaces; None when nothing serves it."""
    known = _NAMESPACED.get((api_version, kind))
    if known is not None:
        return known
    group = api_version.rpartition("/")[0]
    for definition in store.list(_DEFINITIONS)[0]:
        spec: Object = definition.obj["spec"]
        if spec["group"] == group and spec["names"]["kind"] == kind:
            return bool(spec["scope"] == "Namespaced")
    return None


def contents(store: Store, namespace: str) -> list[Stored]:
    """Return everything stored in the namespace, whatever its kind."""
    found: list[Stored] = []
    for group, plural in sorted(_namespaced_resources(store)):
        found += store.list(f"/{group or 'core'}/{plural}/{namespace}/")[0]
    return found


def _namespaced_resources(store: Store) -> set[tuple[str, str]]:
    found = {(i.resource.group, i.resource.plural) for i in BUILTINS if i.resource.namespaced}
    for definition in store.list(_DEFINITIONS)[0]:
        spec: Object = definition.obj["spec"]
        if spec["scope"] == "Namespaced":
            found.add((spec["group"], spec["names"]["plural"]))
    return found
