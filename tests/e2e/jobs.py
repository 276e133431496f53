"""Builders of the pods and jobs that the end-to-end tests run: `sh` in place of training.

Every pod mounts a directory of the host at /out, when it is given one, and obeys the file `finish` in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

Object = dict[str, Any]

UNTIL_TOLD = 'echo "$(hostname)" >> /out/starts; until [ -e /out/finish ]; do sleep 0.05; done'
"""Runs until the test creates `finish`; `starts` holds one line per start of a container."""

COUNT_UNTIL_TOLD = """
echo "$(hostname)" >> /out/starts
n=0
until [ -e /out/finish ]; do
  n=$((n + 1))
  echo "line $n"
  echo $n > /out/.$(hostname); mv /out/.$(hostname) /out/count-$(hostname)
  sleep 0.02
done
"""
"""The same, printing numbered lines; `count-<pod>` holds how many it printed."""


def pod_spec(script: str, out: Path | None = None, **container: Any) -> Object:
    """Return a pod spec whose container `pytorch` runs the script with sh."""
    spec: Object = {
        # sh as the first process of a container ignores SIGTERM.
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "pytorch",
                "image": "example.com/sh:1",
                "command": ["sh", "-c", script],
                **container,
            }
        ],
    }
    if out is not None:
        spec["containers"][0]["volumeMounts"] = [{"name": "out", "mountPath": "/out"}]
        spec["volumes"] = [{"name": "out", "hostPath": {"path": str(out), "type": "Directory"}}]
    return spec


def pod(
    name: str, script: str, out: Path | None = None, *, restart: str = "Never", **container: Any
) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": restart, **pod_spec(script, out, **container)},
    }


def replica(
    script: str, out: Path | None = None, *, replicas: int = 1, restart: str = "Never", **container: Any
) -> Object:
    return {
        "replicas": replicas,
        "restartPolicy": restart,
        "template": {"spec": pod_spec(script, out, **container)},
    }


def job(name: str, master: Object | None = None, worker: Object | None = None, **run_policy: Any) -> Object:
    """Return a PyTorchJob of the given replicas."""
    replicas = {"Master": master, "Worker": worker}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {
            "runPolicy": run_policy,
            "pytorchReplicaSpecs": {kind: spec for kind, spec in replicas.items() if spec},
        },
    }
