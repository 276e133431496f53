"""The daemons of sandboxes and network come back by themselves, and running pods do not notice."""

from __future__ import annotations

import os
import signal
from typing import Any

from tests.e2e.cluster_fixture import Cluster, until

ROLES = ("network daemon", "sandbox daemon")


def make_pod(name: str, script: str) -> dict[str, Any]:
    container = {"name": "main", "image": "host", "command": ["sh", "-c", script]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]},
    }


def test_killed_daemons_are_replaced(cluster: Cluster) -> None:
    cluster.apply(make_pod("before", "sleep 600"))
    cluster.until_phase("Running", "before")
    address = cluster.pods()["before"]["status"]["podIP"]
    killed = {role: cluster.pids[role][0] for role in ROLES}
    for pid in killed.values():
        os.kill(pid, signal.SIGKILL)

    def replaced() -> bool:
        return all(set(cluster.pids.get(role, ())) - {killed[role]} for role in ROLES)

    until(replaced, "both daemons run again")
    cluster.apply(make_pod("after", "getent hosts kubernetes.default && echo resolved"))
    cluster.until_phase("Succeeded", "after")
    assert cluster.logs("after")[-1] == "resolved"
    before = cluster.pods()["before"]["status"]
    assert (before["phase"], before["podIP"], before["containerStatuses"][0]["restartCount"]) == (
        "Running",
        address,
        0,
    )
