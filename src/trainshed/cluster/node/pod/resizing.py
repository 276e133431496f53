"""Other amounts of CPU and memory for a pod that is on the node: whether there is room, and what is left to do. Pure.

    spec ──room?──▶ allocated ──▶ in force, for each container that runs: at once, or by its restart

Source: pkg/kubelet/kubelet.go (`handlePodResourcesResize`, `canResizePod`), pkg/kubelet/kuberuntime
(`computePodResizeAction`), pkg/kubelet/lifecycle/predicate.go for the words, all of Kubernetes 1.33.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import msgspec

from trainshed.cluster.node.pod.observed import Refusal, SeenContainer, SeenPod
from trainshed.kube.meta.amounts import Amounts, add, numbers, pod_amounts
from trainshed.kube.meta.objects import Object, objects, section, spec_of, status_of
from trainshed.kube.meta.pods import is_finished, is_sidecar

PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
INFEASIBLE, DEFERRED = "Infeasible", "Deferred"
RESIZED = ("cpu", "memory")
RETRY_SECONDS = 2.0
"""How often it is looked whether there is room now. A kubelet looks with each sync of the pod, once a minute or so."""
_LISTS = ("containers", "initContainers")
_STATUSES = {"containers": "containerStatuses", "initContainers": "initContainerStatuses"}

Change: TypeAlias = Literal["", "restart", "update"]
Given: TypeAlias = Mapping[str, Mapping[str, Any]]
"""`resources` by the name of their container."""


class Room(msgspec.Struct, frozen=True):
    """What a node can give, and what its other pods have of it: cores and bytes."""

    capacity: Mapping[str, Decimal]
    used: Mapping[str, Decimal]


def room(capacity: Mapping[str, Any], others: Iterable[Object]) -> Room:
    """Return the room on a node with other pods on it, by what these were given."""
    used: Amounts = {}
    for pod in others:
        if not is_finished(pod):
            add(used, pod_amounts(spec_of(pod), "requests"))
    return Room(numbers({name: capacity[name] for name in RESIZED if name in capacity}), used)


def refusal(pod: Object, here: Room) -> Refusal:
    """Return why a node does not give a pod what its spec asks for, if it does not."""
    wanted = pod_amounts(spec_of(pod), "requests")
    for name in reversed(RESIZED):
        if name in here.capacity and wanted.get(name, 0) > here.capacity[name]:
            text = f"requested: {_whole(name, wanted[name])}, capacity: {_whole(name, here.capacity[name])}"
            return Refusal(INFEASIBLE, f"Node didn't have enough capacity: {name}, {text}")
    for name in RESIZED:
        more, used = wanted.get(name, Decimal(0)), here.used.get(name, Decimal(0))
        if name in here.capacity and 0 < more > here.capacity[name] - used:
            parts = (("requested", more), ("used", used), ("capacity", here.capacity[name]))
            text = ", ".join(f"{what}: {_whole(name, amount)}" for what, amount in parts)
            return Refusal(DEFERRED, f"Node didn't have enough resource: {name}, {text}")
    return Refusal()


def given(pod: Object) -> dict[str, Mapping[str, Any]]:
    """Return what the containers of a pod have by its status, and by its spec where that does not say."""
    out = {}
    for field, statuses in _STATUSES.items():
        told = {
            one.get("name"): one["resources"]
            for one in objects(status_of(pod), statuses)
            if "resources" in one
        }
        for container in objects(spec_of(pod), field):
            name = container["name"]
            out[name] = told[name] if name in told else section(container, "resources")
    return out


def asked(pod: Object) -> dict[str, Mapping[str, Any]]:
    """Return what the spec says of each container."""
    return {c["name"]: section(c, "resources") for field in _LISTS for c in objects(spec_of(pod), field)}


def with_given(pod: Object, resources: Given) -> Object:
    """Return the pod with the resources that its containers were given; itself where these are those of its spec."""
    spec: Object = spec_of(pod)
    changed = {}
    for field in _LISTS:
        containers = spec.get(field) or ()
        held = [_with(c, resources.get(c["name"])) for c in containers]
        if any(new is not old for new, old in zip(held, containers, strict=True)):
            changed[field] = held
    return {**pod, "spec": {**spec, **changed}} if changed else pod


def _with(container: Object, resources: Mapping[str, Any] | None) -> Object:
    spec = section(container, "resources")
    if resources is None or resources == spec or amounts(resources) == amounts(spec):
        return container
    return {**container, "resources": resources}


def amounts(resources: Mapping[str, Any]) -> dict[tuple[str, str], Decimal]:
    """Return those amounts that a resize may change, by part and name."""
    return {
        (part, name): amount
        for part in ("requests", "limits")
        for name, amount in numbers(
            {n: a for n, a in section(resources, part).items() if n in RESIZED}
        ).items()
    }


def change(container: Object, known: SeenContainer) -> Change:
    """Return what has to be done so that a container has what it was given, if it runs."""
    return needed_change(container, known.actuated) if known.running else ""


def needed_change(container: Object, actuated: Mapping[str, Any] | None) -> Change:
    """Return what has to be done so that a running container, with `actuated` in force, has what it was given."""
    if actuated is None:
        return ""
    wanted, held = amounts(section(container, "resources")), amounts(actuated)
    differing = {
        name for part, name in wanted.keys() | held if wanted.get((part, name)) != held.get((part, name))
    }
    if not differing:
        return ""
    policies = {
        one.get("resourceName"): one.get("restartPolicy") for one in objects(container, "resizePolicy")
    }
    # Where nobody knows what it has, nothing says that it would have to restart.
    restarts = actuated and any(policies.get(name) == "RestartContainer" for name in differing)
    return "restart" if restarts else "update"


def is_in_progress(pod: Object, seen: SeenPod) -> bool:
    """Return whether a container does not have yet what it was given."""
    return any(
        change(container, seen.container(container["name"]))
        for field in _LISTS
        for container in objects(spec_of(pod), field)
        if field == "containers" or is_sidecar(container)
    )


def shown(container: Object, known: SeenContainer) -> Object:
    """Return `resources` and `allocatedResources` of the status of a container that was started once."""
    resources = section(container, "resources")
    out: Object = {"resources": resources}
    if known.running and known.actuated:
        out["resources"] = {
            part: {
                name: section(known.actuated, part).get(name, amount) if name in RESIZED else amount
                for name, amount in listed.items()
            }
            if part in ("requests", "limits")
            else listed
            for part, listed in resources.items()
        }
    if requests := section(resources, "requests"):
        out["allocatedResources"] = requests
    return out


def conditions(pod: Object, seen: SeenPod, pending: Refusal | None) -> list[tuple[str, str, str]]:
    """Return type, reason and message of the conditions that tell of a resize."""
    out = []
    if pending:
        out.append((PENDING, pending.reason, pending.message))
    if is_in_progress(pod, seen):
        failed = seen.resize_problem
        out.append((IN_PROGRESS, failed.reason if failed else "", failed.message if failed else ""))
    return out


def _whole(name: str, amount: Decimal) -> int:
    """Return an amount as a kubelet spells it: thousandths of a core, bytes."""
    return int(amount * 1000 if name == "cpu" else amount)
