"""Defaults of workloads. Every function fills its argument in place.

Source: `pkg/apis/apps/v1/defaults.go` and `pkg/apis/batch/v1/defaults.go` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable

from trainshed.kube.builtin.parts.pod.defaults import pod_spec_defaults, setdefault
from trainshed.kube.meta.objects import Object

_UNLIMITED_BACKOFF = 2147483647


def _template(spec: Object) -> None:
    template = spec.get("template")
    if template is not None:  # a missing template stays missing: validation says so
        template.setdefault("metadata", {})
        pod_spec_defaults(setdefault(template, "spec", {}))


def deployment_defaults(obj: Object) -> None:
    """Fill in a Deployment."""
    spec = setdefault(obj, "spec", {})
    spec.setdefault("replicas", 1)
    strategy = setdefault(spec, "strategy", {})
    if setdefault(strategy, "type", "RollingUpdate") == "RollingUpdate":
        rolling = setdefault(strategy, "rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    _template(spec)
    obj.setdefault("status", {})


def replica_set_defaults(obj: Object) -> None:
    """Fill in a ReplicaSet; typed clients require the count in its status."""
    spec = setdefault(obj, "spec", {})
    spec.setdefault("replicas", 1)
    _template(spec)
    obj.setdefault("status", {}).setdefault("replicas", 0)


def replication_controller_defaults(obj: Object) -> None:
    """Fill in a ReplicationController: without a selector it selects its template's labels."""
    spec = setdefault(obj, "spec", {})
    spec.setdefault("replicas", 1)
    _template(spec)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        setdefault(spec, "selector", dict(labels))
        setdefault(obj.setdefault("metadata", {}), "labels", dict(labels))
    obj.setdefault("status", {}).setdefault("replicas", 0)


def daemon_set_defaults(obj: Object) -> None:
    """Fill in a DaemonSet; typed clients require four counts in its status."""
    spec = setdefault(obj, "spec", {})
    strategy = setdefault(spec, "updateStrategy", {})
    if setdefault(strategy, "type", "RollingUpdate") == "RollingUpdate":
        rolling = setdefault(strategy, "rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    _template(spec)
    status = obj.setdefault("status", {})
    for count in ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"):
        status.setdefault(count, 0)


def stateful_set_defaults(obj: Object, claim_defaults: Callable[[Object], None]) -> None:
    """Fill in a StatefulSet and, with `claim_defaults`, its claim templates."""
    spec = setdefault(obj, "spec", {})
    spec.setdefault("replicas", 1)
    setdefault(spec, "podManagementPolicy", "OrderedReady")
    strategy = setdefault(spec, "updateStrategy", {})
    if setdefault(strategy, "type", "RollingUpdate") == "RollingUpdate":
        setdefault(strategy, "rollingUpdate", {}).setdefault("partition", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    retention = setdefault(spec, "persistentVolumeClaimRetentionPolicy", {})
    setdefault(retention, "whenDeleted", "Retain")
    setdefault(retention, "whenScaled", "Retain")
    _template(spec)
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim_defaults(claim)
    status = obj.setdefault("status", {})
    status.setdefault("replicas", 0)
    status.setdefault("availableReplicas", 0)


def job_defaults(obj: Object) -> None:
    """Fill in a Job; its selector and labels are `defaults.job_identity`, which needs the uid."""
    _job_spec(setdefault(obj, "spec", {}))
    obj.setdefault("status", {})


def _job_spec(spec: Object) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    if spec.get("backoffLimit") is None:
        spec["backoffLimit"] = 6 if spec.get("backoffLimitPerIndex") is None else _UNLIMITED_BACKOFF
    setdefault(spec, "completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    # KEP-3939: with a pod failure policy a replacement waits until the pod has really failed.
    policy = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    setdefault(spec, "podReplacementPolicy", policy)
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            setdefault(pattern, "status", "True")
    _template(spec)


def cron_job_defaults(obj: Object) -> None:
    """Fill in a CronJob."""
    spec = setdefault(obj, "spec", {})
    setdefault(spec, "concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    template = spec.get("jobTemplate")
    if template is not None:
        template.setdefault("metadata", {})
        job_spec = setdefault(template, "spec", {})
        _cron_job_spec(job_spec)
    obj.setdefault("status", {})


def _cron_job_spec(spec: Object) -> None:
    # Upstream defaults only the pods of a CronJob's template; the rest is the Job's when it is made.
    _template(spec)
