"""Helm's own starter chart: installed, tested by its own test, which asks the Service, upgraded and taken away.

helm comes from `HELM` (a path) or from PATH; where there is none, nothing here runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.cluster_fixture import Cluster

HELM = os.environ.get("HELM") or shutil.which("helm")
SERVE = 'command: ["python3", "-m", "http.server", "80"]'
SECONDS = "60s"

pytestmark = pytest.mark.skipif(HELM is None, reason="no helm on PATH, and none named in HELM")


def helm(cluster: Cluster, *arguments: str) -> str:
    """Return what a helm command printed; it must have succeeded."""
    command = [str(HELM), *arguments, "--namespace", cluster.namespace]
    environment = {**cluster.environment, "HELM_CACHE_HOME": str(cluster.scratch / "helm")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=90)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def test_the_starter_chart_passes_its_own_test(cluster: Cluster, tmp_path: Path) -> None:
    chart = tmp_path / "web"
    helm(cluster, "create", str(chart))
    # Its image would have to come from a registry; what serves here is this machine's Python.
    deployment = chart / "templates" / "deployment.yaml"
    text = deployment.read_text()
    assert text.count("imagePullPolicy:") == 1
    deployment.write_text(text.replace("imagePullPolicy:", f"{SERVE}\n          imagePullPolicy:"))
    helm(cluster, "install", "web", str(chart), "--wait", "--timeout", SECONDS)
    assert "Succeeded" in helm(cluster, "test", "web", "--timeout", SECONDS)
    helm(cluster, "upgrade", "web", str(chart), "--set", "replicaCount=2", "--wait", "--timeout", SECONDS)
    assert "REVISION: 2" in helm(cluster, "status", "web")
    helm(cluster, "rollback", "web", "1", "--wait", "--timeout", SECONDS)
    helm(cluster, "uninstall", "web", "--wait", "--timeout", SECONDS)
    assert not cluster.kubectl("get", "deployments,services", "-l", "app.kubernetes.io/name=web").ok().strip()
