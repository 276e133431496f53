"""`kill -9` of any part of the cluster: pods train on, jobs complete, nothing runs twice, no log line is lost.

Matrix: what is killed {control plane, operator} × when {pods run, pods end meanwhile, between apply and Running}.
Left out: power loss (the store's own tests), kill of a shim or of the sandbox daemon (test_runtime_recovery.py).
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.e2e.cluster_fixture import Cluster, read_line, read_rest, until
from tests.e2e.jobs import COUNT_UNTIL_TOLD, UNTIL_TOLD, job, replica
from tests.processes import parent_of, processes_with

PODS = ("train-master-0", "train-worker-0")


def counting_job(out: Path) -> dict[str, Any]:
    # The script's own text marks the processes of this test's pods.
    script = f": {out}\n{COUNT_UNTIL_TOLD}"
    return job("train", replica(script, out), replica(script, out))


def printed(out: Path, pod: str) -> int:
    file = out / f"count-{pod}"
    return int(file.read_text()) if file.exists() else 0


def until_printed(out: Path, more: int) -> None:
    """Wait until every pod has printed `more` lines than by now."""
    goal = {pod: printed(out, pod) + more for pod in PODS}
    until(lambda: all(printed(out, p) >= n for p, n in goal.items()), f"pods printed {more} more lines")


def assert_untouched(cluster: Cluster, out: Path, uids: dict[str, str]) -> None:
    """Every pod is the same object, was started once, never restarted, and its log has every line in order."""
    found = cluster.pods("train")
    assert {name: p["metadata"]["uid"] for name, p in found.items()} == uids
    assert Counter((out / "starts").read_text().split()) == dict.fromkeys(PODS, 1)
    for name, pod in found.items():
        assert [s["restartCount"] for s in pod["status"]["containerStatuses"]] == [0]
        assert cluster.logs(name) == [f"line {n}" for n in range(1, printed(out, name) + 1)]


def programs_with(word: str) -> list[int]:
    """Return the processes with `word` in their command line, but no child that has yet to execute its own."""
    found = processes_with(word)
    return [pid for pid in found if parent_of(pid) not in (None, *found)]


def uids_of(cluster: Cluster) -> dict[str, str]:
    return {name: p["metadata"]["uid"] for name, p in cluster.pods("train").items()}


def test_pods_train_on_when_the_control_plane_is_killed(cluster: Cluster, shared_folder: Path) -> None:
    cluster.apply(counting_job(shared_folder))
    cluster.until_phase("Running", *PODS)
    until_printed(shared_folder, 10)
    uids, processes = uids_of(cluster), programs_with(str(shared_folder))
    assert len(processes) >= len(PODS)

    cluster.kill_control_plane()
    assert cluster.trainshed("status").rc == 1
    cluster.kubectl("get", "pods").failed("refused")
    until_printed(shared_folder, 10)
    cluster.up()

    until_printed(shared_folder, 10)
    assert programs_with(str(shared_folder)) == processes
    (shared_folder / "finish").touch()
    cluster.until_condition("train", "Succeeded")
    cluster.until_phase("Succeeded", *PODS)
    assert_untouched(cluster, shared_folder, uids)


def test_pods_that_end_while_the_control_plane_is_down_count(cluster: Cluster, shared_folder: Path) -> None:
    cluster.apply(counting_job(shared_folder))
    cluster.until_phase("Running", *PODS)
    until_printed(shared_folder, 10)
    uids = uids_of(cluster)

    cluster.kill_control_plane()
    (shared_folder / "finish").touch()
    until(lambda: not processes_with(str(shared_folder)), "the pods' processes ended")
    cluster.up()

    cluster.until_condition("train", "Succeeded")
    cluster.until_phase("Succeeded", *PODS)
    assert_untouched(cluster, shared_folder, uids)


def test_a_followed_log_goes_on_across_a_kill_without_a_gap(cluster: Cluster, shared_folder: Path) -> None:
    cluster.apply(counting_job(shared_folder))
    cluster.until_phase("Running", *PODS)
    with cluster.started("follow", "train", "-n", cluster.namespace) as following:
        shown = ""
        while not all(pod.removeprefix("train-") in shown for pod in PODS):
            shown += read_line(following)
        cluster.kill_control_plane()
        until_printed(shared_folder, 10)
        cluster.up()
        (shared_folder / "finish").touch()
        shown += read_rest(following)
    assert following.returncode == 0, shown
    for pod in PODS:
        replica_name = pod.removeprefix("train-")
        lines = [line.split()[-2:] for line in shown.splitlines() if line.startswith(f"[{replica_name}]")]
        assert lines == [["line", str(n)] for n in range(1, printed(shared_folder, pod) + 1)], pod


def restarts_of_operator(cluster: Cluster) -> int:
    (operator,) = cluster.get("pods", namespace="kubeflow")
    (status,) = operator["status"]["containerStatuses"]
    return int(status["restartCount"])


def test_jobs_outlive_a_killed_operator(cluster: Cluster, shared_folder: Path) -> None:
    cluster.apply(counting_job(shared_folder))
    cluster.until_phase("Running", *PODS)
    uids = uids_of(cluster)
    before = restarts_of_operator(cluster)

    os.kill(cluster.pids["operator"][0], signal.SIGKILL)
    cluster.apply(job("later", replica("exit 0")))
    (shared_folder / "finish").touch()

    cluster.until_condition("train", "Succeeded")
    cluster.until_condition("later", "Succeeded")
    cluster.until_phase("Succeeded", *PODS)
    assert_untouched(cluster, shared_folder, uids)
    assert restarts_of_operator(cluster) == before + 1


def test_a_kill_at_any_moment_before_running_starts_each_pod_once(
    cluster: Cluster, shared_folder: Path
) -> None:
    seed = int.from_bytes(os.urandom(2))
    print(f"seed {seed}")
    moments = random.Random(seed)
    for attempt in range(6):
        out = shared_folder / str(attempt)
        out.mkdir(mode=0o777)
        name = f"train{attempt}"
        pods = (f"{name}-master-0", f"{name}-worker-0", f"{name}-worker-1")
        cluster.apply(job(name, replica(UNTIL_TOLD, out), replica(UNTIL_TOLD, out, replicas=2)))
        moment = moments.uniform(0, 0.4)
        print(f"attempt {attempt}: killed {moment:.3f} s after the apply")
        time.sleep(moment)  # what is tested is that it may be any
        cluster.kill_control_plane()
        cluster.up()
        cluster.until_phase("Running", *pods)
        (out / "finish").touch()
        cluster.until_condition(name, "Succeeded")
        cluster.until_phase("Succeeded", *pods)
        assert Counter((out / "starts").read_text().split()) == dict.fromkeys(pods, 1)
        restarts = {
            p: q["status"]["containerStatuses"][0]["restartCount"] for p, q in cluster.pods(name).items()
        }
        assert restarts == dict.fromkeys(pods, 0)
