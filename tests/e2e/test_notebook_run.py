"""`trainshed notebook run`, as its user sees it, and the same run by kubectl; processes killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e.cluster_fixture import Cluster, read_rest
from tests.tutorial import blocks
from trainshed.testing import until

SECONDS = 120.0
HOW_TO = Path(__file__).parents[2] / "docs/how-to/notebooks-to-pipelines.md"


def notebook(path: Path, name: str, *cells: tuple[str, str]) -> str:
    """Write a notebook of tagged cells (tags, code) and return its path."""
    made = [
        {
            "cell_type": "code",
            "id": f"c{i}",
            "metadata": {"tags": tags.split()},
            "source": code,
            "outputs": [],
            "execution_count": None,
        }
        for i, (tags, code) in enumerate(cells)
    ]
    metadata = {"kubeflow_notebook": {"pipeline_name": name}}
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": made}))
    return str(path)


def condition(cluster: Cluster, name: str) -> Any:
    found = cluster.api.json("GET", f"/apis/tekton.dev/v1/namespaces/{cluster.namespace}/pipelineruns/{name}")
    return next(iter((found.get("status") or {}).get("conditions") or ()), {})


def until_over(cluster: Cluster, name: str) -> Any:
    until(lambda: condition(cluster, name).get("status") in ("True", "False"), f"{name} is over", SECONDS)
    return condition(cluster, name)


def effects(folder: Path) -> list[str]:
    """Return the lines that steps appended to `log` beside the notebook."""
    return (folder / "log").read_text().split()


WRITE = "with open('log', 'a') as f: print('{}', file=f, flush=True)\n"


def test_a_notebook_runs_and_kubectl_sees_the_same(cluster: Cluster, tmp_path: Path) -> None:
    file = notebook(
        tmp_path / "sums.ipynb",
        "sums",
        ("pipeline-parameters", "n = 2"),
        ("step:load", "import beside\nrows = list(range(n + beside.MORE))\nprint('rows', rows)"),
        ("step:total prev:load", "result = sum(rows)\nprint('sum', result)"),
        ("pipeline-metrics", "print(result)"),
    )
    (tmp_path / "beside.py").write_text("MORE = 1\n")
    (tmp_path / "msgspec.py").write_text(
        "raise ImportError('only cells import what lies beside the notebook')\n"
    )
    there = ("--namespace", cluster.namespace)
    done = cluster.trainshed("notebook", "run", file, "-p", "n=3", *there, timeout=SECONDS)
    assert done.rc == 0, done
    assert "[load] rows [0, 1, 2, 3]" in done.out
    assert "[total] sum 6" in done.out
    assert "sums succeeded: 2 of 2 steps" in done.out
    assert "result = 6" in done.out
    (report,) = [line.split()[1] for line in done.out.splitlines() if line.endswith("total.html")]
    assert "sum 6" in Path(report).read_text()

    header, line = cluster.kubectl("get", "pipelineruns").ok().splitlines()
    assert header.split() == ["NAME", "SUCCEEDED", "REASON", "STARTTIME", "COMPLETIONTIME"]
    assert line.split()[:3] == ["sums", "True", "Succeeded"]
    assert len(cluster.kubectl("get", "tr", "--no-headers").ok().splitlines()) == 2
    described = cluster.kubectl("describe", "pr", "sums").ok()
    assert "Pipeline Task Name:  total" in described
    assert "All Steps have completed executing" in cluster.kubectl("describe", "taskrun", "sums-load").ok()
    assert "sum 6" in cluster.kubectl("logs", "-l", "tekton.dev/pipelineTask=total", "-c", "step-main").ok()

    again = cluster.trainshed("notebook", "run", file, "-o", "json", *there, timeout=SECONDS)
    assert again.rc == 0, again
    assert json.loads(again.out)["results"] == {"result": "3"}

    cluster.kubectl("delete", "pipelinerun", "sums").ok()
    until(lambda: not cluster.get("pods"), "the run's pods are gone")
    until(lambda: not cluster.get("persistentvolumeclaims"), "the run's claim is gone")
    assert "No resources found" in cluster.kubectl("get", "taskruns").err


def test_functions_run_as_the_page_says(cluster: Cluster, tmp_path: Path) -> None:
    (block,) = [b for b in blocks(HOW_TO.read_text()) if b.options.get("file") == "sums.py"]
    (tmp_path / "sums.py").write_text(block.text)
    done = subprocess.run(
        [sys.executable, "sums.py"],
        cwd=tmp_path,
        env=cluster.environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "sums ['succeeded', 'succeeded']\n"
    again = cluster.trainshed("notebook", "run", str(tmp_path / "sums.py"), "-p", "count=7", timeout=SECONDS)
    assert again.rc == 0, again
    assert "sums succeeded: 2 of 2 steps" in again.out
    assert "parameter  count = 7" in again.out
    cluster.kubectl("delete", "pipelinerun", "sums", "-n", "default").ok()


def test_a_failure_is_told_first_and_the_run_goes_on_from_there(cluster: Cluster, tmp_path: Path) -> None:
    file = notebook(
        tmp_path / "wrong.ipynb",
        "wrong",
        ("pipeline-parameters", "n = 0"),
        ("step:first", "x = 7"),
        ("step:second prev:first", "y = x\nz = y // n"),
    )
    there = ("--namespace", cluster.namespace)
    done = cluster.trainshed("notebook", "run", file, *there, timeout=SECONDS)
    assert done.rc == 1
    said = done.err[done.err.index("step second failed") :].splitlines()
    assert said[0].startswith("step second failed, cell 3, line 2: ZeroDivisionError")
    assert "Cell In[3], line 2" in "\n".join(said[1:6])
    on = cluster.trainshed("notebook", "run", file, "--from", "second", "-p", "n=2", *there, timeout=SECONDS)
    assert on.rc == 0, on
    assert "1 of 1 steps" in on.out


def test_what_is_killed_runs_once_in_each_attempt(cluster: Cluster, tmp_path: Path) -> None:
    """The control plane dies while a step runs; the next step's pod dies, too, and has another attempt."""
    wait = "import time, os\nwhile not os.path.exists('go-{0}'): time.sleep(0.05)\n"
    file = notebook(
        tmp_path / "hard.ipynb",
        "hard",
        ("step:one", WRITE.format("one") + wait.format("one") + "a = 1"),
        ("step:two prev:one retries:1", WRITE.format("two") + wait.format("two") + "b = a + 1"),
        ("step:three prev:two", WRITE.format("three") + "assert b == 2"),
    )
    cluster.trainshed("notebook", "run", file, "--detach", "--namespace", cluster.namespace).ok()

    def written(word: str, times: int = 1) -> bool:
        try:
            return effects(tmp_path).count(word) == times
        except OSError:
            return False

    until(lambda: written("one"), "step one runs", SECONDS)
    cluster.kill_control_plane()
    cluster.up()
    (tmp_path / "go-one").touch()
    until(lambda: written("two"), "step two runs", SECONDS)
    cluster.kubectl("delete", "pod", "hard-two-pod", "--grace-period=0", "--force").ok()
    until(lambda: written("two", 2), "step two runs again", SECONDS)
    (tmp_path / "go-two").touch()
    assert until_over(cluster, "hard")["status"] == "True"
    assert effects(tmp_path) == ["one", "two", "two", "three"]


