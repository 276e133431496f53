"""What a StatefulSet needs next: revisions, claims, pods with names of their own, and its status. Pure.

Sources: apps/v1 StatefulSetSpec and StatefulSetStatus; "StatefulSets" in the Kubernetes documentation.

In order (`OrderedReady`): pods are made from the lowest ordinal and ended from the highest, one at a time, and nothing
goes on before every pod that should be there is available. `Parallel` waits for none when it makes or ends them. A
rollout always replaces one pod after the other, from the highest ordinal down to `partition`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from trainshed.cluster.controllers.workloads import revisions
from trainshed.cluster.controllers.workloads.revisions import HASH_LABEL, template_of
from trainshed.cluster.controllers.workloads.statefulset_claims import (
    claimed_volumes,
    claims,
    claims_of,
    is_stale,
    owners,
)
from trainshed.kube.meta.objects import Object, is_terminating, labels_of, name_of, section, status_of
from trainshed.kube.meta.ownership import adoption, controller_of, family, without_owner
from trainshed.kube.meta.plan import QUIET, Action, Adopt, Create, Delete, Event, Patch, Plan, Told
from trainshed.kube.meta.pods import available_in, from_template, is_finished, is_ready, phase
from trainshed.kube.meta.resources import PERSISTENTVOLUMECLAIMS, PODS
from trainshed.kube.meta.selectors import LabelSelector

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"


class Observed(msgspec.Struct, frozen=True):
    """One StatefulSet that is not being deleted, and what there is of it.

    Attributes:
        pods: those it controls, and the orphans of its namespace.
        revisions: its ControllerRevisions, and the orphans of its namespace.
        claims: the claims of its namespace, by name.
        now: seconds since the epoch.
    """

    stateful_set: Object
    pods: Sequence[Object]
    revisions: Sequence[Object]
    claims: Mapping[str, Object]
    now: float


class _Set:
    """One observation, read once."""

    def __init__(self, observed: Observed, pods: Sequence[Object]) -> None:
        self.object = observed.stateful_set
        spec = self.object["spec"]
        self.name = name_of(self.object)
        self.start = int(section(spec, "ordinals").get("start") or 0)
        self.ordinals = range(self.start, self.start + int(spec.get("replicas", 1)))
        self.ordered = spec.get("podManagementPolicy", "OrderedReady") != "Parallel"
        self.min_ready = int(spec.get("minReadySeconds") or 0)
        strategy = section(spec, "updateStrategy")
        self.rolling = strategy.get("type", "RollingUpdate") == "RollingUpdate"
        self.partition = int(section(strategy, "rollingUpdate").get("partition") or 0) if self.rolling else 0
        self.claim_templates: Sequence[Object] = spec.get("volumeClaimTemplates") or ()
        self.claims = dict(observed.claims)
        self.now = observed.now
        self.pods = {ordinal: pod for pod in pods if (ordinal := ordinal_of(self.name, pod)) is not None}
        self.history = revisions.history(
            self.object, observed.revisions, [labels_of(pod).get(HASH_LABEL, "") for pod in pods]
        )
        self.updated = name_of(self.history.current)
        known = {name_of(revision): revision for revision in observed.revisions}
        before = status_of(self.object).get("currentRevision") or self.updated
        self.current: str = before if before in known else self.updated
        self._current_template = template_of(known[self.current]) if self.current in known else None

    def wait(self, pod: Object) -> float | None:
        """Return in how many seconds the pod is available; None while it is not ready or ends."""
        return None if is_terminating(pod) else available_in(pod, self.min_ready, self.now)

    def is_healthy(self, pod: Object | None) -> bool:
        """Return whether the pod is there and available."""
        return pod is not None and self.wait(pod) == 0

    def revision_of(self, ordinal: int) -> str:
        """Return the revision that a new pod of this ordinal has."""
        return self.current if ordinal - self.start < self.partition else self.updated

    def template(self, revision: str) -> Object:
        """Return the pod template of a revision."""
        if revision == self.updated or self._current_template is None:
            return dict(self.object["spec"]["template"])
        return self._current_template


def ordinal_of(name: str, pod: Object) -> int | None:
    """Return the number that ends the pod's name, None where it is no pod of the set `name`."""
    found = re.fullmatch(re.escape(name) + r"-(0|[1-9]\d*)", name_of(pod))
    return int(found[1]) if found else None


