"""Keys of the store: `/<group>/<plural>/<namespace>/<name>`.

The core group is `core`; objects outside namespaces have `-` in the place of one. Nothing else in the program
writes a key or takes one apart.
"""

from __future__ import annotations

import msgspec

from trainshed.kube.meta.resources import Resource

_CORE = "core"
_CLUSTER = "-"


class Place(msgspec.Struct, frozen=True):
    """What a key says: `group` is empty for the core group, `namespace` None outside namespaces."""

    group: str
    plural: str
    namespace: str | None
    name: str


def of(resource: Resource, namespace: str | None, name: str) -> str:
    """Return the key of an object; no namespace is cluster scope. The version does not matter."""
    return f"{collection(resource.group, resource.plural)}{namespace or _CLUSTER}/{name}"


def under(resource: Resource, namespace: str | None = None) -> str:
    """Return the prefix of the keys of a resource's objects, in one namespace or everywhere."""
    return collection(resource.group, resource.plural, namespace)


def collection(group: str, plural: str, namespace: str | None = None) -> str:
    """Return `under` of a resource of which only group and plural are known."""
    root = f"{within(group)}{plural}/"
    return f"{root}{namespace}/" if namespace else root


def within(group: str) -> str:
    """Return the prefix of the keys of everything in an API group."""
    return f"/{group or _CORE}/"


def place(key: str) -> Place:
    """Return what a key says."""
    _, group, plural, namespace, name = key.split("/", 4)
    return Place("" if group == _CORE else group, plural, None if namespace == _CLUSTER else namespace, name)


def is_key(text: str) -> bool:
    """Return whether `place` can take the text apart."""
    return text.startswith("/") and len(text.split("/", 4)) == 5
