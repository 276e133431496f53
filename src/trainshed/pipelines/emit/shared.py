"""The directory of a run that notebooks of Kale know as `/marshal`: files that one step writes there, later ones find.

It is mounted only where a cell names it. All steps have the same one, but for the workers of a distributed step: each
cell saves the same model, so the first worker writes where the next step reads, and every other one into a directory of
its own, in which the runner puts links to what the first has.
"""

from __future__ import annotations

import re
from typing import Any

from trainshed.api.kind import ProgramPods
from trainshed.pipelines.ir import Pipeline

FIRST = "marshal/0"
"""Where the directory of plain steps and first workers lies in the run's data."""
_INDEX = "TRAINSHED_REPLICA_INDEX"
_INDEX_LABEL = "training.kubeflow.org/replica-index"


def path(pipeline: Pipeline) -> str | None:
    """Return where the directory is mounted; None when no cell names it or a volume of the notebook is there."""
    wanted = pipeline.settings.shared_path
    for volume in pipeline.settings.volumes:
        mounted = volume.mount_path.rstrip("/")
        if wanted == mounted or wanted.startswith(f"{mounted}/") or mounted.startswith(f"{wanted}/"):
            return None
    named = re.compile(rf"(?<![\w.-]){re.escape(wanted)}(?![\w.-])")
    found = any(named.search(block.source) for step in pipeline.steps for block in step.blocks)
    return wanted if found else None


def mounts(pipeline: Pipeline, volume: str, worker: int = 0) -> list[dict[str, Any]]:
    """Return the mount of a plain step, or of a worker that is a task, of the volume with the run's data."""
    where = path(pipeline)
    if where is None:
        return []
    return [{"name": volume, "mountPath": where, "subPath": FIRST.replace("0", str(worker))}]


def in_job(pipeline: Pipeline, container: dict[str, Any], pods: ProgramPods, volume: str) -> dict[str, Any]:
    """Return the container of a job's replicas of a type with its mount: which replica it is its pod alone knows."""
    where = path(pipeline)
    if where is None:
        return container
    directory = f"marshal/$({_INDEX})" if pods.leads else f"marshal/{pods.type.lower()}-$({_INDEX})"
    field = {"fieldRef": {"fieldPath": f"metadata.labels['{_INDEX_LABEL}']"}}
    mount = {"name": volume, "mountPath": where, "subPathExpr": directory}
    return {
        **container,
        "env": [*container.get("env", ()), {"name": _INDEX, "valueFrom": field}],
        "volumeMounts": [*container["volumeMounts"], mount],
    }