def test_steps_wait_with_their_kernels_started_and_leave_nothing_if_they_are_not_needed(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The pods of the next steps run; one is killed, and so is the control plane; then a step fails."""
    wait = "import time, os\nwhile not os.path.exists('go'): time.sleep(0.05)\n"
    file = notebook(
        tmp_path / "ahead.ipynb",
        "ahead",
        ("step:one", WRITE.format("one") + wait + "a = 1"),
        ("step:two prev:one", WRITE.format("two") + "b = a + 1"),
        ("step:three prev:two", WRITE.format("three") + "assert b == 3"),
        ("step:four prev:three", WRITE.format("four")),
        ("step:five prev:four", WRITE.format("five")),
    )
    cluster.trainshed("notebook", "run", file, "--detach", "--namespace", cluster.namespace).ok()

    def pods() -> dict[str, str]:
        return {p["metadata"]["name"]: p["metadata"]["uid"] for p in cluster.get("pods") if _runs(p)}

    wanted = {f"ahead-{name}-pod" for name in ("one", "two", "three", "four")}
    until(lambda: set(pods()) == wanted, "the pods of four steps run", SECONDS)
    assert _runs_of(cluster) == {"ahead-one": "Running"} | dict.fromkeys(
        ("ahead-two", "ahead-three", "ahead-four"), "TaskRunPending"
    )
    first = pods()
    cluster.kubectl("delete", "pod", "ahead-two-pod", "--grace-period=0", "--force").ok()
    cluster.kill_control_plane()
    cluster.up()
    until(lambda: set(pods()) == wanted, "the pod that was deleted is made again", SECONDS)
    assert {name for name, uid in pods().items() if first[name] != uid} == {"ahead-two-pod"}
    until(lambda: (tmp_path / "log").exists() and effects(tmp_path), "step one writes", SECONDS)
    assert effects(tmp_path) == ["one"]
    (tmp_path / "go").touch()
    assert until_over(cluster, "ahead")["reason"] == "Failed"
    until(
        lambda: set(_runs_of(cluster)) == {"ahead-one", "ahead-two", "ahead-three"}, "the others go", SECONDS
    )
    until(
        lambda: "ahead-four-pod" not in {p["metadata"]["name"] for p in cluster.get("pods")}, "its pod goes"
    )
    assert effects(tmp_path) == ["one", "two", "three"]
    for run in cluster.get("taskruns"):
        (step,) = run["status"]["steps"]
        assert (
            run["status"]["startTime"] <= step["terminated"]["startedAt"] <= run["status"]["completionTime"]
        )


def _runs(pod: Any) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Running")


def _runs_of(cluster: Cluster) -> dict[str, str]:
    """Return the reason of each TaskRun's condition."""
    found = cluster.get("taskruns")
    return {r["metadata"]["name"]: r["status"]["conditions"][0]["reason"] for r in found if r.get("status")}


RANK = """import os, signal, time
rank = os.environ['WORKER_INDEX']
with open('log', 'a') as f: print(f'train-{rank}', file=f, flush=True)
print(f"rank {rank} of {os.environ['NUM_WORKERS']} has {a}", flush=True)
if rank == '1' and not os.path.exists('again'):
    open('again', 'w').close()
    os.kill(os.getpid(), signal.SIGKILL)
while not os.path.exists('go'): time.sleep(0.05)
b = a + 1"""


def test_a_distributed_step_outlives_operator_and_control_plane(cluster: Cluster, tmp_path: Path) -> None:
    """A rank is killed: a second attempt. Then the operator is, and the control plane: it goes on.

    The operator alone is killed once more, and the step ends while there is none: the run ends all the same, once.
    """
    file = notebook(
        tmp_path / "ranks.ipynb",
        "ranks",
        ("step:one", WRITE.format("one") + "a = 6"),
        ("step:train prev:one distribute:XGBoost numWorkers:2 retries:1", RANK),
        ("step:last prev:train", WRITE.format("last") + "assert b == 7"),
    )
    with cluster.started("notebook", "run", file, "--namespace", cluster.namespace) as process:
        until(
            lambda: _written(tmp_path, "train-0", "train-0", "train-1", "train-1"),
            "2 attempts",
            SECONDS,
        )
        saved = _manifest(cluster, "one")
        before = {name: pod["metadata"]["uid"] for name, pod in cluster.pods("ranks-train-retry1").items()}
        killed = _kill_operator(cluster)
        cluster.kill_control_plane()
        cluster.up()
        until(lambda: cluster.pids.get("operator", killed) != killed, "another operator runs", SECONDS)
        after = cluster.pods("ranks-train-retry1")
        assert {name: pod["metadata"]["uid"] for name, pod in after.items()} == before
        _kill_operator(cluster)
        (tmp_path / "go").touch()
        until_over(cluster, "ranks")
        text = read_rest(process, SECONDS)
    assert process.returncode == 0, text
    for rank, replica in enumerate(("master-0", "worker-0")):
        assert f"[train/{replica}] rank {rank} of 2 has 6" in text
    assert sorted(effects(tmp_path)) == ["last", "one", *["train-0"] * 2, *["train-1"] * 2]
    assert _manifest(cluster, "one") == saved
    logs = cluster.kubectl("logs", "-l", "tekton.dev/pipelineRun=ranks", "--all-containers", "--prefix").ok()
    assert "[pod/ranks-train-retry1-master-0/xgboost] rank 0 of 2 has 6" in logs


def _kill_operator(cluster: Cluster) -> list[int]:
    """`kill -9` it; return the process ids that it had."""
    found = cluster.pids["operator"]
    os.kill(found[0], signal.SIGKILL)
    return found


def _written(folder: Path, *words: str) -> bool:
    try:
        found = effects(folder)
    except OSError:
        return False
    return sorted(w for w in found if w in words) == sorted(words)


def _manifest(cluster: Cluster, step: str) -> str:
    (claim,) = cluster.get("persistentvolumeclaims")
    volume = cluster.api.json("GET", f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")
    return Path(volume["spec"]["hostPath"]["path"], f"steps/{step}/manifest.json").read_text()
