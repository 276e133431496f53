"""Views of pods and pod specs: what state they are in, what they consist of; and a new pod from a template.

A part that is missing or null reads as empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainshed.kube.meta.objects import (
    Object,
    condition,
    copy_tree,
    is_terminating,
    is_true,
    metadata_of,
    name_of,
    objects,
    section,
    spec_of,
    status_of,
)
from trainshed.kube.meta.ownership import controller_reference
from trainshed.kube.meta.times import parse_time

FINISHED = ("Succeeded", "Failed")
CONTAINER_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


def phase(pod: Mapping[str, Any]) -> str:
    """Return `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`; a pod without status is Pending."""
    return str(status_of(pod).get("phase") or "Pending")


def is_finished(pod: Mapping[str, Any]) -> bool:
    """Return whether the pod has come to its end, of which its phase tells: it never runs again."""
    return phase(pod) in FINISHED


def is_active(pod: Mapping[str, Any]) -> bool:
    """Return whether the pod runs or will: neither finished nor being deleted."""
    return phase(pod) not in FINISHED and not is_terminating(pod)


def is_ready(pod: Object) -> bool:
    """Return whether the pod's Ready condition is true."""
    return is_true(pod, "Ready")


def available_in(pod: Object, min_ready_seconds: int, now: float) -> float | None:
    """Return in how many seconds the ready pod counts as available, 0 when it does, None when it is not ready."""
    ready = condition(pod, "Ready")
    if ready is None or ready.get("status") != "True":
        return None
    since = ready.get("lastTransitionTime")
    if not min_ready_seconds or not since:
        return 0.0
    return max(parse_time(since) + min_ready_seconds - now, 0.0)


def claim_names(pod: Object) -> list[str]:
    """Return the names of the claims that the pod mounts, those that it brings along last."""
    volumes = spec_of(pod).get("volumes") or ()
    named = [v["persistentVolumeClaim"]["claimName"] for v in volumes if v.get("persistentVolumeClaim")]
    return [*named, *ephemeral_claims(pod)]


def ephemeral_claims(pod: Object) -> dict[str, Object]:
    """Return the `ephemeral` volumes of the pod by the names of their claims: `<pod>-<volume>` (KEP-1698)."""
    volumes = spec_of(pod).get("volumes") or ()
    name = name_of(pod)
    return {f"{name}-{v['name']}": v["ephemeral"] for v in volumes if v.get("ephemeral")}


def container_statuses(pod: Mapping[str, Any]) -> list[Object]:
    """Return the statuses of the regular containers."""
    return objects(status_of(pod), "containerStatuses")


def init_container_statuses(pod: Mapping[str, Any]) -> list[Object]:
    """Return the statuses of the init containers."""
    return objects(status_of(pod), "initContainerStatuses")


def container_named(pod_spec: Mapping[str, Any], name: str) -> Object | None:
    """Return the first regular container called `name`."""
    return next((c for c in objects(pod_spec, "containers") if c.get("name") == name), None)


def port_named(container: Mapping[str, Any], name: str) -> int | None:
    """Return the number of the container's port called `name`."""
    for port in objects(container, "ports"):
        number = port.get("containerPort")
        if port.get("name") == name and isinstance(number, int):
            return number
    return None


def terminated_states(pod: Mapping[str, Any], container: str) -> Iterator[Object]:
    """Yield the `terminated` state of every container status called `container`."""
    for status in container_statuses(pod):
        ended = section(status, "state", "terminated")
        if status.get("name") == container and ended:
            yield ended


def init_containers(pod: Object) -> list[Object]:
    """Return the init containers in start order, sidecars included."""
    return list(pod["spec"].get("initContainers") or ())


def main_containers(pod: Object) -> list[Object]:
    """Return the containers that decide the pod's end."""
    return list(pod["spec"].get("containers") or ())


def all_containers(pod: Object) -> list[Object]:
    """Return the init containers, then the main ones."""
    return [*init_containers(pod), *main_containers(pod)]


def ephemeral_containers(pod: Object) -> list[Object]:
    """Return the containers that were added to the running pod to debug it."""
    return list(pod["spec"].get("ephemeralContainers") or ())


def is_sidecar(container: Object) -> bool:
    """Return whether an init container keeps running beside the main ones (KEP-753)."""
    return container.get("restartPolicy") == "Always"


def find_container(pod: Object, name: str) -> Object | None:
    """Return the declared container called `name`, of whichever list."""
    every = (*init_containers(pod), *main_containers(pod), *ephemeral_containers(pod))
    return next((c for c in every if c["name"] == name), None)


def surplus(pods: Sequence[Object], count: int) -> list[Object]:
    """Return the `count` pods to delete: unscheduled before scheduled, unready before ready, young before old."""
    youngest_first = sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True)
    order = sorted(youngest_first, key=lambda pod: (bool(pod["spec"].get("nodeName")), is_ready(pod)))
    return order[:count]


def from_template(owner: Object, template: Object, *, generate_name: str) -> Object:
    """Return a new pod of `owner`; the caller may add to it."""
    template = copy_tree(template)
    given = metadata_of(template)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **{name: given[name] for name in ("labels", "annotations", "finalizers") if name in given},
            "generateName": generate_name,
            "namespace": owner["metadata"]["namespace"],
            "ownerReferences": [controller_reference(owner)],
        },
        "spec": template["spec"],
    }
