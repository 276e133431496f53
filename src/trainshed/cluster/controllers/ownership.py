"""Who controls what: controller references, as the API conventions define them."""

from __future__ import annotations

from collections.abc import Iterable

from trainshed.kube.resources import Object


def controller_reference(owner: Object) -> Object:
    """Return the ownerReference of an object that `owner` controls."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(obj: Object) -> Object | None:
    """Return the reference to the object's controller."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return dict(reference)
    return None


def controlled_by(owner: Object, objects: Iterable[Object]) -> list[Object]:
    """Return the objects whose controller is `owner`."""
    uid = owner["metadata"]["uid"]
    return [o for o in objects if (reference := controller_of(o)) is not None and reference["uid"] == uid]
