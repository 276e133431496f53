"""Views of a job and its pods."""

from typing import Any

from trainshed.jobs.engine.constants import (
    JOB_ROLE_MASTER,
    LABEL_JOB_ROLE,
    LABEL_REPLICA_INDEX,
    LABEL_REPLICA_TYPE,
)
from trainshed.sdk import state as jobstate
from trainshed.sdk.logs import LineSplitter


def make_pod(replica: str, index: int, **status: Any) -> Any:
    labels = {LABEL_REPLICA_TYPE: replica, LABEL_REPLICA_INDEX: str(index)}
    return {"metadata": {"name": f"job-{replica}-{index}", "labels": labels}, "status": status}


def ended(code: int, at: str, **more: Any) -> list[Any]:
    state = {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": at, **more}}
    return [{"name": "pytorch", "restartCount": 0, "state": state}]


def test_the_first_to_fail_is_the_cause_not_the_first_by_rank() -> None:
    pods = [
        make_pod("master", 0, containerStatuses=ended(1, "2026-01-01T00:00:09Z")),
        make_pod("worker", 1, containerStatuses=ended(7, "2026-01-01T00:00:05Z")),
        make_pod("worker", 0, containerStatuses=ended(0, "2026-01-01T00:00:01Z")),
    ]
    found = jobstate.first_failure(pods)
    assert found is not None
    assert (found[0]["metadata"]["name"], found[1]["exitCode"]) == ("job-worker-1", 7)


def test_of_failures_in_one_second_the_first_to_be_written_is_the_cause() -> None:
    second = "2026-01-01T00:00:05Z"
    pods = [
        make_pod("master", 0, containerStatuses=ended(1, second)),
        make_pod("worker", 1, containerStatuses=ended(7, second)),
    ]
    for pod, version in zip(pods, ("101", "99"), strict=True):
        pod["metadata"]["resourceVersion"] = version
    found = jobstate.first_failure(pods)
    assert found is not None and found[1]["exitCode"] == 7


def test_a_failure_before_a_restart_counts() -> None:
    status = {
        "name": "pytorch",
        "restartCount": 1,
        "state": {"running": {}},
        "lastState": ended(3, "x")[0]["state"],
    }
    found = jobstate.first_failure([make_pod("worker", 0, containerStatuses=[status])])
    assert found is not None and found[1]["exitCode"] == 3


def test_the_master_is_who_has_the_role_not_the_name() -> None:
    first = make_pod("zeroth", 0)
    first["metadata"]["labels"][LABEL_JOB_ROLE] = JOB_ROLE_MASTER
    del first["metadata"]["labels"][LABEL_REPLICA_INDEX]  # as the launcher of an MPIJob
    pods = [make_pod("ps", 1), make_pod("chief", 0), first]
    assert [p["metadata"]["name"] for p in jobstate.rank_order(pods)] == [
        "job-zeroth-0",
        "job-chief-0",
        "job-ps-1",
    ]


def test_rank_order_is_master_first_then_numeric() -> None:
    pods = [make_pod("worker", 10), make_pod("worker", 2), make_pod("master", 0)]
    assert [jobstate.replica_name(p) for p in jobstate.rank_order(pods)] == [
        "master-0",
        "worker-2",
        "worker-10",
    ]


def test_a_pending_replica_says_why() -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
    replica = jobstate.replica(make_pod("worker", 0, phase="Pending", conditions=[condition]))
    assert (replica.state, replica.detail) == ("Pending", "0/1 nodes are available")


def test_lines_survive_chunk_borders_and_reconnection_without_loss_or_repeat() -> None:
    """A stream that starts over repeats what was seen; the splitter drops exactly that.

    Lines written at once share a timestamp, empty ones included.
    """
    log = b"".join(b"2026-01-01T00:00:00.%09dZ line %d\n" % (i // 3, i) for i in range(1, 6))
    for cut in range(len(log)):
        splitter = LineSplitter()
        lines = splitter.feed(log[:cut]).texts
        splitter.restart()
        splitter.restart()  # a connection that was refused in between
        for start in range(0, len(log), 7):
            lines += splitter.feed(log[start : start + 7]).texts
        assert lines == [f"line {i}" for i in range(1, 6)]


def test_the_frame_of_a_bar_is_there_before_its_line() -> None:
    stamp = b"2026-01-01T00:00:00.000000000Z "
    splitter = LineSplitter()
    seen = []
    for chunk in (stamp + b"a\n" + stamp + b"\r 10%", b"\r 2", b"0%", b"\r", b" 30%\n", stamp + b"half"):
        splitter.feed(chunk)
        seen.append(splitter.frame)
    assert seen == [" 10%", " 2", " 20%", " 20%", "", ""]