def decide(observed: Observed) -> Plan:
    """Return the next step. Pods are adopted and released before they are counted."""
    stateful_set = observed.stateful_set
    mine = [
        pod
        for pod in observed.pods
        if controller_of(pod) is not None or ordinal_of(name_of(stateful_set), pod) is not None
    ]
    found = family(stateful_set, mine, selector_of(stateful_set))
    kept = revisions.adoptions(stateful_set, observed.revisions)
    if found.adopt or found.release or kept:
        uid = stateful_set["metadata"]["uid"]
        return Plan(
            actions=(
                *kept,
                *(Patch(resource=PODS, object=pod, patch=without_owner(pod, uid)) for pod in found.release),
                *(Adopt(resource=PODS, object=pod, patch=adoption(pod, stateful_set)) for pod in found.adopt),
            )
        )
    view = _Set(observed, found.held)
    waits = [wait for pod in view.pods.values() if (wait := view.wait(pod))]
    return Plan(
        actions=(*view.history.actions, *_claim_owners(view), *_steps(view)),
        status=_status(view),
        requeue_after=min(waits, default=None),
    )


def _steps(view: _Set) -> tuple[Action, ...]:
    """Return what makes, ends or replaces pods now."""
    out: list[Action] = []
    for ordinal in view.ordinals:
        pod = view.pods.get(ordinal)
        if pod is None:
            out += _creation(view, ordinal)
        elif is_finished(pod) and not is_terminating(pod):
            out.append(_deletion(view, pod))
        elif view.is_healthy(pod) or not view.ordered:
            continue
        if view.ordered:
            # The pods after it wait for this one; so does whatever is too much.
            return tuple(out)
    surplus = [view.pods[o] for o in sorted(view.pods, reverse=True) if o not in view.ordinals]
    if view.ordered and surplus:
        return () if is_terminating(surplus[0]) else (_deletion(view, surplus[0]),)
    out += [_deletion(view, pod) for pod in surplus if not is_terminating(pod)]
    return tuple(out) or tuple(_rollout(view))


def _rollout(view: _Set) -> Iterator[Action]:
    """Yield the deletion of the one pod that is replaced next."""
    if not view.rolling:
        return
    for ordinal in reversed(view.ordinals[view.partition :]):
        pod = view.pods[ordinal]
        if is_terminating(pod):
            return
        if labels_of(pod).get(HASH_LABEL) != view.updated:
            yield _deletion(view, pod)
            return
        if not view.is_healthy(pod):
            return


def _creation(view: _Set, ordinal: int) -> list[Action]:
    """Return what makes the pod of an ordinal, and before it those of its claims that are missing."""
    name, revision = f"{view.name}-{ordinal}", view.revision_of(ordinal)
    if any(is_stale(view.object, claim, name) for claim in claims_of(view.object, name, view.claims)):
        return []
    out: list[Action] = [
        Create(resource=PERSISTENTVOLUMECLAIMS, given=claim, told=_told("create", claim, view, name))
        for claim in claims(view.object, name)
        if name_of(claim) not in view.claims
    ]
    pod = from_template(view.object, view.template(revision), generate_name=f"{view.name}-")
    metadata, spec = pod["metadata"], pod["spec"]
    metadata["name"] = name
    own = {POD_NAME_LABEL: name, INDEX_LABEL: str(ordinal), HASH_LABEL: revision}
    metadata["labels"] = {**section(metadata, "labels"), **own}
    spec.setdefault("hostname", name)
    service = view.object["spec"].get("serviceName")
    if service:
        spec.setdefault("subdomain", service)
    claimed = {claim["metadata"]["name"] for claim in view.claim_templates}
    volumes = [volume for volume in spec.get("volumes") or () if volume["name"] not in claimed]
    for volume in claimed_volumes(view.claim_templates, name):
        volumes.append(volume)
    if volumes:
        spec["volumes"] = volumes
    return [*out, Create(resource=PODS, given=pod, told=_told("create", pod, view))]


