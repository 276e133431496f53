"""The cluster with the oldest and the newest kubectl, pods to run on it, and tables read back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.cluster_fixture import Cluster, kubectl_path

Object = dict[str, Any]
WAITS = "trap 'exit 0' TERM; sleep 1000 & wait"
"""A shell that ends when it is told to: as process 1 it would ignore SIGTERM."""


def container(name: str, script: str, **fields: Any) -> Object:
    return {"name": name, "image": f"example.com/{name}:1", "command": ["sh", "-c", script], **fields}


def make_pod(name: str, *scripts: str, restart: str = "Never", grace: int = 30, **spec: Any) -> Object:
    """Return a pod whose containers `main`, `side` run the scripts."""
    containers = [container(c, script) for c, script in zip(("main", "side"), scripts, strict=False)]
    fixed = {"restartPolicy": restart, "terminationGracePeriodSeconds": grace, "containers": containers}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {**fixed, **spec},
    }


@pytest.fixture(params=[0, -1], ids=["oldest", "newest"])
def kube(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Cluster]:
    """The cluster as seen with one kubectl."""
    usual, cluster.kubectl_path = cluster.kubectl_path, kubectl_path(request.param)
    yield cluster
    cluster.kubectl_path = usual


def rows(table: str) -> list[list[str]]:
    """Return the cells of a table's rows, header first; cells hold no two spaces in a row."""
    return [re.split(r" {2,}", line.strip()) for line in table.splitlines()]
