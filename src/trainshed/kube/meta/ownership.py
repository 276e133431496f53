"""Who controls what: controller references, as the API conventions define them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.selectors import LabelSelector


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


def controller_group(obj: Object) -> list[str]:
    """Return the group of an informer's index: the controller's uid, or the orphans of the namespace."""
    reference = controller_of(obj)
    return [reference["uid"] if reference else orphans_of(obj["metadata"].get("namespace", ""))]


def orphans_of(namespace: str) -> str:
    """Return the index group of objects without a controller."""
    return f"orphans/{namespace}"


class Family(msgspec.Struct, frozen=True):
    """The objects that an owner controls, those it should take over, and those it should let go of."""

    held: list[Object]
    adopt: list[Object]
    release: list[Object]


def family(owner: Object, candidates: Iterable[Object], selector: LabelSelector) -> Family:
    """Sort `candidates` into what `owner` controls by the rules of "Controller adoption".

    What is being deleted is neither adopted nor released.
    """
    out = Family([], [], [])
    uid, namespace = owner["metadata"]["uid"], owner["metadata"].get("namespace")
    for obj in candidates:
        metadata = obj["metadata"]
        reference = controller_of(obj)
        fits = selector.matches(section(metadata, "labels"))
        if reference is not None:
            if reference["uid"] == uid and (fits or metadata.get("deletionTimestamp")):
                out.held.append(obj)
            elif reference["uid"] == uid:
                out.release.append(obj)
        elif fits and metadata.get("namespace") == namespace and not metadata.get("deletionTimestamp"):
            out.adopt.append(obj)
    return out


def adoption(obj: Object, owner: Object) -> Object:
    """Return the merge patch that makes `owner` the controller of exactly this version of `obj`."""
    references = [*(obj["metadata"].get("ownerReferences") or ()), controller_reference(owner)]
    return _references(obj, references)


def without_owner(obj: Object, uid: str) -> Object:
    """Return the merge patch that drops the reference to `uid` from exactly this version of `obj`."""
    return _references(obj, [r for r in obj["metadata"].get("ownerReferences") or () if r["uid"] != uid])


def _references(obj: Object, references: list[Object]) -> Object:
    version = obj["metadata"]["resourceVersion"]
    return {"metadata": {"ownerReferences": references or None, "resourceVersion": version}}


def without_finalizer(obj: Object, finalizer: str) -> Object:
    """Return the merge patch that drops one finalizer from exactly this version of `obj`."""
    left = [f for f in obj["metadata"].get("finalizers") or () if f != finalizer]
    return {"metadata": {"finalizers": left or None, "resourceVersion": obj["metadata"]["resourceVersion"]}}
