"""Tekton's resources, the labels that it writes, and how it names what it makes."""

from __future__ import annotations

import hashlib

from trainshed.kube.meta.resources import Resource

GROUP = "tekton.dev"
V1 = f"{GROUP}/v1"
V1BETA1 = f"{GROUP}/v1beta1"

PIPELINES = Resource(GROUP, "v1", "pipelines", "Pipeline")
PIPELINERUNS = Resource(GROUP, "v1", "pipelineruns", "PipelineRun")
TASKS = Resource(GROUP, "v1", "tasks", "Task")
TASKRUNS = Resource(GROUP, "v1", "taskruns", "TaskRun")
CUSTOMRUNS = Resource(GROUP, "v1beta1", "customruns", "CustomRun")
STEPACTIONS = Resource(GROUP, "v1beta1", "stepactions", "StepAction")

LABEL_PIPELINE = f"{GROUP}/pipeline"
LABEL_PIPELINE_RUN = f"{GROUP}/pipelineRun"
LABEL_PIPELINE_RUN_UID = f"{GROUP}/pipelineRunUID"
LABEL_PIPELINE_TASK = f"{GROUP}/pipelineTask"
LABEL_MEMBER_OF = f"{GROUP}/memberOf"
LABEL_TASK = f"{GROUP}/task"
LABEL_TASK_RUN = f"{GROUP}/taskRun"
LABEL_TASK_RUN_UID = f"{GROUP}/taskRunUID"
LABEL_CUSTOM_RUN = f"{GROUP}/customRun"
MANAGED_BY = {"app.kubernetes.io/managed-by": "tekton-pipelines"}
ON_ERROR_ANNOTATION = "pipeline.tekton.dev/pipeline-task-on-error"
AT_ONCE_ANNOTATION = "trainshed.dev/tasks-at-once"
"""Of a PipelineRun: how many of its tasks run at the same time on the embedded cluster; a real Tekton starts all."""

READY_ANNOTATION = f"{GROUP}/ready"
"""Of a pod: its steps' turn has come."""
READY = "READY"
WAITS_ANNOTATION = "trainshed.dev/waits-for-ready"
"""Of a task: its program does nothing that others see until its pod has `READY_ANNOTATION`, and then begins."""

_LONGEST = 63
_DIGEST = 32


def child_name(parent: str, suffix: str) -> str:
    """Return the name of what `parent` makes: both together or, where that is longer than a label, with a digest."""
    if len(parent) + len(suffix) <= _LONGEST:
        return parent + suffix
    digest = hashlib.md5((parent + suffix).encode(), usedforsecurity=False).hexdigest()
    kept = suffix if len(suffix) < _LONGEST - _DIGEST else suffix[: _LONGEST - _DIGEST - 1]
    return (parent[: _LONGEST - _DIGEST - len(kept)] + digest + kept).lower()


def claim_name(template_name: str, workspace: str, owner_uid: str) -> str:
    """Return the name of the claim that a run makes for a workspace: the same whenever it is asked."""
    digest = hashlib.sha256(f"{owner_uid}/{workspace}".encode()).hexdigest()[:10]
    return f"{template_name or 'pvc'}-{digest}"
