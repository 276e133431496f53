"""Helm: its own starter chart with the test that asks the Service, and a chart of a job with a CRD and hooks.

helm is the one named in `HELM`, or of the extra `test`, or on PATH; where there is none, nothing here runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cluster_fixture import Cluster

HERE = str(Path(sys.executable).parent)
HELM = os.environ.get("HELM") or shutil.which("helm", path=os.pathsep.join((HERE, os.environ["PATH"])))
SERVE = 'command: ["python3", "-m", "http.server", "80"]'
SECONDS = "60s"

pytestmark = pytest.mark.skipif(HELM is None, reason="no helm on PATH, and none named in HELM")


def helm(cluster: Cluster, *arguments: str, fails: str = "") -> str:
    """Return what a helm command printed; it must have succeeded, or failed with these words."""
    command = [str(HELM), *arguments, "--namespace", cluster.namespace]
    environment = {**cluster.environment, "HELM_CACHE_HOME": str(cluster.scratch / "helm")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=90)
    assert (done.returncode == 0) == (not fails) and fails in done.stderr, (command, done.stdout, done.stderr)
    return done.stdout


CHART = {
    "Chart.yaml": "{apiVersion: v2, name: job, version: 0.1.0, kubeVersion: '>=1.27.0-0'}",
    "values.yaml": "{size: 1, hook: 'true'}",
    "crds/charts.yaml": """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: charted.helm.example.com}
spec:
  group: helm.example.com
  names: {kind: Charted, plural: charted}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}
""",
    "templates/all.yaml": """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: {{ .Release.Name }}}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: Never
      template: {spec: {containers: [{name: pytorch, image: x, command: [sh, -c, echo $WORLD_SIZE]}]}}
---
apiVersion: helm.example.com/v1
kind: Charted
metadata: {name: {{ .Release.Name }}}
spec: {size: {{ .Values.size }}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data:
  served: {{ .Capabilities.APIVersions.Has "kubeflow.org/v1/PyTorchJob" | quote }}
  found: {{ (lookup "v1" "Namespace" "" .Release.Namespace).metadata.name | quote }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-before
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  backoffLimit: 0
  template:
    spec: {restartPolicy: Never, containers: [{name: c, image: x, command: [sh, -c, {{ .Values.hook | quote }}]}]}
""",
}


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


def test_a_chart_of_a_job_with_hooks(cluster: Cluster, tmp_path: Path) -> None:
    chart = tmp_path / "job"
    for name, text in CHART.items():
        (chart / name).parent.mkdir(parents=True, exist_ok=True)
        (chart / name).write_text(text)
    helm(cluster, "install", "train", str(chart), "--wait", "--wait-for-jobs", "--timeout", SECONDS)
    data = cluster.get("configmaps", "train")["data"]
    assert data == {"served": "true", "found": cluster.namespace}
    cluster.kubectl("wait", "pytorchjob/train", "--for=condition=Succeeded", f"--timeout={SECONDS}").ok()
    helm(cluster, "upgrade", "train", str(chart), "--set", "size=2", "--wait", "--timeout", SECONDS)
    assert _size(cluster) == "2"
    failing = ("--set", "size=3", "--set", "hook=false", "--atomic", "--timeout", SECONDS)
    helm(
        cluster,
        "upgrade",
        "train",
        str(chart),
        *failing,
        fails="job train-before failed: BackoffLimitExceeded",
    )
    assert _size(cluster) == "2"
    history = helm(cluster, "history", "train")
    assert [state in history for state in ("superseded", "failed", "Rollback to 2")] == [True, True, True]
    cluster.kubectl("create", "configmap", "taken").ok()
    helm(cluster, "install", "taken", str(chart), fails='ConfigMap "taken" in namespace')
    helm(cluster, "uninstall", "train", "--cascade", "foreground", "--wait", "--timeout", SECONDS)
    assert not cluster.kubectl("get", "pytorchjobs,charted", "-o", "name").ok().strip()
    cluster.kubectl("delete", "crd", "charted.helm.example.com").ok()


def _size(cluster: Cluster) -> str:
    return cluster.kubectl("get", "charted", "train", "-o", "jsonpath={.spec.size}").ok()
