"""What `run` applies: a cluster's manifest adapted to this machine, a script without a manifest, and both again when a
file is saved. Which fields give way: tests/unit/test_sdk_adapt.py."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.e2e.cluster_fixture import Cluster, read_line
from trainshed.testing.waiting import WAIT_SECONDS

OF_A_CLUSTER = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: adapted}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 64
      restartPolicy: Never
      template:
        spec:
          schedulerName: kai-scheduler
          nodeSelector: {pool: a100}
          imagePullSecrets: [{name: registry}]
          priorityClassName: high
          containers:
            - name: pytorch
              image: registry.example.com/train:1
              command: [sh, -c, 'touch /data/$RANK && ls /data && sleep 1']
              resources: {limits: {nvidia.com/gpu: 8, memory: 900Gi}}
              volumeMounts: [{name: data, mountPath: /data}]
          volumes: [{name: data, persistentVolumeClaim: {claimName: dataset}}]
"""


@pytest.fixture
def folder(cluster: Cluster) -> Path:
    """A directory that pods see under its own name; /tmp they do not."""
    found = cluster.scratch / cluster.namespace
    found.mkdir(parents=True)
    return found


def test_a_clusters_manifest_runs_here_and_the_file_stays(cluster: Cluster, folder: Path) -> None:
    file = folder / "job.yaml"
    file.write_text(OF_A_CLUSTER)
    checked = cluster.trainshed("check", str(file), "-n", cluster.namespace, "-o", "json")
    found = {finding["code"] for finding in json.loads(checked.out)[0]["findings"]}
    assert checked.rc == 1 and found >= {"TS101", "TS105", "TS301", "TS302", "TS303", "TS305"}
    done = cluster.trainshed("run", str(file), "--adapt", "--workers", "2", "-n", cluster.namespace)
    assert done.rc == 0, done
    assert (
        "-          schedulerName: kai-scheduler" in done.err and "+kind: PersistentVolumeClaim" in done.err
    )
    assert "persistentvolumeclaim/dataset created" in done.err
    assert set(cluster.pods("adapted")) == {"adapted-worker-0", "adapted-worker-1"}
    assert file.read_text() == OF_A_CLUSTER


def test_a_script_runs_without_a_manifest_in_its_own_directory(cluster: Cluster, folder: Path) -> None:
    script = folder / "train_it.py"
    script.write_text(
        "import os, sys, time\n"
        "open(f\"rank-{os.environ['RANK']}\", 'w').write(' '.join(sys.argv[1:]))\n"
        "while not (os.path.exists('rank-0') and os.path.exists('rank-1')):\n"
        "    time.sleep(0.05)\n"
        "print('world', os.environ['WORLD_SIZE'], flush=True)\n"
    )
    arguments = (str(script), "--workers", "2", "-n", cluster.namespace)
    printed = cluster.trainshed("run", *arguments, "--dry-run", "--", "--lr", "1e-3").ok()
    (job,) = yaml.safe_load_all(printed)
    assert (job["kind"], job["metadata"]["name"]) == ("PyTorchJob", "train-it")
    assert cluster.pods("train-it") == {}, "a dry run applies nothing"
    command = ["sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", str(folder)]
    done = subprocess.run(
        [*command, *cluster.trainshed_command("run", *arguments, "--", "--lr", "1e-3")],
        env=cluster.environment,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )
    assert done.returncode == 0 and "world 2" in done.stdout, done
    assert {file.name: file.read_text() for file in folder.glob("rank-*")} == dict.fromkeys(
        ("rank-0", "rank-1"), "--lr 1e-3"
    )


def test_a_file_that_is_saved_runs_again(cluster: Cluster, folder: Path) -> None:
    script = folder / "loop.py"
    script.write_text("import time\nprint('first', flush=True)\ntime.sleep(600)\n")
    with cluster.started("run", str(script), "--watch", "-n", cluster.namespace) as process:
        read_until(process, "first")
        script.write_text("print('second', flush=True)\n")
        assert "loop.py was saved: running again" in read_until(process, "second")
        read_until(process, "waiting for a file to be saved")
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 0


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Return what is printed up to the line with the text."""
    seen = ""
    while text not in seen:
        seen += read_line(process)
    return seen