def _claim_owners(view: _Set) -> Iterator[Action]:
    """Yield the changes of claims that other owners should have now: those of healthy pods, then of surplus ones."""
    for ordinal in view.ordinals:
        pod = view.pods.get(ordinal)
        if pod is not None and is_ready(pod) and not is_terminating(pod):
            yield from _owned(view, pod, told=True)
        elif view.ordered:
            return
    for ordinal in sorted(view.pods, reverse=True):
        if ordinal not in view.ordinals:
            yield from _owned(view, view.pods[ordinal], told=False)


def _owned(view: _Set, pod: Object, *, told: bool) -> Iterator[Action]:
    pod = {"apiVersion": "v1", "kind": "Pod", **pod}
    events = _told("update", pod, view) if told else QUIET
    for claim in claims_of(view.object, name_of(pod), view.claims):
        wanted = owners(view.object, claim, pod, scaled_away=not told)
        if wanted is not None and not is_terminating(claim):
            metadata = {"resourceVersion": claim["metadata"]["resourceVersion"], "ownerReferences": wanted}
            yield Patch(
                resource=PERSISTENTVOLUMECLAIMS, object=claim, patch={"metadata": metadata}, told=events
            )
            events = QUIET


def _deletion(view: _Set, pod: Object) -> Delete:
    delete = Delete.of(PODS, pod)
    return msgspec.structs.replace(delete, told=_told("delete", pod, view))


def _told(verb: str, obj: Object, view: _Set, pod: str = "") -> Told:
    """Return the events of a change, in the words of the StatefulSet controller."""
    if pod:
        what = f"{verb} Claim {name_of(obj)} Pod {pod} in StatefulSet {view.name}"
        good = f"{what} success"
    else:
        what = f"{verb} Pod {name_of(obj)} in StatefulSet {view.name}"
        good = f"{what} successful"
    word = verb.capitalize()
    return Told(
        (Event("Normal", f"Successful{word}", good),),
        Event("Warning", f"Failed{word}", f"{what} failed error: "),
    )


def _status(view: _Set) -> Object:
    """Return the status; zero counts other than `replicas` and `availableReplicas` are left out, as on the wire."""
    pods = list(view.pods.values())
    live = [pod for pod in pods if not is_terminating(pod)]
    hashes = [labels_of(pod).get(HASH_LABEL) for pod in live]
    # Those that end count for as long as they are ready.
    ready = [pod for pod in pods if phase(pod) == "Running" and is_ready(pod)]
    updated = hashes.count(view.updated)
    # The rollout is complete: what was new is what is in force. Whoever deletes pods by hand is never done.
    done = view.rolling and updated == len(pods) == len(ready) == len(view.ordinals)
    current = view.updated if done else view.current
    counts = {
        "readyReplicas": len(ready),
        "currentReplicas": hashes.count(current),
        "updatedReplicas": updated,
    }
    return {
        "observedGeneration": view.object["metadata"].get("generation", 0),
        "replicas": len(pods),
        **{name: count for name, count in counts.items() if count},
        "availableReplicas": sum(available_in(pod, view.min_ready, view.now) == 0 for pod in ready),
        "currentRevision": current,
        "updateRevision": view.updated,
        "collisionCount": 0,
    }


def selector_of(stateful_set: Object) -> LabelSelector:
    """Return which pods the set may have."""
    return LabelSelector.from_object(stateful_set["spec"].get("selector"))
