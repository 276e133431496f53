"""The notebooks of the examples, from end to end by `trainshed notebook run`: real libraries, jobs of several workers.

Each is of a structure that Kale's own examples have; those with several workers train together.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from tests.e2e.cluster_fixture import Cluster
from tests.e2e.conftest import Result
from tests.e2e.tutorial import Tutorial, environment_for

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "examples/notebooks"
PAGE = ROOT / "docs/how-to/notebooks-to-pipelines.md"
SECONDS = 240.0


def run(cluster: Cluster, folder: Path, name: str, *arguments: str) -> Result:
    """Run an example, copied to a folder, to its end; it must succeed."""
    file = shutil.copy(NOTEBOOKS / f"{name}.ipynb", folder)
    done = cluster.trainshed(
        "notebook", "run", str(file), *arguments, "--namespace", cluster.namespace, timeout=SECONDS
    )
    assert done.rc == 0, done
    return done


def said(done: Result, step: str) -> list[str]:
    """Return the lines that a step or one of its workers printed."""
    return [
        line.removeprefix(f"[{step}] ") for line in done.out.splitlines() if line.startswith(f"[{step}] ")
    ]


def result(done: Result, name: str) -> float:
    """Return a metric of the run."""
    found = re.search(rf"^\s*metric\s+{name} = (\S+)$", done.out, re.M)
    assert found is not None, done
    return float(found[1])


def workers(cluster: Cluster, kind: str) -> list[dict[str, Any]]:
    """Return the jobs of a kind in the test's namespace."""
    text = cluster.kubectl("get", kind, "-o", "json").ok()
    return list(json.loads(text)["items"])


def test_a_reader_gets_what_the_page_shows(cluster: Cluster, tmp_path: Path) -> None:
    """Every command of the page but the installation: candies is run twice, by the command and by kubectl."""
    shutil.copytree(NOTEBOOKS, tmp_path / "examples/notebooks")
    environment = environment_for(
        Path(cluster.kubectl_path),
        tmp_path / "bin",
        tmp_path,
        cluster.kubeconfig,
        Path(sys.executable).parent,
    )
    environment["TRAINSHED_HOME"] = str(cluster.home)
    page = Tutorial(PAGE, tmp_path, environment, left_out="install")
    page.run()
    left = [
        int(words) for words in re.findall(r"^\[kid\d\] Took \d+ of (\d+)\.", "".join(page.transcript), re.M)
    ]
    assert left[0] == 30
    assert left == sorted(left, reverse=True)
    assert (tmp_path / "candies.svg").read_text().startswith("<svg")
    assert "pipelineInfo" in (tmp_path / "candies-kfp.yaml").read_text()
    cluster.kubectl(
        *["delete", "pipelineruns", "-l", "trainshed.dev/pipeline=candies-sharing", "-n", "default"]
    ).ok()


def test_parameters_and_metrics(cluster: Cluster, tmp_path: Path) -> None:
    """A step asks for two GPUs, which are left out where there are none."""
    done = run(cluster, tmp_path, "parameters-and-metrics", "--param", "d1=2", "--cpu")
    assert (result(done, "d1"), result(done, "d2")) == (2, 6)
    assert 0 < result(done, "sum-result") < 12


def test_titanic(cluster: Cluster, tmp_path: Path) -> None:
    done = run(cluster, tmp_path, "titanic")
    assert "titanic-ml succeeded: 9 of 9 steps" in done.out
    header, *rows = said(done, "results")
    assert header.split() == ["Model", "Score"]
    assert len(rows) == 5
    assert min(float(row.split()[-1]) for row in rows) > 60
    (report,) = [line.split()[1] for line in done.out.splitlines() if line.endswith("results.html")]
    assert "<iframe" in Path(report).read_text(), "a frame is shown as the table that it is"


def test_a_mirrored_strategy_of_three_workers(cluster: Cluster, tmp_path: Path) -> None:
    """The demo of Kale's fork: the workers train one model, of which the first one's file is evaluated."""
    done = run(cluster, tmp_path, "distributed-tensorflow")
    losses = []
    for index in range(3):
        lines = said(done, f"training/worker-{index}")
        assert f"worker {index}: one of 3 replicas" in lines
        losses.append([found for line in lines for found in re.findall(r"loss: (\d\.\d+)", line)])
    assert losses[0] == losses[1] == losses[2], "each has the gradients of all"
    assert len(losses[0]) == 5
    (accuracy,) = (float(line.split()[-1]) for line in said(done, "modelevaluation") if "accuracy" in line)
    assert accuracy > 0.5
    (job,) = workers(cluster, "tfjobs")
    assert job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 3
    claim = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["volumes"][-1]
    owner = cluster.get("persistentvolumeclaims", claim["persistentVolumeClaim"]["claimName"])
    assert owner["metadata"]["ownerReferences"][0]["kind"] == "PipelineRun"


def test_two_workers_with_ddp(cluster: Cluster, tmp_path: Path) -> None:
    done = run(cluster, tmp_path, "distributed-pytorch")
    assert result(done, "error") < 0.01
    (job,) = workers(cluster, "pytorchjobs")
    assert sorted(job["spec"]["pytorchReplicaSpecs"]) == ["Master", "Worker"]


def test_two_workers_with_jax(cluster: Cluster, tmp_path: Path) -> None:
    done = run(cluster, tmp_path, "distributed-jax")
    for index in range(2):
        assert f"process {index} of 2: 2 devices in the mesh" in said(done, f"train/worker-{index}")
    assert result(done, "error") < 0.01
    assert len(workers(cluster, "jaxjobs")) == 1


def test_two_workers_with_xgboost(cluster: Cluster, tmp_path: Path) -> None:
    done = run(cluster, tmp_path, "distributed-xgboost")
    assert "rank 0 of 2" in said(done, "train/master-0")
    assert "rank 1 of 2" in said(done, "train/worker-0")
    assert result(done, "accuracy") > 0.8
    assert len(workers(cluster, "xgboostjobs")) == 1
