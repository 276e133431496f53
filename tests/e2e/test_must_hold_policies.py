"""Run policies and restart policies of a PyTorchJob, by a real operator on a real cluster.

Matrix: suspend × {kubectl patch, trainshed}, limits {deadline, backoff}, time to live, cleanPodPolicy × {All,
Running, None}, ExitCode × {retryable, permanent}, scale. Left out: elastic jobs (the torchrun tutorial), every
message and edge (tests/unit/test_jobs_*.py).
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.cluster_fixture import Cluster, until
from tests.e2e.jobs import UNTIL_TOLD, job, replica

PODS = ("train-master-0", "train-worker-0")


@pytest.mark.parametrize("how", ["kubectl", "trainshed"])
def test_suspend_and_resume(cluster: Cluster, shared_folder: Path, how: str) -> None:
    def set_suspend(value: bool) -> None:
        if how == "kubectl":
            patch = f'{{"spec": {{"runPolicy": {{"suspend": {str(value).lower()}}}}}}}'
            cluster.kubectl("patch", "pytorchjob", "train", "--type=merge", "-p", patch).ok()
        else:
            cluster.trainshed("suspend" if value else "resume", "train", "-n", cluster.namespace).ok()

    cluster.apply(job("train", replica(UNTIL_TOLD, shared_folder), replica(UNTIL_TOLD, shared_folder)))
    cluster.until_phase("Running", *PODS)
    set_suspend(True)
    cluster.until_condition("train", "Suspended")
    until(lambda: not cluster.pods(), "the suspended job has no pods")
    assert cluster.conditions("train")["Running"]["status"] == "False"
    assert cluster.get("services") == []

    set_suspend(False)
    cluster.until_phase("Running", *PODS)
    cluster.until_condition("train", "Running")
    assert cluster.conditions("train")["Suspended"]["status"] == "False"
    (shared_folder / "finish").touch()
    cluster.until_condition("train", "Succeeded")
    assert Counter((shared_folder / "starts").read_text().split()) == dict.fromkeys(PODS, 2)


def test_a_job_created_suspended_makes_no_pod_until_resumed(cluster: Cluster) -> None:
    cluster.apply(job("train", replica("exit 0"), suspend=True))
    cluster.until_condition("train", "Suspended")
    assert cluster.pods() == {}
    assert "startTime" not in cluster.get("pytorchjobs", "train")["status"]
    cluster.trainshed("resume", "train", "-n", cluster.namespace).ok()
    cluster.until_condition("train", "Succeeded")
    cluster.trainshed("suspend", "train", "-n", cluster.namespace).failed("finished already")


def test_the_deadline_ends_a_job_in_which_nothing_else_happens(cluster: Cluster, shared_folder: Path) -> None:
    cluster.apply(job("train", replica(UNTIL_TOLD, shared_folder), activeDeadlineSeconds=2))
    cluster.until_phase("Running", "train-master-0")
    cluster.until_condition("train", "Failed", seconds=10)
    assert "longer than specified deadline" in cluster.conditions("train")["Failed"]["message"]
    until(lambda: not cluster.pods(), "no pod outlives the deadline")
    assert cluster.get("pytorchjobs", "train")["status"]["completionTime"]


def test_the_backoff_limit_ends_a_job_that_keeps_failing(cluster: Cluster, shared_folder: Path) -> None:
    """The limit counts restarts of containers that run: this one fails once and then hangs."""
    script = f"echo x >> /out/runs; [ $(wc -l < /out/runs) -gt 1 ] || exit 1; {UNTIL_TOLD}"
    cluster.apply(job("train", replica(script, shared_folder, restart="OnFailure"), backoffLimit=1))
    cluster.until_condition("train", "Failed")
    assert "backoff limit" in cluster.conditions("train")["Failed"]["message"]
    until(lambda: not cluster.pods(), "no pod outlives the limit")
    assert (shared_folder / "runs").read_text() == "x\nx\n"


def test_time_to_live_deletes_a_finished_job(cluster: Cluster) -> None:
    cluster.apply(job("train", replica("exit 0"), ttlSecondsAfterFinished=2))
    cluster.until_condition("train", "Succeeded")
    finished = time.monotonic()
    until(lambda: cluster.get("pytorchjobs", "train") is None, "the job is deleted after its time to live")
    # Times are in whole seconds: up to one may be missing.
    assert time.monotonic() - finished > 0.5
    until(lambda: not cluster.pods() and not cluster.get("services"), "its pods and services go with it")


@pytest.mark.parametrize(
    ("policy", "left"),
    [("None", {"train-master-0", "train-worker-0"}), ("Running", {"train-master-0"}), ("All", set())],
)
def test_clean_pod_policy(cluster: Cluster, shared_folder: Path, policy: str, left: set[str]) -> None:
    """The master ends while the worker runs."""
    master = "until [ -e /out/starts ]; do sleep 0.05; done"
    cluster.apply(
        job(
            "train", replica(master, shared_folder), replica(UNTIL_TOLD, shared_folder), cleanPodPolicy=policy
        )
    )
    cluster.until_condition("train", "Succeeded")
    until(lambda: set(cluster.pods()) == left, f"the pods that are left are {left}")
    until(lambda: {s["metadata"]["name"] for s in cluster.get("services")} == left, "their services as well")
    if policy == "None":
        assert cluster.pods()["train-worker-0"]["status"]["phase"] == "Running"
        counts = cluster.get("pytorchjobs", "train")["status"]["replicaStatuses"]
        assert counts["Worker"].get("active", 0) == 0


def test_exit_code_restarts_what_may_be_retried(cluster: Cluster, shared_folder: Path) -> None:
    """130 (SIGINT) is retryable: the pod is made anew. The next time it succeeds."""
    script = "echo x >> /out/runs; [ $(wc -l < /out/runs) -gt 1 ] || exit 130"
    cluster.apply(job("train", replica(script, shared_folder, restart="ExitCode")))
    cluster.until_condition("train", "Succeeded")
    assert (shared_folder / "runs").read_text() == "x\nx\n"
    assert cluster.pods()["train-master-0"]["status"]["containerStatuses"][0]["restartCount"] == 0
    until(
        lambda: any("is restarting because Master" in e for e in cluster.events("PyTorchJobRestarting")),
        "the event that tells of the restart",
    )


def test_exit_code_fails_the_job_for_good(cluster: Cluster, shared_folder: Path) -> None:
    script = "echo x >> /out/runs; exit 3"
    cluster.apply(job("train", replica(script, shared_folder, restart="ExitCode")))
    cluster.until_condition("train", "Failed")
    assert (shared_folder / "runs").read_text() == "x\n"
    assert cluster.pods()["train-master-0"]["status"]["phase"] == "Failed"


def test_workers_are_scaled_up_and_down(cluster: Cluster, shared_folder: Path) -> None:
    cluster.apply(job("train", replica(UNTIL_TOLD, shared_folder), replica(UNTIL_TOLD, shared_folder)))
    cluster.until_phase("Running", *PODS)
    before = {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()}

    def scale(workers: int) -> None:
        patch = (
            f'[{{"op": "replace", "path": "/spec/pytorchReplicaSpecs/Worker/replicas", "value": {workers}}}]'
        )
        cluster.kubectl("patch", "pytorchjob", "train", "--type=json", "-p", patch).ok()

    scale(3)
    cluster.until_phase("Running", "train-worker-1", "train-worker-2")
    until(
        lambda: cluster.get("pytorchjobs", "train")["status"]["replicaStatuses"]["Worker"].get("active") == 3,
        "three active workers in the job's status",
    )
    scale(1)
    until(lambda: set(cluster.pods()) == set(PODS), "the workers beyond one are deleted")
    assert {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()} == before
    until(lambda: {s["metadata"]["name"] for s in cluster.get("services")} == set(PODS), "and their services")
    (shared_folder / "finish").touch()
    cluster.until_condition("train", "Succeeded")


def test_deleting_a_job_deletes_what_it_owns(cluster: Cluster, shared_folder: Path) -> None:
    cluster.apply(job("train", replica(UNTIL_TOLD, shared_folder), replica(UNTIL_TOLD, shared_folder)))
    cluster.until_phase("Running", *PODS)
    cluster.kubectl("delete", "pytorchjob", "train").ok()
    until(lambda: not cluster.pods() and not cluster.get("services"), "pods and services are gone")


def test_a_deleted_pod_of_a_running_job_is_made_anew(cluster: Cluster, shared_folder: Path) -> None:
    cluster.apply(
        job(
            "train",
            replica(UNTIL_TOLD, shared_folder, restart="OnFailure"),
            replica(UNTIL_TOLD, shared_folder, restart="OnFailure"),
        )
    )
    cluster.until_phase("Running", *PODS)
    uid = cluster.pods()["train-worker-0"]["metadata"]["uid"]
    cluster.kubectl("delete", "pod", "train-worker-0").ok()

    def anew() -> bool:
        pod = cluster.pods().get("train-worker-0")
        return bool(pod and pod["metadata"]["uid"] != uid and pod["status"].get("phase") == "Running")

    until(anew, "the deleted worker runs again as a new pod")
    (shared_folder / "finish").touch()
    cluster.until_condition("train", "Succeeded")
