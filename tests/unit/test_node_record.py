"""What a worker knows after events and restarts."""

from __future__ import annotations

import pytest

from tests.unit.node_builders import NOW, ended, make_pod, running, seen
from trainshed.cluster.node.pod.observed import Attempt
from trainshed.cluster.node.pod.record import PodRecord, retry_delay
from trainshed.cluster.node.pod.status import StatusContext, pod_status
from trainshed.cluster.sandbox.model import ContainerState, SandboxState

CONTEXT = StatusContext("10.88.0.1", lambda image: "")


def written(known, pod=None):
    pod = pod or make_pod()
    return {**pod, "status": pod_status(pod, known, NOW, CONTEXT)}


def test_retries_slow_down():
    assert [retry_delay(n) for n in (1, 2, 3, 7, 50)] == [1, 2, 4, 60, 60]


def test_a_failed_start_is_remembered_by_the_api():
    known = seen(main=(ended(127, 0, reason="StartError", message="not found"),))
    record = PodRecord(NOW)
    record.recall(written(known))
    (attempt,) = record.seen().container("main").attempts
    assert (attempt.exit_code, attempt.reason, attempt.message) == (127, "StartError", "not found")


def test_the_runtime_knows_better_but_not_why():
    known = seen(main=(ended(137, 0, reason="OOMKilled"), running(1)))
    record = PodRecord(NOW)
    record.recall(written(known))
    states = (
        ContainerState("main", 1, None, NOW - 5, NOW - 2, 0, None, ""),
        ContainerState("main", 0, None, NOW - 9, NOW - 6, 137, 9, ""),
    )
    record.take_sandbox(SandboxState("u1", "default", "web", "10.88.0.9", 7, states), "10.88.0.1", NOW)
    first, second = record.seen().container("main").attempts
    assert (first.reason, first.started_at) == ("OOMKilled", NOW - 9)
    assert (second.exit_code, second.reason) == (0, "")
    assert record.ip == "10.88.0.9"


def test_whose_container_it_was_is_remembered_where_the_runtime_no_longer_knows():
    for known in (running(user=(1000, 5, 5)), ended(0, user=(1000, 5, 5))):
        record = PodRecord(NOW)
        record.recall(written(seen(main=known if isinstance(known, tuple) else (known,))))
        assert record.seen().container("main").newest.user == (1000, 5, 5)
        record.take_container(ContainerState("main", 0, None, NOW - 5, NOW - 2, 0))
        assert record.seen().container("main").newest.user == (1000, 5, 5)


def test_a_container_of_which_nothing_is_left_was_lost():
    record = PodRecord(NOW)
    record.recall(written(seen(main=(running(2),))))
    record.lose_sandbox(NOW)
    (attempt,) = record.seen().container("main").attempts
    assert (attempt.number, attempt.exit_code, attempt.reason) == (2, 137, "ContainerStatusUnknown")


def test_of_what_ended_with_the_machine_nobody_knows_how():
    """As written by containerd's CRI when a container's task is gone (internal/cri/server/restart.go)."""
    record = PodRecord(NOW)
    record.take_container(ContainerState("main", 0, None, NOW - 5, NOW - 1, 255, unknown=True))
    known = written(record.seen(), make_pod(restartPolicy="Never"))
    (status,) = known["status"]["containerStatuses"]
    assert (status["state"]["terminated"]["exitCode"], status["state"]["terminated"]["reason"]) == (
        255,
        "Unknown",
    )
    recalled = PodRecord(NOW)
    recalled.recall(known)
    assert recalled.container("main").newest.reason == "Unknown"


def test_what_ran_in_a_sandbox_that_is_gone_is_told_apart():
    record = PodRecord(NOW)
    record.recall(written(seen(main=(ended(),))))
    record.lose_sandbox(NOW)
    record.take_container(ContainerState("main", 1, 7, NOW))
    record.take_container(ContainerState("main", 0, None, NOW - 5, NOW - 1, 0))
    assert [attempt.past for attempt in record.seen().container("main").attempts] == [True, False]
    adopted = PodRecord(NOW)
    states = (
        ContainerState("main", 0, None, NOW - 5, NOW - 1, 0, past=True),
        ContainerState("main", 1, 7, NOW),
    )
    adopted.take_sandbox(SandboxState("u1", "default", "web", "10.88.0.9", 7, states), "10.88.0.1", NOW)
    assert [attempt.past for attempt in adopted.seen().container("main").attempts] == [True, False]


def test_host_network_has_the_hosts_address():
    record = PodRecord(NOW)
    record.take_sandbox(SandboxState("u1", "default", "web", "", 7), "10.88.0.1", NOW)
    assert record.ip == "10.88.0.1"


@pytest.mark.parametrize(
    ("code", "seconds", "failed"),
    [(127, 0, True), (127, 1, False), (1, 0, False), (126, 0, True), (None, 0, False)],
)
def test_a_start_has_failed_that_was_over_at_once_with_the_code_for_it(code, seconds, failed):
    """A shell ends with 127, too, when it does not find a program: later."""
    over = NOW + seconds if code is not None else None
    assert Attempt(0, NOW, over, code).failed_to_start is failed
