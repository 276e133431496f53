"""Pods of a Job: what each one counts for, which index it has, and a new one. Pure.

Source: batch/v1 JobSpec and JobStatus, "Job tracking with finalizers" (KEP-2307), "Indexed Job" (KEP-2214).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from trainshed.kube.meta.objects import Object, section, status_of
from trainshed.kube.meta.pods import from_template, phase
from trainshed.kube.meta.times import parse_time

TRACKING = "batch.kubernetes.io/job-tracking"
"""Finalizer that keeps a finished pod until it is counted."""
INDEX = "batch.kubernetes.io/job-completion-index"
JOB_NAME = "batch.kubernetes.io/job-name"
_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
FIRST_BACKOFF_SECONDS = 10.0
MAX_BACKOFF_SECONDS = 600.0


def is_tracked(pod: Object) -> bool:
    """Return whether the pod is still to be counted."""
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def outcome(pod: Object, *, only_finished: bool) -> str:
    """Return `succeeded`, `failed`, or an empty string for a pod that is not over.

    A pod that is being deleted has failed; with `only_finished` (podReplacementPolicy Failed) only when its
    containers have ended.
    """
    match phase(pod):
        case "Succeeded":
            return "succeeded"
        case "Failed":
            return "failed"
    metadata = pod["metadata"]
    if not metadata.get("deletionTimestamp"):
        return ""
    if only_finished and metadata.get("deletionGracePeriodSeconds"):
        return ""
    return "failed"


def index_of(pod: Object) -> int | None:
    """Return the completion index of a pod of an Indexed job."""
    value = section(pod["metadata"], "annotations").get(INDEX, "")
    return int(value) if value.isdigit() else None


def parse_indexes(text: str) -> set[int]:
    """Return the indexes of a range list such as `1,3-5`; what is not one is skipped."""
    out: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            out.update(range(int(first), int(last or first) + 1))
    return out


def format_indexes(indexes: Iterable[int]) -> str:
    """Return indexes as a range list, of which two in a row are none yet: `0,1,4-6`, as upstream writes them."""
    ranges: list[list[int]] = []
    for index in sorted(indexes):
        if ranges and index == ranges[-1][1] + 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(str(a) if a == b else f"{a}{',' if b == a + 1 else '-'}{b}" for a, b in ranges)


def count_of(pod: Object, annotation: str) -> int:
    """Return the number in an annotation of a pod, 0 where there is none."""
    value = section(pod["metadata"], "annotations").get(annotation, "")
    return int(value) if value.isdigit() else 0


def backoff(pods: Sequence[Object], now: float, *, failures: int | None = None) -> float:
    """Return the seconds until a failed pod may be replaced: 10, 20, 40 … 600 after the latest failure in a row.

    `failures` says how many there were in a row, where `pods` are not all of them.
    """
    ends: list[float] = []
    last_success = 0.0
    for pod in pods:
        ended = _ended(pod)
        if phase(pod) == "Succeeded":
            last_success = max(last_success, ended)
        elif phase(pod) == "Failed":
            ends.append(ended)
    ends = [ended for ended in ends if ended > last_success]
    if not ends:
        return 0.0
    steps = min((len(ends) if failures is None else failures) - 1, 16)
    delay: float = min(FIRST_BACKOFF_SECONDS * 2**steps, MAX_BACKOFF_SECONDS)
    return max(max(ends) + delay - now, 0.0)


def _ended(pod: Object) -> float:
    times = [
        state["finishedAt"]
        for container in status_of(pod).get("containerStatuses") or ()
        if (state := section(container, "state").get("terminated")) and state.get("finishedAt")
    ]
    return parse_time(max(times)) if times else parse_time(pod["metadata"]["creationTimestamp"])


def restarts(pods: Iterable[Object]) -> int:
    """Return how often containers of the pods were restarted in place."""
    return sum(
        int(container.get("restartCount") or 0)
        for pod in pods
        for field in ("initContainerStatuses", "containerStatuses")
        for container in status_of(pod).get(field) or ()
    )


def new_pod(job: Object, index: int | None, notes: Mapping[str, str] | None = None) -> Object:
    """Return a pod of the job, for one completion index of an Indexed job; `notes` are further annotations."""
    name = job["metadata"]["name"]
    if index is None:
        pod = from_template(job, job["spec"]["template"], generate_name=f"{name}-")
    else:
        pod = from_template(job, job["spec"]["template"], generate_name=f"{name}-{index}-")
        metadata, spec = pod["metadata"], pod["spec"]
        metadata["labels"] = {**section(metadata, "labels"), INDEX: str(index)}
        metadata["annotations"] = {**section(metadata, "annotations"), INDEX: str(index), **(notes or {})}
        spec["hostname"] = f"{name}-{index}"
        source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
        for field in ("initContainers", "containers"):
            for container in spec.get(field) or ():
                if all(v["name"] != _INDEX_VARIABLE for v in container.get("env") or ()):
                    variable = {"name": _INDEX_VARIABLE, "valueFrom": source}
                    container["env"] = [*(container.get("env") or ()), variable]
    pod["metadata"]["finalizers"] = [*(pod["metadata"].get("finalizers") or ()), TRACKING]
    return pod
