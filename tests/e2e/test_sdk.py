"""The real kubeflow-training SDK, 1.9 from the environment and 1.8.1 beside it, unmodified."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cluster_fixture import Cluster

OLD = "1.8.1"
INSTALL_SECONDS = 180
RUN_SECONDS = 180


SCRIPT = """
import sys
import kubeflow.training
from kubeflow.training import TrainingClient

print("module", kubeflow.training.__file__)

namespace = sys.argv[1]


def train(parameters):
    import os
    print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "steps", parameters["steps"], flush=True)


client = TrainingClient(namespace=namespace)
name = "from-function"
client.create_job(name=name, train_func=train, parameters={"steps": 3}, num_workers=2, **WORKER_OPTIONS)
client.wait_for_job_conditions(name, wait_timeout=120, polling_interval=1)
print("pods", *sorted(client.get_job_pod_names(name)))
print("master", *client.get_job_pod_names(name, is_master=True))
client.get_job_logs(name, follow=True)
logs, _ = client.get_job_logs(name, is_master=False, replica_type="worker", replica_index=0)
print("worker", logs)
print("succeeded", client.is_job_succeeded(name))
print("jobs", [job.metadata.name for job in client.list_jobs()])
print("conditions", [c.type for c in client.get_job_conditions(name)])
client.delete_job(name)
try:
    client.create_job(name="Not_A_Label", train_func=train, parameters={"steps": 1}, num_workers=1)
except RuntimeError as error:
    print("refused", error.__cause__.status if error.__cause__ else error)
"""


@pytest.fixture(scope="module")
def old_sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SDK 1.8.1 in a directory of its own: two versions do not fit into one environment."""
    folder = tmp_path_factory.mktemp("sdk")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    subprocess.run([*command, f"kubeflow-training=={OLD}"], check=True, timeout=INSTALL_SECONDS)
    return folder


def run_sdk(cluster: Cluster, namespace: str, script: str, packages: Path | None = None) -> str:
    """Run a user's script against the cluster and return what it printed."""
    cluster.kubectl("create", "namespace", namespace).ok()
    file = cluster.scratch / f"{namespace}.py"
    file.write_text(script)
    environment = cluster.environment
    if packages is not None:
        environment["PYTHONPATH"] = str(packages)
    done = subprocess.run(
        [sys.executable, str(file), namespace],
        capture_output=True,
        text=True,
        env=environment,
        timeout=RUN_SECONDS,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{cluster.diagnostics()}"
    return done.stdout


def check_output(output: str) -> None:
    assert "pods from-function-master-0 from-function-worker-0" in output
    assert "master from-function-master-0" in output
    assert "[Pod from-function-master-0]: rank 0 of 2 steps 3" in output
    assert "rank 1 of 2 steps 3" in output
    assert "succeeded True" in output
    assert "jobs ['from-function']" in output
    assert "conditions ['Created', 'Running', 'Succeeded']" in output
    assert "refused" in output


def test_sdk_1_9(session_cluster: Cluster) -> None:
    session_cluster.up()
    session_cluster.until_operator()
    script = SCRIPT.replace("WORKER_OPTIONS", "{'num_procs_per_worker': 1}")
    check_output(run_sdk(session_cluster, "sdk-new", script))


def test_sdk_1_8_1(session_cluster: Cluster, old_sdk: Path) -> None:
    """The older one starts the function with `python3 -u` in each pod."""
    session_cluster.up()
    session_cluster.until_operator()
    output = run_sdk(session_cluster, "sdk-old", SCRIPT.replace("WORKER_OPTIONS", "{}"), old_sdk)
    assert f"module {old_sdk}" in output
    check_output(output)
