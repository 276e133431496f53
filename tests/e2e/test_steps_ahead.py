"""Pods that are prepared for the next steps, when what they wait for does not come: kills, an end that is asked for."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.e2e.cluster_fixture import Cluster
from tests.e2e.test_notebook_run import SECONDS, WRITE, effects, notebook, until_over
from trainshed.pipelines.emit import local
from trainshed.pipelines.emit.options import Options
from trainshed.sdk.notebook import pipeline_of
from trainshed.testing import until

WAIT = "import time, os\nwhile not os.path.exists('go'): time.sleep(0.05)\n"
STEPS = (
    ("step:one", WRITE.format("one") + "a = [1]"),
    ("step:two prev:one retries:1", WRITE.format("two") + WAIT + "b = [*a, 2]"),
    ("step:three prev:two", WRITE.format("three") + "c = [*b, 3]"),
    ("step:four prev:three", WRITE.format("four") + "assert c == [1, 2, 3], c"),
)


def test_kills_while_pods_wait_cost_an_attempt_and_nothing_is_done_twice(
    cluster: Cluster, tmp_path: Path
) -> None:
    """`kill -9` of the operator, a pod that waits, the step that runs, and the control plane, in this order."""
    run = f"killed-{os.getpid()}"  # pods are found by their names, among all processes of the machine
    file = notebook(tmp_path / "killed.ipynb", run, *STEPS)
    cluster.trainshed("notebook", "run", file, "--detach", "--namespace", cluster.namespace).ok()
    until_others_wait(cluster, run, tmp_path)
    saved = manifest(cluster, run)
    os.kill(cluster.pids["operator"][0], signal.SIGKILL)
    for step in ("three", "two"):
        kill(f"{run}-{step}-pod")
    cluster.kill_control_plane()
    cluster.up()
    until(lambda: effects(tmp_path) == ["one", "two", "two"], "step two runs again", SECONDS)
    (tmp_path / "go").touch()
    assert until_over(cluster, run)["status"] == "True"
    assert effects(tmp_path) == ["one", "two", "two", "three", "four"]
    assert manifest(cluster, run) == saved
    assert reasons(cluster, run) == dict.fromkeys(("one", "two", "three", "four"), "Succeeded")
    assert {p["status"]["phase"] for p in pods(cluster, run).values()} <= {"Succeeded", "Failed"}


def test_a_run_that_is_ended_leaves_no_pod_that_waits(cluster: Cluster, tmp_path: Path) -> None:
    """One run is cancelled, one is out of time, and one is deleted, each with two prepared pods."""
    names = stopped, late, gone = [f"{what}-{os.getpid()}" for what in ("stopped", "late", "gone")]
    for name in names:
        (tmp_path / name).mkdir()
        file = notebook(tmp_path / name / f"{name}.ipynb", name, *STEPS)
        pipeline, _ = pipeline_of(Path(file))
        options = Options(
            run_name=name, at_once=3, python=sys.executable, directory=str(tmp_path / name), prepare=True
        )
        (run,) = local.emit(pipeline, options)
        run["spec"]["timeouts"] = {"pipeline": "1h"}
        cluster.apply(run)
    for name in names:
        until_others_wait(cluster, name, tmp_path / name)
    saved = {name: manifest(cluster, name) for name in names}
    merge = ("--type", "merge", "-p")
    cluster.kubectl("patch", "pipelinerun", stopped, *merge, '{"spec":{"status":"Cancelled"}}').ok()
    long_ago = '{"status":{"startTime":"2020-01-01T00:00:00Z"}}'
    cluster.kubectl("patch", "pipelinerun", late, "--subresource", "status", *merge, long_ago).ok()
    cluster.kubectl("delete", "pipelinerun", gone, timeout=SECONDS).ok()

    for name, reason in ((stopped, "Cancelled"), (late, "PipelineRunTimeout")):
        assert until_over(cluster, name)["reason"] == reason
        left = {"one": "Succeeded", "two": "TaskRunCancelled"}
        until(lambda left=left, name=name: reasons(cluster, name) == left, "the others are gone", SECONDS)
        until(
            lambda name=name: set(pods(cluster, name)) == {f"{name}-one-pod"}, "their pods are gone", SECONDS
        )
        assert manifest(cluster, name) == saved[name]
    until(lambda: not pods(cluster, gone), "the pods of the run that was deleted are gone", SECONDS)
    assert reasons(cluster, gone) == {}
    for name in names:
        assert effects(tmp_path / name) == ["one", "two"]
        for step in ("two", "three", "four"):
            pod = f"{name}-{step}-pod"
            until(lambda pod=pod: not processes(pod), f"the processes of {pod} are gone", SECONDS)


def until_others_wait(cluster: Cluster, run: str, folder: Path) -> None:
    """Wait until step two runs, and the pods of the two behind it wait for their turn."""

    def wait() -> bool:
        found = pods(cluster, run)
        waiting = {
            name
            for name, pod in found.items()
            if pod["status"].get("phase") == "Running"
            and "tekton.dev/ready" not in pod["metadata"]["annotations"]
        }
        return waiting == {f"{run}-three-pod", f"{run}-four-pod"}

    until(lambda: (folder / "log").exists() and effects(folder) == ["one", "two"], f"{run}-two runs", SECONDS)
    until(wait, f"pods of {run} wait for their turn", SECONDS)


def pods(cluster: Cluster, run: str) -> dict[str, Any]:
    """Return the pods of a run by name."""
    found = cluster.pods()
    return {n: p for n, p in found.items() if p["metadata"]["labels"]["tekton.dev/pipelineRun"] == run}


def reasons(cluster: Cluster, run: str) -> dict[str, str]:
    """Return the reason of each step's condition, of those that have a TaskRun."""
    found = [r for r in cluster.get("taskruns") if r["metadata"]["labels"]["tekton.dev/pipelineRun"] == run]
    return {
        r["metadata"]["labels"]["tekton.dev/pipelineTask"]: r["status"]["conditions"][0]["reason"]
        for r in found
    }


def manifest(cluster: Cluster, run: str) -> str:
    """Return what step one says about the data that it has saved."""
    (claim,) = [
        c for c in cluster.get("persistentvolumeclaims") if c["metadata"]["ownerReferences"][0]["name"] == run
    ]
    volume = cluster.api.json("GET", f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")
    return Path(volume["spec"]["hostPath"]["path"], "steps/one/manifest.json").read_text()


def processes(pod: str) -> list[int]:
    """Return the processes of a pod's containers, by their host name."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if f"HOSTNAME={pod}".encode() in (directory / "environ").read_bytes().split(b"\0"):
                found.append(int(directory.name))
        except OSError:
            continue
    return found


def kill(pod: str) -> None:
    """`kill -9` all processes of a pod's containers."""
    found = processes(pod)
    assert found, f"{pod} has no processes"
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue  # it ended with the one before
