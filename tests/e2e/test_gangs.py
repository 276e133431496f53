"""Gangs on a real cluster, by kubectl and the real SDK: a job with a `schedulingPolicy` simply works.

Left out: orders, queues, timeouts and the words (tests/cluster/test_controllers_gangs.py), every rule of the PodGroup
(tests/unit/test_jobs_gang.py).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.e2e.cluster_fixture import Cluster, until
from tests.e2e.jobs import UNTIL_TOLD, job, replica
from trainshed.kube.meta.objects import Object

VOLCANO = "podgroups.scheduling.volcano.sh"
PLUGINS = "podgroups.scheduling.x-k8s.io"


def listed(cluster: Cluster, what: str) -> list[Any]:
    """Return the objects of the namespace, by kubectl."""
    return list(json.loads(cluster.kubectl("get", what, "-o", "json").ok())["items"])


def half_the_machine(cluster: Cluster) -> str:
    """Return so much cpu that two pods of a gang fit, and not three."""
    (node,) = listed(cluster, "nodes")
    cpu = node["status"]["allocatable"]["cpu"]
    thousandths = int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000
    return f"{thousandths * 2 // 5}m"


def gang(name: str, cpu: str, out: Path, **policy: Any) -> Object:
    def pods() -> Object:
        return replica(UNTIL_TOLD, out, resources={"requests": {"cpu": cpu}})

    return job(name, pods(), pods(), schedulingPolicy=policy)


def test_two_gangs_of_which_one_fits_run_one_after_the_other(cluster: Cluster, shared_folder: Path) -> None:
    cpu = half_the_machine(cluster)
    cluster.apply(gang("one", cpu, shared_folder), gang("two", cpu, shared_folder))
    until(
        lambda: sorted(g.get("status", {}).get("phase", "") for g in listed(cluster, VOLCANO))
        == ["Pending", "Running"],
        "one group runs and one waits",
    )
    groups = {g["status"]["phase"]: g["metadata"]["name"] for g in listed(cluster, VOLCANO)}
    first, second = groups["Running"], groups["Pending"]
    until(lambda: len(cluster.pods(first)) == 2, "both pods of the first")
    assert not cluster.pods(second), "it holds nothing while it waits"
    until(
        lambda: any(
            "waits: its minResources are not free: cpu" in e for e in cluster.events("PodGroupUnschedulable")
        ),
        "the job says why",
    )
    (shared_folder / "finish").touch()
    for name in (first, second):
        cluster.until_condition(name, "Succeeded")
    until(lambda: not listed(cluster, VOLCANO), "the groups go with the jobs")


SDK_SCRIPT = """
import sys
from kubernetes.client import V1Container, V1ObjectMeta, V1PodSpec, V1PodTemplateSpec
from kubeflow.training import (
    KubeflowOrgV1PyTorchJob, KubeflowOrgV1PyTorchJobSpec, KubeflowOrgV1ReplicaSpec, KubeflowOrgV1RunPolicy,
    KubeflowOrgV1SchedulingPolicy, TrainingClient,
)
import time

namespace, name = sys.argv[1], "gang"
client = TrainingClient(namespace=namespace)

def replica():
    container = V1Container(name="pytorch", image="example.com/sh:1", command=["sh", "-c", "sleep 1"])
    annotations = {"sidecar.istio.io/inject": "false"}
    spec = V1PodSpec(containers=[container], scheduler_name=SCHEDULER or None)
    template = V1PodTemplateSpec(metadata=V1ObjectMeta(annotations=annotations), spec=spec)
    return KubeflowOrgV1ReplicaSpec(replicas=1, restart_policy="OnFailure", template=template)

def job(least):
    policy = KubeflowOrgV1RunPolicy(scheduling_policy=KubeflowOrgV1SchedulingPolicy(min_available=least))
    spec = KubeflowOrgV1PyTorchJobSpec(
        run_policy=policy, pytorch_replica_specs={"Master": replica(), "Worker": replica()}
    )
    return KubeflowOrgV1PyTorchJob(
        api_version="kubeflow.org/v1", kind="PyTorchJob", metadata=V1ObjectMeta(name=name), spec=spec
    )

client.create_job(job(10))
for _ in range(3):
    time.sleep(1)
    print("created", client.is_job_created(name), "running", client.is_job_running(name))
client.update_job(job(2), name)
client.wait_for_job_conditions(name, wait_timeout=120, polling_interval=1)
print("succeeded", client.is_job_succeeded(name), [c.type for c in client.get_job_conditions(name)])
for pod in client.get_job_pods(name):
    print("pod", pod.metadata.name, pod.spec.scheduler_name, sorted(pod.metadata.annotations), pod.metadata.labels)
client.delete_job(name)
"""


def run_sdk(cluster: Cluster, namespace: str, scheduler: str) -> str:
    """Return what the SDK's user sees who names a scheduler."""
    cluster.kubectl("create", "namespace", namespace).ok()
    done = subprocess.run(
        [sys.executable, "-c", SDK_SCRIPT.replace("SCHEDULER", repr(scheduler)), namespace],
        capture_output=True,
        text=True,
        env=cluster.environment,
        timeout=180,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{cluster.diagnostics()}"
    return done.stdout


def check_sdk(output: str) -> None:
    """Upstream's own scenario: a gang that can never be complete stays Created; made smaller, it succeeds."""
    assert output.count("created True running False") == 3
    assert "succeeded True" in output and "Succeeded" in output


def test_the_sdk_s_gang_case_with_volcano(session_cluster: Cluster) -> None:
    session_cluster.up()
    session_cluster.until_operator()
    output = run_sdk(session_cluster, "sdk-gang", "volcano")
    check_sdk(output)
    assert (
        output.count(
            " volcano ['scheduling.k8s.io/group-name', 'sidecar.istio.io/inject', 'volcano.sh/task-spec']"
        )
        == 2
    )


def test_every_job_is_a_gang_of_the_scheduler_that_up_was_given(make_cluster: Callable[..., Cluster]) -> None:
    """The SDK's case on scheduler-plugins; then a job without a policy, after a restart that does not name it again."""
    cluster = make_cluster()
    cluster.trainshed("up", "--gang-scheduler-name=scheduler-plugins-scheduler").ok()
    cluster.until_operator()
    output = run_sdk(cluster, "sdk-gang", "scheduler-plugins-scheduler")
    check_sdk(output)
    assert output.count("'scheduling.x-k8s.io/pod-group': 'gang'") == 2
    cluster.trainshed("down").ok()
    cluster.up()
    cluster.until_operator()
    cluster.apply(job("plain", replica("sleep 1")))
    until(lambda: [g["metadata"]["name"] for g in listed(cluster, PLUGINS)] == ["plain"], "its PodGroup")
    cluster.until_condition("plain", "Succeeded")
    (pod,) = cluster.pods("plain").values()
    assert pod["spec"]["schedulerName"] == "scheduler-plugins-scheduler"
    until(lambda: not listed(cluster, PLUGINS), "the group goes with the job")
    until(
        lambda: "Deleted PodGroup: plain" in json.dumps(cluster.events("SuccessfulDeletePodGroup")),
        "the event",
    )
