"""What a DaemonSet needs next: a pod on each node that it is for, replaced node by node, and its status. Pure.

Sources: apps/v1 DaemonSetSpec and DaemonSetStatus; "DaemonSet" and "Perform a Rolling Update on a DaemonSet" in the
Kubernetes documentation.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainshed.cluster.controllers.workloads import revisions
from trainshed.cluster.controllers.workloads.podactions import creation, deletion
from trainshed.cluster.controllers.workloads.revisions import HASH_LABEL, hash_of
from trainshed.cluster.controllers.workloads.rollout import absolute
from trainshed.kube.builtin.apps.daemonset import template_generation
from trainshed.kube.meta.nodeselection import is_selected, tolerated
from trainshed.kube.meta.objects import Object, is_terminating, labels_of, name_of, section, spec_of
from trainshed.kube.meta.ownership import adoption, family, without_owner
from trainshed.kube.meta.plan import Action, Adopt, Event, Patch, Plan
from trainshed.kube.meta.pods import available_in, from_template, is_finished, is_ready, phase
from trainshed.kube.meta.resources import PODS
from trainshed.kube.meta.selectors import LabelSelector

GENERATION_LABEL = "pod-template-generation"
_NODE_TAINTS = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
"""What a daemon stays in spite of."""


class Observed(msgspec.Struct, frozen=True):
    """One DaemonSet that is not being deleted.

    Attributes:
        pods: those it controls, and the orphans of its namespace.
        revisions: its ControllerRevisions, and the orphans of its namespace.
        nodes: all of the cluster.
        now: seconds since the epoch.
    """

    daemon_set: Object
    pods: Sequence[Object]
    revisions: Sequence[Object]
    nodes: Sequence[Object]
    now: float


class _Place(msgspec.Struct):
    """One node, and the pods of the set that are on it or meant for it."""

    name: str
    wanted: bool
    may_stay: bool
    old: list[Object]
    new: list[Object]

    @property
    def live(self) -> list[Object]:
        return [pod for pod in (*self.old, *self.new) if not is_terminating(pod)]


class _View:
    """One observation, read once."""

    def __init__(self, observed: Observed, pods: Sequence[Object]) -> None:
        self.object = observed.daemon_set
        self.now = observed.now
        spec = spec_of(self.object)
        self.min_ready = int(spec.get("minReadySeconds") or 0)
        self.history = revisions.history(
            self.object, observed.revisions, [labels_of(pod).get(HASH_LABEL, "") for pod in pods]
        )
        self.hash = hash_of(self.history.current)
        template = {"spec": _daemon_spec(spec_of(section(spec, "template")))}
        by_node: dict[str, list[Object]] = {}
        for pod in pods:
            by_node.setdefault(node_of(pod), []).append(pod)
        self.places = []
        for node in sorted(observed.nodes, key=name_of):
            held = by_node.pop(name_of(node), [])
            new = [pod for pod in held if labels_of(pod).get(HASH_LABEL) == self.hash]
            old = [pod for pod in held if labels_of(pod).get(HASH_LABEL) != self.hash]
            wanted, may_stay = _suits(template, node)
            self.places.append(_Place(name_of(node), wanted, may_stay, old, new))
        self.lost = [pod for held in by_node.values() for pod in held]
        """Pods whose node is gone."""
        strategy = section(spec, "updateStrategy")
        rolling = section(strategy, "rollingUpdate")
        self.rolls = strategy.get("type", "RollingUpdate") == "RollingUpdate"
        desired = sum(place.wanted for place in self.places)
        self.surge = absolute(rolling.get("maxSurge", 0), desired, up=True)
        self.unavailable = absolute(rolling.get("maxUnavailable", 1), desired, up=True)
        if not self.surge and not self.unavailable:
            self.unavailable = 1

    def is_available(self, pod: Object) -> bool:
        return not is_terminating(pod) and available_in(pod, self.min_ready, self.now) == 0


def node_of(pod: Object) -> str:
    """Return the node that a daemon's pod is on or, before it is bound, meant for."""
    spec = spec_of(pod)
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = section(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for term in affinity.get("nodeSelectorTerms") or ():
        for rule in term.get("matchFields") or ():
            if rule.get("key") == "metadata.name" and rule.get("values"):
                return str(rule["values"][0])
    return ""


def _daemon_spec(spec: Object) -> Object:
    """Return a pod's spec with the tolerations of a daemon."""
    tolerations = list(spec.get("tolerations") or ())
    taints = [*_NODE_TAINTS]
    if spec.get("hostNetwork"):
        taints.append(("node.kubernetes.io/network-unavailable", "NoSchedule"))
    for key, effect in taints:
        toleration = {"key": key, "operator": "Exists", "effect": effect}
        if toleration not in tolerations:
            tolerations.append(toleration)
    return {**spec, "tolerations": tolerations}


def _suits(pod: Object, node: Object) -> tuple[bool, bool]:
    """Return whether the node should get a pod, and whether one that is there may stay."""
    spec = spec_of(pod)
    if spec.get("nodeName") not in (None, "", name_of(node)) or not is_selected(pod, node):
        return False, False
    against = {
        taint.get("effect")
        for taint in spec_of(node).get("taints") or ()
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not tolerated(taint, spec["tolerations"])
    }
    return not against, "NoExecute" not in against


def decide(observed: Observed) -> Plan:
    """Return the next step. Pods are adopted and released before they are counted."""
    daemon_set = observed.daemon_set
    selector = LabelSelector.from_object(spec_of(daemon_set).get("selector"))
    found = family(daemon_set, observed.pods, selector)
    kept = revisions.adoptions(daemon_set, observed.revisions)
    if found.adopt or found.release or kept:
        uid = daemon_set["metadata"]["uid"]
        return Plan(
            actions=(
                *kept,
                *(Patch(resource=PODS, object=pod, patch=without_owner(pod, uid)) for pod in found.release),
                *(Adopt(resource=PODS, object=pod, patch=adoption(pod, daemon_set)) for pod in found.adopt),
            )
        )
    view = _View(observed, found.held)
    waits = [
        wait
        for place in view.places
        for pod in place.live
        if (wait := available_in(pod, view.min_ready, view.now))
    ]
    ended, events = _ended(view)
    gone = {pod["metadata"]["uid"] for pod in ended}
    manage, nodes = _managed(view, gone)
    ended += manage
    gone |= {pod["metadata"]["uid"] for pod in manage}
    if view.rolls:
        replaced, more = _rollout(view, gone)
        ended += replaced
        nodes += more
    actions: list[Action] = [*view.history.actions]
    actions += [deletion(pod) for pod in ended]
    actions += [creation(_new_pod(view, node)) for node in nodes]
    return Plan(
        actions=tuple(actions),
        status=_status(view),
        events=tuple(events),
        requeue_after=min(waits, default=None),
    )


def _ended(view: _View) -> tuple[list[Object], list[Event]]:
    """Return the pods that have ended, which make room for new ones, and what is told of them."""
    out, events = [], []
    for place in view.places:
        for pod in place.live:
            if not place.may_stay or not is_finished(pod):
                continue
            failed = phase(pod) == "Failed"
            word = "failed" if failed else "succeeded"
            text = (
                f"Found {word} daemon pod {pod['metadata']['namespace']}/{name_of(pod)} on node {place.name},"
                f" will try to {'kill' if failed else 'delete'} it"
            )
            reason = f"{word.capitalize()}DaemonPod"
            events.append(Event("Warning" if failed else "Normal", reason, text))
            out.append(pod)
    return out, events


def _managed(view: _View, gone: set[str]) -> tuple[list[Object], list[str]]:
    """Return the pods that are too many, and the nodes that lack one."""
    ending = [pod for pod in view.lost if not is_terminating(pod)]
    nodes: list[str] = []
    for place in view.places:
        live = [pod for pod in place.live if pod["metadata"]["uid"] not in gone]
        if place.wanted and not place.old and not place.new:
            nodes.append(place.name)
        elif not place.may_stay:
            ending += live
        else:
            for same in (place.old, place.new):
                extra = sorted(
                    (pod for pod in live if pod in same),
                    key=lambda pod: str(pod["metadata"]["creationTimestamp"]),
                )
                ending += extra[1:]
    return ending, nodes


def _rollout(view: _View, gone: set[str]) -> tuple[list[Object], list[str]]:
    """Return the old pods that go now, and the nodes that get a new pod beside the old one."""
    if view.surge:
        return _surging(view, gone)
    lacking = sum(
        not any(
            view.is_available(pod) for pod in (*place.old, *place.new) if pod["metadata"]["uid"] not in gone
        )
        for place in view.places
        if place.wanted
    )
    free: list[Object] = []
    candidates: list[Object] = []
    for place in view.places:
        for pod in place.old:
            if not place.wanted or is_terminating(pod) or pod["metadata"]["uid"] in gone:
                continue
            (candidates if view.is_available(pod) else free).append(pod)
    return [*free, *candidates[: max(view.unavailable - lacking, 0)]], []


def _surging(view: _View, gone: set[str]) -> tuple[list[Object], list[str]]:
    ending: list[Object] = []
    at_once: list[str] = []
    candidates: list[str] = []
    surging = 0
    for place in view.places:
        old = [p for p in place.old if not is_terminating(p) and p["metadata"]["uid"] not in gone]
        if not place.wanted or not old:
            continue
        if place.new:
            if any(view.is_available(pod) for pod in place.new):
                ending += old
            else:
                surging += 1
        elif any(view.is_available(pod) for pod in old):
            candidates.append(place.name)
        else:
            at_once.append(place.name)
    return ending, [*at_once, *candidates[: max(view.surge - surging, 0)]]


def _new_pod(view: _View, node: str) -> Object:
    """Return a pod that only this node can take."""
    owner = view.object
    pod = from_template(owner, owner["spec"]["template"], generate_name=f"{name_of(owner)}-")
    metadata = pod["metadata"]
    labels = {HASH_LABEL: view.hash, GENERATION_LABEL: template_generation(view.object)}
    metadata["labels"] = {**section(metadata, "labels"), **labels}
    spec = _daemon_spec(pod["spec"])
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = section(spec, "affinity")
    spec["affinity"] = {
        **affinity,
        "nodeAffinity": {
            **section(affinity, "nodeAffinity"),
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
        },
    }
    return {**pod, "spec": spec}


def _status(view: _View) -> Object:
    counts = {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
        "updatedNumberScheduled": 0,
        "numberAvailable": 0,
    }
    for place in view.places:
        pods = (*place.old, *place.new)
        if not place.wanted:
            counts["numberMisscheduled"] += bool(pods)
            continue
        counts["desiredNumberScheduled"] += 1
        if not pods:
            continue
        counts["currentNumberScheduled"] += 1
        # The one that has a node, of several the oldest, speaks for the node: a newer one beside it is extra.
        pod = min(pods, key=_seniority)
        if is_ready(pod):
            counts["numberReady"] += 1
            counts["numberAvailable"] += available_in(pod, view.min_ready, view.now) == 0
        counts["updatedNumberScheduled"] += pod in place.new
    counts["numberUnavailable"] = counts["desiredNumberScheduled"] - counts["numberAvailable"]
    optional = ("updatedNumberScheduled", "numberAvailable", "numberUnavailable")
    shown = {name: count for name, count in counts.items() if count or name not in optional}
    return {"observedGeneration": view.object["metadata"].get("generation", 0), **shown}


def _seniority(pod: Object) -> tuple[bool, str, str]:
    return not spec_of(pod).get("nodeName"), str(pod["metadata"]["creationTimestamp"]), name_of(pod)
