"""Pods that run are given other amounts of CPU and memory, by every kubectl."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.e2e.cluster_fixture import Cluster, until
from tests.e2e.pods import WAITS, make_pod

pytestmark = pytest.mark.timeout(120)

Object = dict[str, Any]
SMALL: Object = {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}}
MORE: Object = {"requests": {"cpu": "200m", "memory": "48Mi"}, "limits": {"cpu": "5k", "memory": "96Mi"}}
LESS: Object = {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "1", "memory": "48Mi"}}
RESTARTS = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]


def started(kube: Cluster, name: str, **fields: Any) -> None:
    pod = make_pod(name, WAITS, restart="Always")
    pod["spec"]["containers"][0] |= {"resources": SMALL, **fields}
    kube.apply(pod)
    kube.kubectl("wait", "--for=condition=Ready", "--timeout=30s", f"pod/{name}").ok()


def resize(kube: Cluster, name: str, resources: Object) -> None:
    """As users do; kubectl before 1.32 does not know the subresource."""
    patch = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    if "resize" in kube.kubectl("patch", "--help").ok():
        kube.kubectl("patch", "pod", name, "--subresource=resize", "-p", json.dumps(patch)).ok()
        return
    pod = kube.get("pods", name, kube.namespace)
    pod["spec"]["containers"][0]["resources"] = resources
    path = f"/api/v1/namespaces/{kube.namespace}/pods/{name}/resize"
    kube.kubectl("replace", "--raw", path, "-f", "-", stdin=json.dumps(pod)).ok()


def until_has(kube: Cluster, name: str, resources: Object) -> Object:
    """Return the container's status once it says that these are in force."""
    found: Object = {}

    def is_told() -> bool:
        status = kube.get("pods", name, kube.namespace)["status"]
        found.update(status["containerStatuses"][0], conditions={c["type"]: c for c in status["conditions"]})
        return bool(found["resources"] == resources and "running" in found["state"])

    until(is_told, f"{name} has {resources}")
    return found


def cores(kube: Cluster, name: str) -> str:
    """Return what keeps the container's CPU limit: its cgroup, or the number of cores that it may use."""
    command = "cat /sys/fs/cgroup/cpu.max 2>/dev/null || nproc"
    return kube.kubectl("exec", name, "--", "sh", "-c", command).ok().strip()


def test_a_pod_that_runs_gets_more_and_one_that_asks_for_it_starts_anew_for_less(kube: Cluster) -> None:
    started(kube, "grows", resizePolicy=RESTARTS)
    assert until_has(kube, "grows", SMALL)["allocatedResources"] == SMALL["requests"]
    assert cores(kube, "grows") in ("1", "50000 100000")
    cpu = {
        **MORE,
        "requests": {**MORE["requests"], "memory": "32Mi"},
        "limits": {"cpu": "5k", "memory": "64Mi"},
    }
    resize(kube, "grows", cpu)
    status = until_has(kube, "grows", cpu)
    assert (status["restartCount"], status["allocatedResources"]) == (0, cpu["requests"])
    assert cores(kube, "grows") in (str(len(os.sched_getaffinity(0))), "500000000 100000")
    resize(kube, "grows", LESS)
    status = until_has(kube, "grows", LESS)
    assert status["restartCount"] == 1, "its memory limit is another, and its policy wants that"
    assert {"PodResizePending", "PodResizeInProgress"}.isdisjoint(status["conditions"])


def test_what_the_node_does_not_have_is_told_and_a_quota_counts_what_is_held(kube: Cluster) -> None:
    kube.kubectl("create", "quota", "few", "--hard=requests.cpu=6000").ok()
    started(kube, "wants")
    resize(
        kube,
        "wants",
        {**SMALL, "requests": {"cpu": "5k", "memory": "32Mi"}, "limits": {"cpu": "5k", "memory": "64Mi"}},
    )

    def is_told() -> bool:
        status = kube.get("pods", "wants", kube.namespace)["status"]
        found = {c["type"]: c for c in status["conditions"]}.get("PodResizePending", {})
        return bool(found.get("reason") == "Infeasible" and "cpu, requested: 5000000" in found["message"])

    until(is_told, "the pod says that the node is too small")
    assert until_has(kube, "wants", SMALL)["restartCount"] == 0
    until(
        lambda: kube.get("resourcequotas", "few", kube.namespace)["status"]["used"]["requests.cpu"] == "100m",
        "the quota counts what the pod has, for it will not have more",
    )
