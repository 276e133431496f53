"""Several nodes from the command line: those that are not there, cordon, drain, taints, and one that is lost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tests.e2e.cluster_fixture import Cluster
from tests.e2e.pods import WAITS, make_pod
from trainshed.testing import until
from trainshed.testing.waiting import WAIT_SECONDS

HERE = {"kubernetes.io/os": "linux"}
FAKE = {"type": "fake"}


def deployment(name: str, replicas: int, **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    template = make_pod(name, WAITS, restart="Always", grace=0, **spec)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }


def test_nodes_are_emptied_lost_and_found(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster()
    assert cluster.trainshed("up", "--nodes", "2", "--fake-nodes", "2").rc == 0
    names = cluster.kubectl("get", "nodes", "-o", "name").ok().split()
    first, second = sorted(name.removeprefix("node/") for name in names if "fake" not in name)
    assert sorted(names) == sorted(f"node/{name}" for name in ("fake-0", "fake-1", first, second))

    def pods(app: str) -> Any:
        return json.loads(cluster.kubectl("get", "pods", "-l", f"app={app}", "-o", "json").ok())["items"]

    def placed(app: str) -> list[tuple[str, str]]:
        return sorted((pod["spec"].get("nodeName", ""), pod["status"]["phase"]) for pod in pods(app))

    cluster.apply(deployment("many", 30, nodeSelector=FAKE), deployment("real", 2, nodeSelector=HERE))

    def all_on_fakes() -> bool:
        found = placed("many")
        return len(found) == 30 and all(n.startswith("fake-") and p == "Running" for n, p in found)

    until(all_on_fakes, "30 pods on nodes that are not there", WAIT_SECONDS)
    until(
        lambda: [p for _, p in placed("real")] == ["Running"] * 2, "both pods on this machine", WAIT_SECONDS
    )

    drained = cluster.kubectl(
        "drain", second, "--force", "--ignore-daemonsets", "--delete-emptydir-data"
    ).ok()
    assert drained.endswith(f"node/{second} drained\n")
    until(lambda: placed("real") == [(first, "Running")] * 2, "both pods on the other node", WAIT_SECONDS)
    assert re.search(rf"{second} +Ready,SchedulingDisabled ", cluster.kubectl("get", "nodes").ok())
    cluster.kubectl("uncordon", second).ok()

    cluster.kubectl("taint", "node", first, "out=now:NoExecute").ok()
    until(lambda: placed("real") == [(second, "Running")] * 2, "both pods away from the taint", WAIT_SECONDS)
    cluster.kubectl("taint", "node", first, "out-").ok()

    def restarts() -> list[int]:
        return [pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods("real")]

    killed = cluster.trainshed("node", "kill", second)
    assert killed.err == f"node {second} is dead: trainshed node start {second} brings it back\n"
    assert restarts() == [0, 0], "nobody tells of them"
    assert cluster.trainshed("node", "kill", "fake-0").err.startswith(
        "error: node fake-0 is none of this machine"
    )
    assert cluster.trainshed("node", "start", second).err == f"node {second} starts\n"
    until(lambda: restarts() == [1, 1], "the containers started again, as after a reboot", WAIT_SECONDS)
