"""The leak suite in its short form."""

from __future__ import annotations

from collections.abc import Callable

from tests.e2e.cluster_fixture import Cluster
from tests.hostile.leaks import leaks

PODS = 30


def test_pods_leave_nothing_behind(make_cluster: Callable[..., Cluster]) -> None:
    """On a cluster of its own: what other tests have left would end meanwhile, and count."""
    cluster = make_cluster()
    cluster.up()
    cluster.until_operator()
    assert leaks(cluster, PODS).startswith("leaks: 30 pods in ")
