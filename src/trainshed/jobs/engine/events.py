"""Events about pods: how containers ended, and why a pod does not run.

`decide` remembers nothing, so what it sees twice it says twice; recorders count repeats as one. Where a repeat
would come with every pass over a large job it is left out: see `exit_events`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainshed.jobs.engine import constants as c
from trainshed.jobs.engine.children import Children, count_in
from trainshed.jobs.engine.job import Job
from trainshed.kube.meta.objects import (
    Object,
    is_terminating,
    name_of,
    namespace_of,
    objects,
    section,
    status_of,
)
from trainshed.kube.meta.plan import Event
from trainshed.kube.meta.pods import container_statuses, init_container_statuses, is_active, terminated_states
from trainshed.kube.meta.pods import phase as pod_phase
from trainshed.kube.meta.times import time_or_none


def abnormal_pod_events(children: Children) -> Iterator[Event]:
    """Yield why active pods do not run: failed or waiting containers, or a condition such as Unschedulable."""
    for pod in children.pods:
        if is_active(pod):
            yield from _abnormal(pod)


def exit_events(job: Job, children: Children, container: str) -> Iterator[Event]:
    """Yield the exit code of each container of this name that ended.

    Pods that ended well stay, and each pass sees them all: of these, only as many of the latest are told as the
    stored count of succeeded pods is behind.
    """
    stored = section(job.status, "replicaStatuses")
    for replica in job.replicas:
        pods = [slot.pod for slot in children.of(replica) if slot.pod is not None]
        ended_well = sorted((p for p in pods if pod_phase(p) == "Succeeded"), key=_finished_at)
        new = max(len(ended_well) - count_in(section(stored, replica.type), "succeeded"), 0)
        others = (p for p in pods if pod_phase(p) != "Succeeded" and not is_terminating(p))
        for pod in (*others, *ended_well[len(ended_well) - new :]):
            for state in terminated_states(pod, container):
                where = f"{namespace_of(pod)}.{name_of(pod)}"
                message = f"Pod: {where} exited with code {state.get('exitCode', 0)}"
                yield Event("Normal", c.EXITED_WITH_CODE, message)


def _abnormal(pod: Object) -> Iterator[Event]:
    statuses = container_statuses(pod) or init_container_statuses(pod)
    if statuses:
        yield from _container_events(pod, statuses)
        return
    conditions = objects(status_of(pod), "conditions")
    if not conditions:
        return
    newest = max(conditions, key=lambda condition: time_or_none(condition.get("lastTransitionTime")) or 0.0)
    reason = newest.get("reason")
    if newest.get("status") != "True" and reason:
        yield Event(
            "Warning", reason, f"Error pod {name_of(pod)} condition message: {newest.get('message', '')}"
        )


def _container_events(pod: Object, statuses: Iterable[Object]) -> Iterator[Event]:
    for status in statuses:
        where = f"Error pod {name_of(pod)} container {status.get('name')}"
        ended, waiting = section(status, "state", "terminated"), section(status, "state", "waiting")
        if ended.get("exitCode"):
            message = f"{where} exitCode: {ended['exitCode']} terminated message: {ended.get('message', '')}"
            yield Event("Warning", ended.get("reason") or "Error", message)
        if waiting.get("message"):
            yield Event(
                "Warning",
                waiting.get("reason") or "Waiting",
                f"{where} waiting message: {waiting['message']}",
            )


def _finished_at(pod: Object) -> float:
    """Return when the last container of the pod ended, in seconds since the epoch."""
    ends = (
        time_or_none(section(s, "state", "terminated").get("finishedAt")) for s in container_statuses(pod)
    )
    return max((end for end in ends if end is not None), default=0.0)
