"""`up`, `down`, `status`, `run`: what they leave running, what they bring back, and their exit codes.

Left out: the live view on a terminal (tests/unit), merging kubeconfigs (tests/unit).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.e2e.cluster_fixture import Cluster, as_list, read_line, read_rest, until
from tests.e2e.jobs import COUNT_UNTIL_TOLD, UNTIL_TOLD, job, replica
from tests.processes import processes_with, resident_bytes


def manifest(cluster: Cluster, *objects: dict[str, object]) -> str:
    """Write the objects to a file and return its name."""
    file = cluster.scratch / f"{os.urandom(4).hex()}.yaml"
    file.write_text(as_list(*objects))
    return str(file)


def mounts_below(home: Path) -> list[str]:
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(home) in line]


def test_a_start_that_fails_leaves_nothing_behind(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        failed = cluster.trainshed("up", "--port", str(taken.getsockname()[1]))
    assert (failed.rc, "is taken" in failed.err) == (3, True)
    assert processes_with(str(cluster.home)) == []
    assert mounts_below(cluster.home) == []
    cluster.home.joinpath("kubeconfig").mkdir()  # what nobody foresees: it fails once the daemons run
    failed = cluster.trainshed("up")
    assert (failed.rc, "IsADirectoryError" in failed.err) == (3, True)
    assert processes_with(str(cluster.home)) == []
    assert mounts_below(cluster.home) == []


def test_a_start_that_fails_leaves_pods_alone(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster()
    cluster.up()
    container = {"name": "c", "image": "host", "command": ["sleep", "600"]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "runs"},
        "spec": {"containers": [container]},
    }
    cluster.apply(pod)
    cluster.until_phase("Running", "runs")
    cluster.kill_control_plane()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert cluster.trainshed("up", "--port", str(taken.getsockname()[1])).rc == 3
    cluster.up()
    (status,) = cluster.pods()["runs"]["status"]["containerStatuses"]
    assert ("running" in status["state"], status["restartCount"]) == (True, 0)


def test_down_stops_everything_up_brings_it_back_and_purge_forgets(
    make_cluster: Callable[..., Cluster], shared_folder: Path
) -> None:
    cluster = make_cluster()
    assert cluster.trainshed("status").rc == 1
    cluster.up()
    cluster.until_operator()
    cluster.kubectl("create", "configmap", "kept", "--from-literal=a=b").ok()
    cluster.apply(
        job("train", replica(f": {shared_folder}\n{UNTIL_TOLD}", shared_folder, restart="OnFailure"))
    )
    cluster.until_phase("Running", "train-master-0")
    server, uid = cluster.facts["server"], cluster.get("pytorchjobs", "train")["metadata"]["uid"]

    cluster.trainshed("down").ok()
    assert processes_with(str(cluster.home)) == []
    assert processes_with(str(shared_folder)) == []
    assert mounts_below(cluster.home) == []
    assert cluster.facts == {"running": False, "state": str(cluster.home), "processes": []}
    cluster.kubectl("get", "nodes").failed("refused")
    cluster.trainshed("down").ok()

    cluster.up()
    assert cluster.facts["server"] == server, "kubeconfigs that were copied stay valid"
    assert cluster.get("configmaps", "kept")["data"] == {"a": "b"}
    assert cluster.get("pytorchjobs", "train")["metadata"]["uid"] == uid
    (shared_folder / "finish").touch()
    # The pod was killed with everything else: the job starts it again.
    cluster.until_condition("train", "Succeeded")

    refused_or_gone = cluster.trainshed("down", "--purge", "--yes")
    refused_or_gone.ok()
    assert not cluster.home.exists()
    assert processes_with(str(cluster.home)) == []
    cluster.up()
    assert cluster.get("configmaps", "kept") is None
    assert cluster.get("pytorchjobs") == []


def test_up_twice_is_quick_and_changes_nothing(cluster: Cluster) -> None:
    before, kubeconfig = cluster.pids, cluster.kubeconfig.read_bytes()
    started = time.monotonic()
    assert cluster.up().out == f"export KUBECONFIG={cluster.kubeconfig}\n"
    assert time.monotonic() - started < 1.5
    assert cluster.pids == before
    assert cluster.kubeconfig.read_bytes() == kubeconfig


def test_ups_at_the_same_time_start_one_cluster(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster()
    with cluster.started("up") as first, cluster.started("up") as second:
        shown = [read_rest(first), read_rest(second)]
        codes = [first.returncode, second.returncode]
    assert codes == [0, 0], shown
    assert len(cluster.pids["control plane"]) == 1
    assert len(cluster.pids["sandbox daemon"]) == 1


def test_status_tells_the_truth(cluster: Cluster, shared_folder: Path) -> None:
    cluster.apply(job("train", replica(UNTIL_TOLD, shared_folder)))
    cluster.until_phase("Running", "train-master-0")
    facts = cluster.facts
    assert facts["running"] is True
    assert facts["state"] == str(cluster.home)
    assert facts["kubeconfig"] == str(cluster.kubeconfig)
    assert facts["server"] in cluster.kubectl("config", "view").ok()
    roles = {role: len(pids) for role, pids in cluster.pids.items()}
    daemons = {"control plane": 1, "operator": 1, "network daemon": 1, "sandbox daemon": 1}
    shims = sum(p["status"]["phase"] == "Running" for p in cluster.get("pods", namespace="kubeflow")) + 1
    # Pods of earlier tests' namespaces may still be on their way out.
    assert roles.pop("shim") >= shims
    assert roles == daemons
    for process in facts["processes"]:
        resident = resident_bytes(process["pid"])
        assert abs(process["rss_bytes"] - resident) < max(0.2 * resident, 2**21), process
    text = cluster.trainshed("status").ok()
    for word in (facts["server"], str(cluster.home), "operator", "memory"):
        assert word in text


def test_run_of_a_job_that_succeeds(cluster: Cluster, shared_folder: Path) -> None:
    # The job is over when its master is.
    master = "until [ -e /out/met ]; do sleep 0.05; done; echo accuracy=0.8123"
    worker = "echo hello from the worker; touch /out/met"
    train = job("train", replica(master, shared_folder), replica(worker, shared_folder))
    done = cluster.trainshed("run", manifest(cluster, train), "-n", cluster.namespace)
    assert done.rc == 0, done
    assert "[master-0] accuracy=0.8123" in done.out
    assert "[worker-0] hello from the worker" in done.out
    assert "succeeded" in done.out and "accuracy    0.8123" in done.out
    # Run again, it is trained again.
    uid = cluster.get("pytorchjobs", "train")["metadata"]["uid"]
    again = cluster.trainshed("run", manifest(cluster, train), "-n", cluster.namespace)
    assert again.rc == 0, again
    assert cluster.get("pytorchjobs", "train")["metadata"]["uid"] != uid


def test_run_of_a_job_that_fails(cluster: Cluster, shared_folder: Path) -> None:
    failing = "echo all is well; echo cannot open the data >&2; exit 7"
    # The master fails too, but later: the worker is the cause.
    waiting = "until [ -e /out/finish ]; do sleep 0.05; done; echo peer is gone; exit 1"
    train = job("train", replica(waiting, shared_folder), replica(f"{failing}", shared_folder))
    with cluster.started("run", manifest(cluster, train), "-n", cluster.namespace) as running:
        shown = ""
        while "cannot open the data" not in shown:
            shown += read_line(running)
        cluster.until_phase("Failed", "train-worker-0")
        (shared_folder / "finish").touch()
        shown += read_rest(running)
    assert running.returncode == 1, shown
    assert "worker-0 failed first: Error, exit code 7 (pod train-worker-0)" in shown
    report = shown[shown.index("failed first") :]
    assert "  all is well\n  cannot open the data\n" in report
    assert "is failed because" in report


def test_the_report_of_a_failed_job_goes_to_stderr(cluster: Cluster) -> None:
    train = job("train", replica("echo cannot open the data; exit 7"))
    done = cluster.trainshed("run", manifest(cluster, train), "-n", cluster.namespace)
    assert done.rc == 1, done
    assert "master-0 failed first: Error, exit code 7" in done.err
    assert "  cannot open the data\n" in done.err


def test_ctrl_c_detaches_and_the_job_goes_on(cluster: Cluster, shared_folder: Path) -> None:
    train = job("train", replica(COUNT_UNTIL_TOLD, shared_folder))
    with cluster.started("run", manifest(cluster, train), "-n", cluster.namespace) as running:
        shown = ""
        while "line 3" not in shown:
            shown += read_line(running)
        running.send_signal(signal.SIGINT)
        shown += read_rest(running)
    assert running.returncode == 0, shown
    for command in ("follow", "suspend", "delete"):
        assert f"trainshed {command} pytorchjob/train -n {cluster.namespace}" in shown
    assert "Running" in cluster.conditions("train")
    (shared_folder / "finish").touch()
    followed = cluster.trainshed("follow", "pytorchjob/train", "-n", cluster.namespace)
    assert followed.rc == 0, followed
    cluster.until_condition("train", "Succeeded")


def test_run_of_a_job_that_is_deleted_meanwhile(cluster: Cluster, shared_folder: Path) -> None:
    train = job("train", replica(COUNT_UNTIL_TOLD, shared_folder))
    with cluster.started("run", manifest(cluster, train), "-n", cluster.namespace) as running:
        while "line 1" not in read_line(running):
            pass
        deleted = cluster.trainshed("delete", "train", "-n", cluster.namespace)
        assert deleted.rc == 0 and "train: ending its pods" in deleted.err, deleted
        shown = read_rest(running)
    assert running.returncode == 1, shown
    assert "train was deleted" in shown
    until(lambda: not cluster.pods(), "the job's pods are gone")


def test_run_starts_the_cluster(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster()
    done = cluster.trainshed("run", manifest(cluster, job("train", replica("echo hello"))))
    assert done.rc == 0, done
    assert "[master-0] hello" in done.out
    assert json.loads((cluster.home / "controlplane.json").read_text())["pid"] == cluster.facts["pid"]


def test_no_command_edits_the_kubeconfig_of_a_cluster(make_cluster: Callable[..., Cluster]) -> None:
    """KUBECONFIG names it, as after `eval "$(trainshed up)"`; the user's is ~/.kube/config."""
    cluster, other = make_cluster(), make_cluster()
    cluster.up()
    before = cluster.kubeconfig.read_bytes()
    users = cluster.scratch / ".kube" / "config"
    users.parent.mkdir()
    users.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: mine\ncontexts: [{name: mine, context: {}}]\n"
    )

    merged = cluster.trainshed("up", "--merge")
    assert merged.rc == 0 and f"is never edited: using {users}" in merged.err, merged
    scope = (f"--kubeconfig={users}", "--context=trainshed")
    config = [cluster.kubectl_path, "config", f"--kubeconfig={users}"]
    subprocess.run([*config, "set-context", "trainshed", "--namespace=team"], check=True)  # rewrites the file
    cluster.kubectl("get", "namespaces", *scope).ok()

    # Another state directory, in the same shell and with the same home.
    environment = {**cluster.environment, "TRAINSHED_HOME": str(other.home)}
    other.home.mkdir(mode=0o700)
    for arguments in (("kubeconfig", "--unmerge"), ("down", "--purge", "--yes")):
        done = subprocess.run(
            cluster.trainshed_command(*arguments), env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done
    assert cluster.kubeconfig.read_bytes() == before
    cluster.kubectl("get", "namespaces", *scope).ok()

    cluster.trainshed("kubeconfig", "--unmerge").ok()
    assert cluster.kubeconfig.read_bytes() == before
    assert subprocess.check_output([*config, "current-context"]) == b"mine\n"

    cluster.kubeconfig.write_text("")
    assert f"{cluster.kubeconfig} was damaged: written again" in cluster.up().err
    assert cluster.kubeconfig.read_bytes() == before
