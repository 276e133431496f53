"""Which PersistentVolume a claim gets, and why each of the others does not fit.

Rules of the Kubernetes persistent volume controller (pkg/controller/volume/persistentvolume/index.go, v1.33):
same class, same volume mode, access modes covered, capacity at least as asked, selector matched; the smallest wins.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainshed.kube.meta import quantity
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.selectors import LabelSelector


class Match(msgspec.Struct, frozen=True):
    """The volume for a claim, or why there is none (one line per volume looked at)."""

    volume: Object | None = None
    why_not: tuple[str, ...] = ()


def match(claim: Object, volumes: Sequence[Object]) -> Match:
    """Return the volume for the claim.

    A volume that is reserved for the claim (`claimRef`) or named by it (`volumeName`) wins over all others.
    """
    wanted = claim["spec"].get("volumeName")
    for volume in volumes:
        deleting = volume["metadata"].get("deletionTimestamp")
        if refers_to(volume["spec"].get("claimRef"), claim) and not deleting:
            return Match(volume=volume)
    fitting: list[Object] = []
    why_not: list[str] = []
    for volume in sorted(volumes, key=lambda v: v["metadata"]["name"]):
        name = volume["metadata"]["name"]
        if wanted and name != wanted:
            continue
        problem = mismatch(claim, volume)
        if problem:
            why_not.append(f"{name}: {problem}")
        else:
            fitting.append(volume)
    if fitting:
        return Match(volume=min(fitting, key=lambda v: (capacity(v), v["metadata"]["name"])))
    if wanted and not why_not:
        why_not.append(f'volume "{wanted}" does not exist')
    return Match(why_not=tuple(why_not))


def mismatch(claim: Object, volume: Object) -> str:
    """Return the first rule that the volume breaks for the claim; empty when it fits."""
    spec, offer = claim["spec"], volume["spec"]
    if volume["metadata"].get("deletionTimestamp"):
        return "is being deleted"
    reference = offer.get("claimRef")
    if reference:
        return f"is claimed by {reference.get('namespace')}/{reference.get('name')}"
    if (spec.get("storageClassName") or "") != (offer.get("storageClassName") or ""):
        return f'storageClassName is "{offer.get("storageClassName", "")}", not "{spec.get("storageClassName", "")}"'
    if spec.get("volumeMode", "Filesystem") != offer.get("volumeMode", "Filesystem"):
        return f"volumeMode is {offer.get('volumeMode', 'Filesystem')}"
    missing = set(spec.get("accessModes") or ()) - set(offer.get("accessModes") or ())
    if missing:
        return f"accessModes lack {', '.join(sorted(missing))}"
    selector = spec.get("selector")
    if selector and not LabelSelector.from_object(selector).matches(section(volume["metadata"], "labels")):
        return "labels do not match the claim's selector"
    if capacity(volume) < requested(claim):
        return (
            f"capacity {offer['capacity']['storage']} is less than {spec['resources']['requests']['storage']}"
        )
    return ""


def capacity(volume: Object) -> float:
    """Return the volume's size in bytes."""
    return float(quantity.parse(section(volume["spec"], "capacity").get("storage", 0)))


def requested(claim: Object) -> float:
    """Return the size the claim asks for in bytes."""
    resources = section(claim["spec"], "resources")
    return float(quantity.parse(section(resources, "requests").get("storage", 0)))


def refers_to(reference: Object | None, claim: Object) -> bool:
    """Return whether a volume's `claimRef` means this claim; one without a uid is a reservation by name."""
    if not reference:
        return False
    metadata = claim["metadata"]
    return (
        reference.get("namespace") == metadata["namespace"]
        and reference.get("name") == metadata["name"]
        and reference.get("uid") in (None, "", metadata.get("uid"))
    )
