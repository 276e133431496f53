"""The contract of each job kind with its program, by kubectl on a real cluster: `python3` stands in for training.

Each pod prints what it was told, finds the address of every other, and runs until the test has seen them all.
Left out: PyTorchJob (most other tests), every rule and message (tests/unit/test_jobs_*.py).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.cluster_fixture import Cluster, until
from trainshed.kube.meta.objects import Object
from trainshed.testing import make_job, make_pod_spec, make_replica

MEET = """
import os, socket, sys, time

def found(name):
    until = time.monotonic() + 60
    while True:
        try:
            return socket.gethostbyname(name)
        except OSError:
            assert time.monotonic() < until, f"no address of {name}"
            time.sleep(0.05)

def meet(names):
    addresses = [found(name) for name in names]
    assert len(set(addresses)) == len(addresses), addresses
    open(f"/out/met-{socket.gethostname()}", "w").close()
    while not os.path.exists("/out/finish"):
        time.sleep(0.05)
"""
TENSORFLOW = """
import json
print(os.environ["TF_CONFIG"], flush=True)
cluster = json.loads(os.environ["TF_CONFIG"])["cluster"]
meet([host.rpartition(":")[0] for hosts in cluster.values() for host in hosts])
"""
XGBOOST = """
names = "MASTER_ADDR MASTER_PORT WORKER_ADDRS WORKER_PORT RANK WORLD_SIZE".split()
print(*(os.environ[name] for name in names), flush=True)
meet([os.environ["MASTER_ADDR"], *os.environ["WORKER_ADDRS"].split(",")])
"""


def replica(name: str, program: str, out: Path, replicas: int = 1) -> Object:
    command = ["python3", "-c", MEET + program]
    return make_replica(replicas, make_pod_spec(name=name, mounts={"/out": out}, command=command))


def run(cluster: Cluster, job: Object, out: Path, pods: list[str]) -> Any:
    """Run the job to its end and return its status; `pods` are all that it has."""
    resource = f"{job['kind'].lower()}/{job['metadata']['name']}"
    cluster.apply(job)
    until(
        lambda: sorted(f.name for f in out.glob("met-*")) == [f"met-{p}" for p in pods],
        "all pods have met",
        90,
    )
    shown = cluster.kubectl("get", resource, "-o", "jsonpath={.status.conditions[-1:].type}").ok()
    assert shown == "Running"
    (out / "finish").touch()
    cluster.kubectl("wait", "--for=condition=Succeeded", resource, "--timeout=60s", timeout=70).ok()
    return json.loads(cluster.kubectl("get", resource, "-o", "json").ok())["status"]


def test_tfjob(cluster: Cluster, shared_folder: Path) -> None:
    chief, ps, worker = (replica("tensorflow", TENSORFLOW, shared_folder, n) for n in (1, 1, 2))
    job = make_job("train", chief, None, None, ps, worker, kind="TFJob")
    pods = ["train-chief-0", "train-ps-0", "train-worker-0", "train-worker-1"]
    status = run(cluster, job, shared_folder, pods)
    assert status["replicaStatuses"]["Chief"] == {"succeeded": 1}
    for pod in pods:
        (line,) = cluster.logs(pod)
        told = json.loads(line)
        role, _, index = pod.removeprefix("train-").partition("-")
        assert told["task"] == {"type": role, "index": int(index)}
        assert told["cluster"]["worker"] == [f"train-worker-{i}.{cluster.namespace}.svc:2222" for i in (0, 1)]


def test_xgboostjob(cluster: Cluster, shared_folder: Path) -> None:
    master, worker = (replica("xgboost", XGBOOST, shared_folder, n) for n in (1, 2))
    pods = ["train-master-0", "train-worker-0", "train-worker-1"]
    run(cluster, make_job("train", master, worker, kind="XGBoostJob"), shared_folder, pods)
    for rank, pod in enumerate(pods):
        assert cluster.logs(pod) == [f"train-master-0 9999 train-worker-0,train-worker-1 9999 {rank} 3"]


def test_a_wrong_manifest_is_refused_at_the_field(cluster: Cluster, shared_folder: Path) -> None:
    worker = replica("main", "", shared_folder)
    job = json.dumps(make_job("train", None, worker, kind="XGBoostJob"))
    cluster.kubectl("apply", "-f", "-", stdin=job).failed(
        "validator.xgboostjob.training-operator.kubeflow.org",
        "spec.xgbReplicaSpecs[Master]: Required value: must be present",
        "spec.xgbReplicaSpecs[Worker].template.spec.containers: Required value: must have at least one container "
        "with name xgboost",
    )
