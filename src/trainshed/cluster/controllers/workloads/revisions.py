"""The history of a pod template as ControllerRevisions: which one is in force, what to write, what to forget. Pure.

Source: apps/v1 ControllerRevision; "kubectl rollout" reads names, numbers and data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from trainshed.cluster.controllers.workloads.rollout import template_hash
from trainshed.kube.meta.objects import Object, controller_uid, name_of, section
from trainshed.kube.meta.ownership import adoption, controller_reference, family
from trainshed.kube.meta.plan import Action, Adopt, Create, Delete, Patch
from trainshed.kube.meta.resources import CONTROLLERREVISIONS
from trainshed.kube.meta.selectors import LabelSelector

HASH_LABEL = "controller-revision-hash"
"""On pods: the name of their revision in a StatefulSet, the bare hash in a DaemonSet, whose revisions have it, too."""
_SET_HASH_LABEL = "controller.kubernetes.io/hash"
"""On the revisions of a StatefulSet."""


class History(msgspec.Struct, frozen=True):
    """The revisions of one workload, and what brings them to the template that it has now."""

    current: Object
    actions: tuple[Action, ...]


def history(owner: Object, revisions: Sequence[Object], live: Iterable[str]) -> History:
    """Return the revision of the template of `owner`, and the changes of `revisions` that it needs.

    A template that was there before gets its revision back, with the highest number. `live` are the hashes or names
    that pods have: those revisions are never forgotten, of the others as many are kept as
    `spec.revisionHistoryLimit` says.
    """
    template = owner["spec"]["template"]
    wanted = _data(template)
    known = sorted((r for r in revisions if controller_uid(r) == owner["metadata"]["uid"]), key=_number)
    found = next((r for r in reversed(known) if r.get("data") == wanted), None)
    last = _number(known[-1]) if known else 0
    actions: list[Action] = []
    if found is None:
        found = _revision(owner, wanted, last + 1)
        actions.append(Create(resource=CONTROLLERREVISIONS, given=found))
    elif _number(found) < last:
        actions.append(Patch(resource=CONTROLLERREVISIONS, object=found, patch={"revision": last + 1}))
    used = {name_of(found), *live}
    idle = [r for r in known if name_of(r) not in used and hash_of(r) not in used]
    surplus = max(len(idle) - int(owner["spec"].get("revisionHistoryLimit", 10)), 0)
    actions += [Delete.of(CONTROLLERREVISIONS, r) for r in idle[:surplus]]
    return History(found, tuple(actions))


def adoptions(owner: Object, revisions: Sequence[Object]) -> tuple[Action, ...]:
    """Return what takes over the revisions that an owner of before has left: those with the labels of its pods."""
    selector = LabelSelector.from_object(section(owner, "spec").get("selector"))
    return tuple(
        Adopt(resource=CONTROLLERREVISIONS, object=revision, patch=adoption(revision, owner))
        for revision in family(owner, revisions, selector).adopt
    )


def hash_of(revision: Object) -> str:
    """Return the hash that a revision's name ends in."""
    labels = section(revision, "metadata", "labels")
    return str(labels.get(_SET_HASH_LABEL) or labels.get(HASH_LABEL, ""))


def template_of(revision: Object) -> Object:
    """Return the pod template that a revision keeps."""
    template = dict(section(revision, "data", "spec", "template"))
    template.pop("$patch", None)
    return template


def _data(template: Object) -> Object:
    # The form is a strategic merge patch: what `kubectl rollout undo` sends.
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def _revision(owner: Object, data: Object, number: int) -> Object:
    metadata: dict[str, Any] = owner["metadata"]
    digest = template_hash(owner["spec"]["template"])
    of_set = owner.get("kind") == "StatefulSet"
    label = _SET_HASH_LABEL if of_set else HASH_LABEL
    given = {
        "name": f"{metadata['name']}-{digest}",
        "namespace": metadata["namespace"],
        "labels": {**section(owner, "spec", "template", "metadata", "labels"), label: digest},
        "ownerReferences": [controller_reference(owner)],
    }
    if annotations := metadata.get("annotations"):
        # `kubernetes.io/change-cause` among them, for `rollout history`.
        given["annotations"] = annotations
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": given,
        "data": data,
        "revision": number,
    }


def _number(revision: Object) -> int:
    return int(revision.get("revision") or 0)
