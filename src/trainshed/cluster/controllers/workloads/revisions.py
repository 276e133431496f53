"""The history of a pod template as ControllerRevisions: which one is in force, what to write, what to forget. Pure.

Source: apps/v1 ControllerRevision; "kubectl rollout" reads names, numbers and data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from trainshed.cluster.controllers.workloads.rollout import template_hash
from trainshed.kube.meta.objects import Object, name_of, section
from trainshed.kube.meta.ownership import controller_reference
from trainshed.kube.meta.plan import Action, Create, Delete, Patch
from trainshed.kube.meta.resources import CONTROLLERREVISIONS

HASH_LABEL = "controller-revision-hash"
"""On revisions and pods; a pod has the name of its revision in a StatefulSet, and the bare hash in a DaemonSet."""


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
    known = sorted(revisions, key=_number)
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


def hash_of(revision: Object) -> str:
    """Return the hash that a revision's name ends in."""
    return str(section(revision, "metadata", "labels").get(HASH_LABEL, ""))


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
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{metadata['name']}-{digest}",
            "namespace": metadata["namespace"],
            "labels": {**section(owner, "spec", "template", "metadata", "labels"), HASH_LABEL: digest},
            "ownerReferences": [controller_reference(owner)],
        },
        "data": data,
        "revision": number,
    }


def _number(revision: Object) -> int:
    return int(revision.get("revision") or 0)
