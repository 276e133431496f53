"""A machine that refuses namespaces altogether: a cluster of plain processes, from the refusal to `down`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster_fixture import Cluster, until
from tests.e2e.jobs import job, replica
from tests.processes import processes_with

pytestmark = pytest.mark.timeout(240)

ENTER = (sys.executable, str(Path(__file__).with_name("refused.py")))

TRAIN = """
import os, pathlib, time
import torch, torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} sums {total.item():.0f}", flush=True)
volume = pathlib.Path(os.environ["CHECKPOINTS"])
if dist.get_rank() == 0:
    torch.save({"total": total}, volume / "model.pt")
# Each rank ends for itself: one that still waits for a rank that has ended would fail.
while not (volume / "go-on").exists():
    time.sleep(0.05)
"""

CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "models"},
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
}


def training() -> dict[str, Any]:
    """A job of 1 + 2 whose checkpoint goes to a claimed volume."""
    specs = [replica('python3 -c "$SCRIPT"'), replica('python3 -c "$SCRIPT"', replicas=2)]
    for spec in specs:
        pod = spec["template"]["spec"]
        (container,) = pod["containers"]
        container["env"] = [
            {"name": "SCRIPT", "value": TRAIN},
            {"name": "CHECKPOINTS", "value": "/mnt/models/run"},
        ]
        container["command"] = ["sh", "-c", 'mkdir -p /mnt/models/run && exec python3 -c "$SCRIPT"']
        container["volumeMounts"] = [{"name": "models", "mountPath": "/mnt/models"}]
        pod["volumes"] = [{"name": "models", "persistentVolumeClaim": {"claimName": "models"}}]
    return job("train", *specs)


@pytest.fixture
def refused(make_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    """A cluster, not started, whose every command runs where there are no namespaces."""
    yield make_cluster(enter=ENTER)


def test_a_job_trains_where_namespaces_are_refused(refused: Cluster) -> None:
    cluster = refused
    refusal = cluster.trainshed("up")
    assert refusal.rc == 3, refusal
    assert "user namespaces" in refusal.err and "trainshed up --isolation plain" in refusal.err
    told = cluster.trainshed("up", "--isolation", "plain")
    told.ok()
    assert "pods are plain processes of yours" in told.err
    cluster.until_operator()
    cluster.apply(CLAIM, training())
    (volumes,) = [cluster.home / "volumes"]
    found: list[Path] = []

    def saved() -> bool:
        found[:] = volumes.glob("*/run/model.pt")
        return bool(found)

    until(saved, "the checkpoint on the claimed volume", 90)
    cluster.kill_control_plane()
    cluster.up()
    names = [f"train-{name}" for name in ("master-0", "worker-0", "worker-1")]
    cluster.until_phase("Running", *names)
    done = cluster.kubectl("exec", "train-master-0", "--", "sh", "-c", "hostname; ls /mnt/models/run")
    assert done.ok().splitlines() == ["train-master-0", "model.pt"]
    (found[0].parent / "go-on").touch()
    cluster.until_condition("train", "Succeeded", seconds=60)
    for rank, name in enumerate(names):
        assert f"rank {rank} of 3 sums 6" in cluster.logs(name)
    told_of = cluster.events("FieldNotHonoured", "train-master-0")
    assert any("nothing is mounted in a plain process" in text for text in told_of)
    status = json.loads(cluster.trainshed("status", "-o", "json").ok())
    assert status["isolation"] == "plain"
    checks = json.loads(cluster.trainshed("doctor", "-o", "json").ok())
    limits = [check["detail"] for check in checks if check["name"] == "limits of pids"]
    assert limits == [status["limits"]["pids"]] and "watchdog" in limits[0]
    notebook = Path(__file__).parents[2] / "examples/notebooks/candies.ipynb"
    ran = cluster.trainshed("notebook", "run", str(notebook), timeout=90)
    assert ran.rc == 0, ran
    cluster.trainshed("down").ok()
    assert processes_with(str(cluster.home)) == []
