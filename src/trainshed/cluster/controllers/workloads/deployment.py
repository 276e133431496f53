"""What a Deployment needs next: its sets adopted, made, scaled, numbered and pruned, and its status. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec

from trainshed.cluster.controllers.workloads import rollout
from trainshed.cluster.controllers.workloads.deployment_status import deployment_status
from trainshed.kube.meta.objects import Object, copy_tree, is_terminating, metadata_of, section, status_of
from trainshed.kube.meta.ownership import adoption, controller_reference, family, without_owner
from trainshed.kube.meta.plan import QUIET, Action, Adopt, Create, Delete, Event, Patch, Plan, Told
from trainshed.kube.meta.resources import DEPLOYMENTS, REPLICASETS
from trainshed.kube.meta.selectors import LabelSelector


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
    status, timeout = deployment_status(deployment, new, old, observed.now)
    return Plan(
        actions=(
            *_creation(deployment, old, scales),
            *_changes(deployment, new, old, scales),
            *_prunings(deployment, old),
        ),
        status=status,
        requeue_after=timeout,
    )


def _creation(deployment: Object, old: Sequence[Object], scales: dict[str, int]) -> Iterator[Action]:
    """Make the set of the current template while there is none."""
    if "" in scales:
        replica_set = _replica_set(deployment, old, scales[""])
        told = _scaled(replica_set, 0, scales[""])
        yield Create(resource=REPLICASETS, given=replica_set, told=told)


def _changes(
    deployment: Object, new: Object | None, old: Sequence[Object], scales: dict[str, int]
) -> Iterator[Action]:
    """Scale the sets; give the new one the highest revision (a rollback makes an old one the newest)."""
    revision = str(_next_revision(old) if new is None else max(rollout.revision(new), _next_revision(old)))
    for rs in (new, *old):
        if rs is None:
            continue
        fields: dict[str, Any] = {}
        annotations: dict[str, str] = {}
        told = QUIET
        have = rollout.replicas(rs)
        count = scales.get(rs["metadata"]["name"], have)
        if count != have:
            fields["replicas"] = count
            told = _scaled(rs, have, count)
        if rs is new:
            wanted = {**_copied_annotations(deployment), rollout.REVISION: revision}
            if not wanted.items() <= section(rs["metadata"], "annotations").items():
                annotations = wanted
            ready = deployment["spec"].get("minReadySeconds", 0)
            if rs["spec"].get("minReadySeconds", 0) != ready:
                fields["minReadySeconds"] = ready
        if fields or annotations:
            metadata: dict[str, Any] = {"resourceVersion": rs["metadata"]["resourceVersion"]}
            if annotations:
                metadata["annotations"] = annotations
            yield Patch(
                resource=REPLICASETS, object=rs, patch={"metadata": metadata, "spec": fields}, told=told
            )
    numbered = section(deployment["metadata"], "annotations").get(rollout.REVISION)
    if new is not None and numbered != revision:
        patch = {"metadata": {"annotations": {rollout.REVISION: revision}}}
        yield Patch(resource=DEPLOYMENTS, object=deployment, patch=patch, subresource="status")


def _prunings(deployment: Object, old: Sequence[Object]) -> Iterator[Action]:
    """Delete the oldest empty sets beyond revisionHistoryLimit."""
    limit = int(deployment["spec"].get("revisionHistoryLimit", 10))
    empty = [rs for rs in old if not rollout.replicas(rs) and not rollout.count(rs, "replicas")]
    for rs in sorted(empty, key=rollout.revision)[: max(len(empty) - limit, 0)]:
        yield Delete.of(REPLICASETS, rs, propagation="Background")


def _scaled(replica_set: Object, have: int, count: int) -> Told:
    direction = "up" if count > have else "down"
    text = f"Scaled {direction} replica set {replica_set['metadata']['name']} from {have} to {count}"
    return Told((Event("Normal", "ScalingReplicaSet", text),))


def _next_revision(old: Sequence[Object]) -> int:
    return 1 + max((rollout.revision(rs) for rs in old), default=0)


def _copied_annotations(deployment: Object) -> dict[str, str]:
    """Return the annotations that a set takes over, `kubernetes.io/change-cause` for `rollout history` above all."""
    ours = (rollout.REVISION, rollout.LAST_APPLIED)
    return {k: v for k, v in section(deployment["metadata"], "annotations").items() if k not in ours}


def _replica_set(deployment: Object, old: Sequence[Object], count: int) -> Object:
    metadata, spec = deployment["metadata"], deployment["spec"]
    collisions = int(status_of(deployment).get("collisionCount") or 0)
    wanted = rollout.template_hash(spec["template"], collisions)
    template, selector = copy_tree(spec["template"]), copy_tree(spec["selector"])
    labels = {**section(template, "metadata", "labels"), rollout.HASH_LABEL: wanted}
    template["metadata"] = {**metadata_of(template), "labels": labels}
    selector["matchLabels"] = {**section(selector, "matchLabels"), rollout.HASH_LABEL: wanted}
    annotations = {**_copied_annotations(deployment), rollout.REVISION: str(_next_revision(old))}
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
