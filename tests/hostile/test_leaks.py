"""The leak suite in its short form."""

from __future__ import annotations

from tests.e2e.cluster_fixture import Cluster
from tests.hostile.leaks import leaks

PODS = 30


def test_pods_leave_nothing_behind(cluster: Cluster) -> None:
    cluster.until_alone()
    assert leaks(cluster, PODS).startswith("leaks: 30 pods in ")
