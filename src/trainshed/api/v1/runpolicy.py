"""How a job runs as a whole, for every kind: limits, retention, suspension, scheduling."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from trainshed.api.fields import INT32, INT64, QUANTITY, doc

QUEUE_IS_IMMUTABLE = {
    "rule": "self == oldSelf",
    "message": "spec.runPolicy.schedulingPolicy.queue is immutable",
}


class SchedulingPolicy(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """How the pods of a job are placed together. Read only where a gang scheduler is configured."""

    min_available: Annotated[
        int | None,
        doc(
            "minAvailable is the number of pods that must fit before any starts. Default: all replicas.",
            **INT32,
        ),
    ] = None
    queue: Annotated[
        str | None,
        doc(
            "queue is the scheduler's queue that the job waits in. Immutable once set. Default: the queue"
            ' "default" of the gang scheduler.',
            **{"x-kubernetes-validations": [QUEUE_IS_IMMUTABLE]},
        ),
    ] = None
    min_resources: Annotated[
        dict[str, Annotated[Any, msgspec.Meta(extra_json_schema=QUANTITY)]] | None,
        doc(
            "minResources is what must be free before any pod starts. Default: the requests of"
            " minAvailable pods."
        ),
    ] = None
    priority_class: Annotated[
        str | None,
        doc("priorityClass is the name of the PriorityClass of the whole gang. Default: none."),
    ] = None
    schedule_timeout_seconds: Annotated[
        int | None,
        doc(
            "scheduleTimeoutSeconds is how long the gang may wait to be placed, in seconds. Default: no"
            " limit.",
            **INT32,
        ),
    ] = None


class RunPolicy(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """When a job ends, what stays of it, and whether it may run now."""

    clean_pod_policy: Annotated[
        str | None,
        doc(
            "cleanPodPolicy says which pods are deleted when the job has finished: None keeps all,"
            " Running deletes"
            " those still running or pending, All deletes every one. Default: None."
        ),
    ] = None
    ttl_seconds_after_finished: Annotated[
        int | None,
        doc(
            "ttlSecondsAfterFinished is how long a finished job is kept, in seconds; then it is deleted"
            " with all its"
            " pods. 0 deletes it at once. Default: it is kept.",
            **INT32,
        ),
    ] = None
    active_deadline_seconds: Annotated[
        int | None,
        doc(
            "activeDeadlineSeconds is how long the job may run, in seconds from status.startTime; then"
            " it fails and"
            " all its pods are deleted. 0 fails it at once. Time spent suspended does not count."
            " Default: no limit.",
            **INT64,
        ),
    ] = None
    backoff_limit: Annotated[
        int | None,
        doc(
            "backoffLimit is the number of container restarts, summed over the running pods, at which"
            " the job"
            " fails and all its pods are deleted. 0 fails it with the first failure. Pods that are"
            " replaced by new"
            " ones do not count. Default: no limit.",
            **INT32,
        ),
    ] = None
    scheduling_policy: Annotated[
        SchedulingPolicy | None,
        doc("schedulingPolicy says how the pods are placed together. Default: one by one."),
    ] = None
    suspend: Annotated[
        bool | None,
        doc(
            "suspend stops the job while true: its pods are deleted and none are created. Setting it"
            " back to false"
            " starts the job anew and resets status.startTime. Default: false.",
            default=False,
        ),
    ] = None
    managed_by: Annotated[
        str | None,
        doc(
            "managedBy names the controller that acts on the job: kubeflow.org/training-operator, or"
            " kueue.x-k8s.io/multikueue to leave it to Kueue. Immutable. Default: this operator."
        ),
    ] = None


OptionalRunPolicy = Annotated[
    RunPolicy | None,
    doc(
        "runPolicy says when the job ends, what stays of it, and whether it may run now. Default: {}.",
        default={},
    ),
]
"""A job's runPolicy. It has a default because the models of `kubeflow-training` cannot read a job without one."""
