"""An MPIJob with real kubectl: the launcher runs programs in its workers, with the kubectl that is delivered to it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.cluster_fixture import Cluster, until

pytestmark = pytest.mark.timeout(120)

RUN_EVERYWHERE = """
cat /etc/mpi/hostfile
echo "agent=$OMPI_MCA_plm_rsh_agent"
while read -r host _; do
    $OMPI_MCA_plm_rsh_agent "$host" 'echo "runs in $(hostname)"' 2>/dev/null </dev/null || exit 1
done </etc/mpi/hostfile
"""


def make_mpijob(script: str, workers: int) -> dict[str, Any]:
    def template(**container: Any) -> dict[str, Any]:
        made = {"name": "mpi", "image": "example.com/mpi:1", **container}
        return {"spec": {"terminationGracePeriodSeconds": 0, "containers": [made]}}

    specs = {
        "Launcher": {"template": template(command=["sh", "-c", script])},
        "Worker": {"replicas": workers, "template": template()},
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "MPIJob",
        "metadata": {"name": "hello"},
        "spec": {"slotsPerWorker": 2, "cleanPodPolicy": "Running", "mpiReplicaSpecs": specs},
    }


def test_the_launcher_runs_programs_in_its_workers(cluster: Cluster) -> None:
    cluster.apply(make_mpijob(RUN_EVERYWHERE, workers=2))
    cluster.kubectl("wait", "mpijob/hello", "--for=condition=Succeeded", "--timeout=60s").ok()
    assert cluster.logs("hello-launcher") == [
        "hello-worker-0 slots=2",
        "hello-worker-1 slots=2",
        "agent=/etc/mpi/kubexec.sh",
        "runs in hello-worker-0",
        "runs in hello-worker-1",
    ]
    header = cluster.kubectl("get", "mpijobs").ok().splitlines()[0].split()
    assert header == ["NAME", "AGE", "STATE"]
    until(lambda: list(cluster.pods()) == ["hello-launcher"], "the workers to be cleaned up")
    cluster.kubectl("delete", "mpijob", "hello").ok()
    until(lambda: not cluster.pods(), "the garbage collector")
    left = json.loads(cluster.kubectl("get", "role,rolebinding,cm,sa", "-o", "json").ok())["items"]
    assert [o["metadata"]["name"] for o in left if "hello" in o["metadata"]["name"]] == []


def test_a_launcher_reaches_no_other_pod(cluster: Cluster) -> None:
    own = "! /opt/kube/kubectl exec hello-launcher -- true 2>&1"
    cluster.apply(make_mpijob(own, workers=1))
    cluster.kubectl("wait", "mpijob/hello", "--for=condition=Succeeded", "--timeout=60s").ok()
    refusal = cluster.logs("hello-launcher")[-1]
    assert "Forbidden" in refusal and "pods/exec" in refusal
