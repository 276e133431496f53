"""Events about pods."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.jobs_builders import NOW, make_job, make_pod, plan_for, read
from trainshed.jobs.engine.cleanup import delete_job
from trainshed.jobs.engine.owned import POD_EVENTS, SERVICE_EVENTS
from trainshed.kube.meta.plan import Action, Create, Delete
from trainshed.kube.meta.resources import PODS, SERVICES
from trainshed.kube.meta.times import format_time

ENDED = {"name": "pytorch", "state": {"terminated": {"exitCode": 3, "reason": "Error", "message": "boom"}}}
KILLED = {"name": "pytorch", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
UNEXPLAINED = {"name": "pytorch", "state": {"terminated": {"exitCode": 4, "message": "m"}}}
WAITING = {
    "name": "pytorch",
    "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}},
}
SILENT = {"name": "pytorch", "state": {"waiting": {"reason": "PodInitializing"}}}
FINE = {"name": "pytorch", "state": {"terminated": {"exitCode": 0}}}
UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes",
    "lastTransitionTime": format_time(NOW),
}
OLDER = {"type": "Ready", "status": "True", "reason": "Older", "lastTransitionTime": format_time(NOW - 9)}


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        (
            {"containerStatuses": [ENDED]},
            "Error",
            "Error pod train-worker-0 container pytorch exitCode: 3 terminated message: boom",
        ),
        (
            {"containerStatuses": [KILLED]},
            "OOMKilled",
            "Error pod train-worker-0 container pytorch exitCode: 137 terminated message: ",
        ),
        (
            {"containerStatuses": [UNEXPLAINED]},
            "Error",
            "Error pod train-worker-0 container pytorch exitCode: 4 terminated message: m",
        ),
        (
            {"containerStatuses": [WAITING]},
            "ImagePullBackOff",
            "Error pod train-worker-0 container pytorch waiting message: no such image",
        ),
        (
            {"initContainerStatuses": [WAITING], "conditions": [UNSCHEDULABLE]},
            "ImagePullBackOff",
            "Error pod train-worker-0 container pytorch waiting message: no such image",
        ),
        (
            {"conditions": [OLDER, UNSCHEDULABLE]},
            "Unschedulable",
            "Error pod train-worker-0 condition message: 0/1 nodes",
        ),
        ({"containerStatuses": [SILENT], "initContainerStatuses": [WAITING]}, None, None),
        ({"containerStatuses": [FINE]}, None, None),
        ({"conditions": [OLDER]}, None, None),
        ({}, None, None),
    ],
)
def test_why_a_pod_does_not_run(status: dict[str, Any], reason: str | None, message: str | None) -> None:
    pod = make_pod("Worker", 0)
    pod["status"] |= status
    plan = plan_for(make_job(workers=1), [pod])
    warnings = [(e.reason, e.message) for e in plan.events if e.type == "Warning"]
    assert warnings == ([(reason, message)] if reason else [])


def test_pods_that_ended_are_not_abnormal() -> None:
    pod = make_pod("Worker", 0, "Succeeded")
    pod["status"]["containerStatuses"] = [WAITING]
    assert not [e for e in plan_for(make_job(workers=1), [pod]).events if e.type == "Warning"]


def exits(plan_events: Any) -> list[str]:
    return [event.message for event in plan_events if event.reason == "ExitedWithCode"]


def test_exit_codes_are_told_once_for_each_pod_that_ended_well() -> None:
    """A large job must not repeat the codes of all pods that ended with every pass."""
    job = make_job(workers=3)
    pods = [make_pod("Worker", i, "Running") for i in range(3)]
    pods[1] = make_pod("Worker", 1, "Succeeded", exit_code=0)
    first = plan_for(job, pods)
    assert exits(first.events) == ["Pod: ns.train-worker-1 exited with code 0"]
    job["status"] = first.status
    assert exits(plan_for(job, pods).events) == []
    pods[0] = make_pod("Worker", 0, "Succeeded", exit_code=0)
    ended = pods[0]["status"]["containerStatuses"][0]["state"]["terminated"]
    ended["finishedAt"] = format_time(NOW + 5)
    del ended["exitCode"]  # the wire form of a zero may be nothing
    assert exits(plan_for(job, pods).events) == ["Pod: ns.train-worker-0 exited with code 0"]


def test_the_exit_code_of_a_failed_pod_is_told_until_its_delete_is_under_way() -> None:
    job = make_job(workers=1)
    pod = make_pod("Worker", 0, "Failed", exit_code=137)
    assert exits(plan_for(job, [pod]).events) == ["Pod: ns.train-worker-0 exited with code 137"]
    pod["metadata"]["deletionTimestamp"] = format_time(NOW)
    assert exits(plan_for(job, [pod]).events) == []


CHILD = {"metadata": {"name": "x", "namespace": "ns", "uid": "u"}}


@pytest.mark.parametrize(
    ("action", "done", "undone"),
    [
        (
            Create(resource=PODS, given=CHILD, told=POD_EVENTS.created("x")),
            "SuccessfulCreatePod: Created pod: x",
            "FailedCreatePod: Error creating: no",
        ),
        (
            Create(resource=SERVICES, given=CHILD, told=SERVICE_EVENTS.created("x")),
            "SuccessfulCreateService: Created service: x",
            "FailedCreateService: Error creating: no",
        ),
        (
            Delete.of(PODS, CHILD, POD_EVENTS),
            "SuccessfulDeletePod: Deleted pod: x",
            "FailedDeletePod: Error deleting: no",
        ),
        (
            Delete.of(SERVICES, CHILD, SERVICE_EVENTS),
            "SuccessfulDeleteService: Deleted service: x",
            "FailedDeleteService: Error deleting: no",
        ),
        (
            delete_job(read(make_job(name="x", workers=1)), "Pod"),
            "SuccessfulDeletePod: Deleted job: x",
            "FailedDeletePod: Error deleting: no",
        ),
    ],
)
def test_actions_tell_of_themselves(action: Action, done: str, undone: str) -> None:
    assert [f"{e.type} {e.reason}: {e.message}" for e in action.succeeded()] == ["Normal " + done]
    assert [f"{e.type} {e.reason}: {e.message}" for e in action.failed("no")] == ["Warning " + undone]
