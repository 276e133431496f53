"""What a Deployment needs next: its sets adopted, made, scaled, numbered and pruned, and its status. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec

from trainshed.cluster.controllers.workloads import rollout
from trainshed.cluster.controllers.workloads.deployment_status import deployment_status, is_complete
from trainshed.kube.meta.objects import Object, copy_tree, is_terminating, metadata_of, section, status_of
from trainshed.kube.meta.ownership import adoption, controller_reference, family, without_owner
from trainshed.kube.meta.plan import QUIET, Action, Adopt, Create, Delete, Event, Patch, Plan, Told
from trainshed.kube.meta.resources import DEPLOYMENTS, REPLICASETS
from trainshed.kube.meta.selectors import LabelSelector

_NOT_COPIED = (
    rollout.REVISION,
    rollout.REVISION_HISTORY,
    rollout.DESIRED,
    rollout.MOST,
    rollout.LAST_APPLIED,
    "deprecated.deployment.rollback.to",
)
_MOST_HISTORY = 2000
"""Characters of the list of revisions that a set had."""


class Observed(msgspec.Struct, frozen=True):
    """One Deployment that is not being deleted.

    `sets`: the ReplicaSets that it controls, and the orphans of its namespace. `busy`: uids of the sets that still have
    pods, ending ones too.
    """

    deployment: Object
    sets: Sequence[Object]
    busy: Collection[str]
    now: float


def decide(observed: Observed) -> Plan:
    """Return the next step. Sets are adopted and released before anything is scaled."""
    deployment = observed.deployment
    found = family(deployment, observed.sets, LabelSelector.from_object(deployment["spec"]["selector"]))
    if found.adopt or found.release:
        uid = deployment["metadata"]["uid"]
        return Plan(
            actions=(
                *(
                    Patch(resource=REPLICASETS, object=rs, patch=without_owner(rs, uid))
                    for rs in found.release
                ),
                *(
                    Adopt(resource=REPLICASETS, object=rs, patch=adoption(rs, deployment))
                    for rs in found.adopt
                ),
            )
        )
    sets = [rs for rs in found.held if not is_terminating(rs)]
    new = rollout.new_set(deployment, sets)
    old = [rs for rs in sets if rs is not new]
    old_pods = any(rs["metadata"]["uid"] in observed.busy for rs in old)
    scales = rollout.scales(deployment, new, old, old_pods=old_pods)
    creation = tuple(_creation(deployment, old, scales))
    status, timeout = deployment_status(
        deployment,
        new,
        old,
        observed.now,
        creating=creation[0].object["metadata"]["name"] if creation else "",
        rescaled=rollout.is_rescaled(deployment, sets),
    )
    over = is_complete(deployment, status) or deployment["spec"].get("paused")
    return Plan(
        actions=(
            *creation,
            *_changes(deployment, new, old, scales),
            *(_prunings(deployment, old) if over else ()),
        ),
        status=status,
        requeue_after=timeout,
    )


def _creation(deployment: Object, old: Sequence[Object], scales: dict[str, int]) -> Iterator[Create]:
    """Make the set of the current template while there is none."""
    if "" in scales:
        replica_set = _replica_set(deployment, old, scales[""])
        told = _scaled(replica_set, 0, scales[""]) if scales[""] else QUIET
        yield Create(resource=REPLICASETS, given=replica_set, told=told)


def _changes(
    deployment: Object, new: Object | None, old: Sequence[Object], scales: dict[str, int]
) -> Iterator[Action]:
    """Scale the sets; give the new one the highest revision (a rollback makes an old one the newest)."""
    revision = str(_next_revision(old) if new is None else max(rollout.revision(new), _next_revision(old)))
    sets = [*([new] if new else []), *old]
    resized = rollout.is_rescaled(deployment, sets)
    for rs in sets:
        fields: dict[str, Any] = {}
        wanted: dict[str, str] = {}
        told = QUIET
        have = rollout.replicas(rs)
        count = scales.get(rs["metadata"]["name"], have)
        if count != have:
            fields["replicas"] = count
            told = _scaled(rs, have, count)
        if count != have or (have and resized):
            wanted |= rollout.scale_notes(deployment)
        if rs is new:
            wanted |= {**_copied_annotations(deployment), **_numbered(rs, revision)}
            ready = deployment["spec"].get("minReadySeconds", 0)
            if rs["spec"].get("minReadySeconds", 0) != ready:
                fields["minReadySeconds"] = ready
        if wanted.items() <= section(rs["metadata"], "annotations").items():
            wanted = {}
        if fields or wanted:
            metadata: dict[str, Any] = {"resourceVersion": rs["metadata"]["resourceVersion"]}
            if wanted:
                metadata["annotations"] = wanted
            yield Patch(
                resource=REPLICASETS, object=rs, patch={"metadata": metadata, "spec": fields}, told=told
            )
    numbered = section(deployment["metadata"], "annotations").get(rollout.REVISION)
    if new is not None and numbered != revision:
        patch = {"metadata": {"annotations": {rollout.REVISION: revision}}}
        yield Patch(resource=DEPLOYMENTS, object=deployment, patch=patch, subresource="status")


def _numbered(replica_set: Object, revision: str) -> dict[str, str]:
    """Return the annotations of its revision; one that was rolled back to keeps those that it had before."""
    annotations = section(replica_set["metadata"], "annotations")
    had = annotations.get(rollout.REVISION)
    if not had or had == revision:
        return {rollout.REVISION: revision}
    history = annotations.get(rollout.REVISION_HISTORY)
    earlier = f"{history},{had}" if history else had
    return {rollout.REVISION: revision, rollout.REVISION_HISTORY: earlier[-_MOST_HISTORY:]}


def _prunings(deployment: Object, old: Sequence[Object]) -> Iterator[Action]:
    """Delete the oldest sets beyond revisionHistoryLimit, unless they have pods."""
    limit = int(deployment["spec"].get("revisionHistoryLimit", 10))
    for rs in sorted(old, key=rollout.revision)[: max(len(old) - limit, 0)]:
        if not rollout.replicas(rs) and not rollout.count(rs, "replicas"):
            yield Delete.of(REPLICASETS, rs, propagation="Background")


def _scaled(replica_set: Object, have: int, count: int) -> Told:
    direction = "up" if count > have else "down"
    text = f"Scaled {direction} replica set {replica_set['metadata']['name']} from {have} to {count}"
    return Told((Event("Normal", "ScalingReplicaSet", text),))


def _next_revision(old: Sequence[Object]) -> int:
    return 1 + max((rollout.revision(rs) for rs in old), default=0)


def _copied_annotations(deployment: Object) -> dict[str, str]:
    """Return the annotations that a set takes over, `kubernetes.io/change-cause` for `rollout history` above all."""
    annotations = section(deployment["metadata"], "annotations")
    return {name: value for name, value in annotations.items() if name not in _NOT_COPIED}


def _replica_set(deployment: Object, old: Sequence[Object], count: int) -> Object:
    metadata, spec = deployment["metadata"], deployment["spec"]
    collisions = int(status_of(deployment).get("collisionCount") or 0)
    wanted = rollout.template_hash(spec["template"], collisions)
    template, selector = copy_tree(spec["template"]), copy_tree(spec["selector"])
    labels = {**section(template, "metadata", "labels"), rollout.HASH_LABEL: wanted}
    template["metadata"] = {**metadata_of(template), "labels": labels}
    selector["matchLabels"] = {**section(selector, "matchLabels"), rollout.HASH_LABEL: wanted}
    annotations = {
        **_copied_annotations(deployment),
        rollout.REVISION: str(_next_revision(old)),
        **rollout.scale_notes(deployment),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name']}-{wanted}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": {
            "replicas": count,
            "selector": selector,
            "template": template,
            "minReadySeconds": spec.get("minReadySeconds", 0),
        },
    }
