"""Builders of the pods and jobs that the end-to-end tests run: `sh` in place of training.

Every pod mounts a directory of the host at /out, when it is given one, and obeys the file `finish` in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainshed.kube.meta.objects import Object
from trainshed.testing import make_job as job
from trainshed.testing import make_pod, make_pod_spec, make_replica

__all__ = ("COUNT_UNTIL_TOLD", "UNTIL_TOLD", "job", "pod", "pod_spec", "replica")

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
    mounts = {} if out is None else {"/out": out}
    return make_pod_spec(
        script, name="pytorch", image="example.com/sh:1", mounts=mounts, grace_seconds=1, **container
    )


def pod(
    name: str, script: str, out: Path | None = None, *, restart: str = "Never", **container: Any
) -> Object:
    return make_pod(name, pod_spec(script, out, **container), restartPolicy=restart)


def replica(
    script: str, out: Path | None = None, *, replicas: int = 1, restart: str = "Never", **container: Any
) -> Object:
    return make_replica(replicas, pod_spec(script, out, **container), restart_policy=restart)
