"""Labels, reasons and fixed messages of the job kinds, each with who writes and who reads it.

The values are those of the Kubeflow training operator v1: dashboards, SDKs and scripts match on them.
"""

from __future__ import annotations

# Labels. The operator writes them on every pod; all but the role also on services and in their selectors.
LABEL_OPERATOR_NAME = "training.kubeflow.org/operator-name"  # read by the operator's own list of children
LABEL_JOB_NAME = "training.kubeflow.org/job-name"  # read by the SDK, users' selectors and gang schedulers
LABEL_REPLICA_TYPE = "training.kubeflow.org/replica-type"  # lower case; read by the operator and the SDK
LABEL_REPLICA_INDEX = "training.kubeflow.org/replica-index"  # decimal; read by the operator and the SDK
LABEL_JOB_ROLE = "training.kubeflow.org/job-role"  # pods only; read by the SDK to find the logs
JOB_ROLE_MASTER = "master"

# Labels of older operators (before 1.3), written beside the current ones when the operator is told to.
# Read by scripts and tutorials (`kubectl get pods -l job-name=<n>`); the operator itself never reads them.
LEGACY_LABELS = {
    LABEL_JOB_NAME: "job-name",
    LABEL_REPLICA_TYPE: "replica-type",
    LABEL_REPLICA_INDEX: "replica-index",
    LABEL_JOB_ROLE: "job-role",
}

# spec.runPolicy.managedBy: written by users and queue managers, read by the operator that should act.
MANAGED_BY_OPERATOR = "kubeflow.org/training-operator"

# Condition types: written in status.conditions; read by `kubectl wait`, the SDK, Kueue.
CREATED = "Created"
RUNNING = "Running"
RESTARTING = "Restarting"
SUCCEEDED = "Succeeded"
SUSPENDED = "Suspended"
FAILED = "Failed"
RESUMED = "Resumed"  # only in reasons: the Suspended condition turned False
FAILED_VALIDATION = "FailedValidation"  # only in event reasons: a stored job that cannot run

# Event reasons: written on the job, read by people and by `kubectl describe`.
ERR_RESOURCE_EXISTS = "ErrResourceExists"
EXITED_WITH_CODE = "ExitedWithCode"
POD_GROUP_UNSCHEDULABLE = "PodGroupUnschedulable"
JOB_TERMINATED = "JobTerminated"
SET_POD_TEMPLATE_RESTART_POLICY = "SetPodTemplateRestartPolicy"
POD_TEMPLATE_SCHEDULER_NAME = "PodTemplateSchedulerName"  # after the kind's word for "set"
RESTART_POLICY_OVERRIDDEN_MESSAGE = (
    "Restart policy in pod template will be overwritten by restart policy in replica spec"
)


def reason(kind: str, outcome: str) -> str:
    """Return the reason of a condition or event of the job, e.g. `PyTorchJobSucceeded`."""
    return kind + outcome
