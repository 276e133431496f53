"""What is deleted when: cleanPodPolicy for pods and services, time to live for the job.

A service goes with the pod of the same name, and before it; one whose pod is gone already goes, too. So what is left
in the end does not depend on when the operator was stopped, or which request was refused.
"""

from __future__ import annotations

from trainshed.jobs.engine.children import Children
from trainshed.jobs.engine.job import Job
from trainshed.jobs.engine.owned import POD_EVENTS, SERVICE_EVENTS
from trainshed.jobs.engine.status import Draft
from trainshed.kube.meta.objects import Object, is_terminating, name_of
from trainshed.kube.meta.plan import Action, Delete, Tells
from trainshed.kube.meta.pods import phase as pod_phase
from trainshed.kube.meta.resources import PODS, SERVICES


def delete_everything(children: Children) -> list[Action]:
    """Return the deletion of all pods with their services: a job that must not run has none."""
    return _delete(children, children.pods)


def delete_after_finish(job: Job, children: Children) -> list[Action]:
    """Return the deletions that cleanPodPolicy asks for; an unknown policy is All."""
    policy = job.run_policy.clean_pod_policy
    if policy == "None":
        return []
    if policy == "Running":
        unfinished = [pod for pod in children.pods if pod_phase(pod) in ("Running", "Pending")]
        return _delete(children, unfinished)
    return _delete(children, children.pods)


def time_to_live(job: Job, draft: Draft) -> float | None:
    """Return the seconds until a finished job is to be deleted, at least 0; None if it is kept.

    A suspended job is kept whatever its time to live.
    """
    ttl = job.run_policy.ttl_seconds_after_finished
    finished_at = draft.finished_at()
    if ttl is None or finished_at is None or job.is_suspended:
        return None
    return max(finished_at + ttl - draft.now, 0.0)


def delete_job(job: Job, word: str) -> Delete:
    """Return the deletion of the job with the default propagation, which is alone and last in its plan.

    The reason of its event ends in `word`. Its children follow by garbage collection.
    """
    return Delete(
        resource=job.kind.resource,
        name=job.name,
        namespace=job.namespace,
        uid=job.uid,
        told=Tells(word, "job").deleted(job.name),
        counter="deleted",
    )


def _delete(children: Children, pods: list[Object]) -> list[Action]:
    services = {name_of(service): service for service in children.services if not is_terminating(service)}
    actions: list[Action] = []
    for pod in pods:
        if (service := services.get(name_of(pod))) is not None:
            actions.append(Delete.of(SERVICES, service, SERVICE_EVENTS))
        if not is_terminating(pod):
            actions.append(Delete.of(PODS, pod, POD_EVENTS))
    for name in sorted(services.keys() - {name_of(pod) for pod in children.pods}):
        actions.append(Delete.of(SERVICES, services[name], SERVICE_EVENTS))
    return actions
