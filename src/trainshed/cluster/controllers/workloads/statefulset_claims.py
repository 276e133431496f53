"""Claims of a StatefulSet's pods: what they are made of, and who owns them by the retention policy. Pure.

Source: apps/v1 StatefulSetPersistentVolumeClaimRetentionPolicy (KEP-1847). A claim that shall go is not deleted by the
controller: it gets an owner whose end takes it along. With `whenDeleted: Delete` that is the set; with `whenScaled:
Delete` it is the pod, once the set has become too small for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainshed.kube.meta.objects import Object, name_of, section
from trainshed.kube.meta.ownership import controller_reference


def claimed_volumes(templates: Sequence[Object], pod: str) -> Iterator[Object]:
    """Yield the volumes of a pod that are its own claims."""
    for template in templates:
        name = template["metadata"]["name"]
        yield {"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{pod}"}}


def claims(stateful_set: Object, pod: str) -> Iterator[Object]:
    """Yield the claims of a pod that the set wants: labelled for it, and owned as the retention policy says."""
    labels = section(stateful_set["spec"], "selector", "matchLabels")
    for template in stateful_set["spec"].get("volumeClaimTemplates") or ():
        metadata: Object = {
            **template["metadata"],
            "name": f"{template['metadata']['name']}-{pod}",
            "namespace": stateful_set["metadata"]["namespace"],
            "labels": {**section(template["metadata"], "labels"), **labels},
        }
        if _policy(stateful_set, "whenDeleted"):
            metadata["ownerReferences"] = [controller_reference(stateful_set)]
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata,
            "spec": template["spec"],
        }


def claims_of(stateful_set: Object, pod: str, known: dict[str, Object]) -> list[Object]:
    """Return those of `known` that are claims of the pod."""
    templates = stateful_set["spec"].get("volumeClaimTemplates") or ()
    names = [f"{template['metadata']['name']}-{pod}" for template in templates]
    return [known[name] for name in names if name in known]


def is_stale(stateful_set: Object, claim: Object, pod: str) -> bool:
    """Return whether the claim goes with an earlier pod of that name: it is no use to the next one."""
    if not _policy(stateful_set, "whenScaled"):
        return False
    return any(_is_of(owner, "Pod", pod) for owner in _owners(claim))


def owners(stateful_set: Object, claim: Object, pod: Object, *, scaled_away: bool) -> list[Object] | None:
    """Return the owners that the claim of a pod should have, None when it has them."""
    had = _owners(claim)
    uids = {
        ("StatefulSet", name_of(stateful_set)): stateful_set["metadata"]["uid"],
        ("Pod", name_of(pod)): pod["metadata"]["uid"],
    }
    ours, others = [], []
    for owner in had:
        uid = next((uid for (kind, name), uid in uids.items() if _is_of(owner, kind, name)), None)
        if uid is None:
            others.append(owner)
            continue
        if owner.get("uid") != uid:
            return None  # It goes with a set or a pod of before.
        ours.append(owner)
    wanted: list[Object] = []
    # A claim that somebody else controls is theirs.
    if not any(owner.get("controller") for owner in others):
        if scaled_away and _policy(stateful_set, "whenScaled"):
            wanted.append(controller_reference(pod))
        elif _policy(stateful_set, "whenDeleted"):
            wanted.append(controller_reference(stateful_set))
    if [_key(owner) for owner in ours] == [_key(owner) for owner in wanted]:
        return None
    return [*others, *wanted]


def _policy(stateful_set: Object, when: str) -> bool:
    policy = section(stateful_set["spec"], "persistentVolumeClaimRetentionPolicy")
    return bool(policy.get(when) == "Delete")


def _owners(claim: Object) -> list[Object]:
    found: list[Object] = claim["metadata"].get("ownerReferences") or []
    return found


def _is_of(owner: Object, kind: str, name: str) -> bool:
    group = "apps/" if kind == "StatefulSet" else "v1"
    return bool(
        owner.get("kind") == kind
        and owner.get("name") == name
        and owner.get("apiVersion", "").startswith(group)
    )


def _key(owner: Object) -> tuple[str, bool]:
    return owner["uid"], bool(owner.get("controller"))
