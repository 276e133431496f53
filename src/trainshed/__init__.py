"""Run Kubeflow training jobs on a laptop or on any Kubernetes, unchanged.

    from trainshed import Cluster, run

    run("job.yaml", on_line=print)

What is exported here is the public API (`docs/reference/python.md`). It is imported when it is first used, so that
`import trainshed` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed._lazy import lazily as _lazily

if TYPE_CHECKING:
    from trainshed.client.config import ConfigError
    from trainshed.client.transport import TransportError
    from trainshed.cluster.control.launcher import StartFailed
    from trainshed.cluster.paths import StateError
    from trainshed.kube.meta.errors import ApiError
    from trainshed.sdk.apply import Applied
    from trainshed.sdk.blocking import Cluster, Job, run
    from trainshed.sdk.check import NotHonoured, Verdict
    from trainshed.sdk.cluster import AsyncCluster
    from trainshed.sdk.errors import Explanation, JobFailed, UserError, explain
    from trainshed.sdk.foresight.findings import Finding
    from trainshed.sdk.job import AsyncJob, Notice
    from trainshed.sdk.jobs import Event, LogLine
    from trainshed.sdk.local import ClusterStatus
    from trainshed.sdk.pipelineruns.ended import PipelineOutcome
    from trainshed.sdk.pipelineruns.run import PipelineFailed, run_pipeline
    from trainshed.sdk.pipelineruns.steps import StepState
    from trainshed.sdk.progress import Progress
    from trainshed.sdk.state import Condition, Replica
    from trainshed.sdk.summary import Checkpoint, Failure, Success

__version__ = "0.1.0"

__all__ = (
    "ApiError",
    "Applied",
    "AsyncCluster",
    "AsyncJob",
    "Checkpoint",
    "Cluster",
    "ClusterStatus",
    "Condition",
    "ConfigError",
    "Event",
    "Explanation",
    "Failure",
    "Finding",
    "Job",
    "JobFailed",
    "LogLine",
    "NotHonoured",
    "Notice",
    "PipelineFailed",
    "PipelineOutcome",
    "Progress",
    "Replica",
    "StartFailed",
    "StateError",
    "StepState",
    "Success",
    "TransportError",
    "UserError",
    "Verdict",
    "explain",
    "run",
    "run_pipeline",
)

_HOMES = {
    "ApiError": "kube.meta.errors",
    "Applied": "sdk.apply",
    "AsyncCluster": "sdk.cluster",
    "AsyncJob": "sdk.job",
    "Checkpoint": "sdk.summary",
    "Cluster": "sdk.blocking",
    "ClusterStatus": "sdk.local",
    "Condition": "sdk.state",
    "ConfigError": "client.config",
    "Event": "sdk.jobs",
    "Explanation": "sdk.errors",
    "Failure": "sdk.summary",
    "Finding": "sdk.foresight.findings",
    "Job": "sdk.blocking",
    "JobFailed": "sdk.errors",
    "LogLine": "sdk.jobs",
    "NotHonoured": "sdk.check",
    "Notice": "sdk.job",
    "PipelineFailed": "sdk.pipelineruns.run",
    "PipelineOutcome": "sdk.pipelineruns.ended",
    "Progress": "sdk.progress",
    "Replica": "sdk.state",
    "StartFailed": "cluster.control.launcher",
    "StateError": "cluster.paths",
    "StepState": "sdk.pipelineruns.steps",
    "Success": "sdk.summary",
    "TransportError": "client.transport",
    "UserError": "sdk.errors",
    "Verdict": "sdk.check",
    "explain": "sdk.errors",
    "run": "sdk.blocking",
    "run_pipeline": "sdk.pipelineruns.run",
}
"""Public name → module below this package."""

__getattr__, __dir__ = _lazily(__name__, _HOMES)
