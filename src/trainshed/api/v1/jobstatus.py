"""What the operator reports about a job, for every kind."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from trainshed.api.fields import DATE_TIME, INT32, core, doc


class JobCondition(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """One fact about a job. The list is in the order of the last change of each."""

    type: Annotated[
        str,
        doc("type is Created, Running, Restarting, Succeeded, Suspended or Failed."),
    ]
    status: Annotated[str, doc("status is True, False or Unknown.")]
    reason: Annotated[
        str | None,
        doc("reason is the kind followed by one word, e.g. PyTorchJobRunning."),
    ] = None
    message: Annotated[str | None, doc("message says the same to people.")] = None
    last_update_time: Annotated[
        str | None,
        doc("lastUpdateTime is when the condition was last written.", **DATE_TIME),
    ] = None
    last_transition_time: Annotated[
        str | None,
        doc("lastTransitionTime is when status last changed.", **DATE_TIME),
    ] = None


class ReplicaStatus(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """How the pods of one replica type are doing. A count of 0 is left out."""

    active: Annotated[int | None, doc("active is the number of running pods.", **INT32)] = None
    succeeded: Annotated[
        int | None,
        doc(
            "succeeded is the number of pods that ended well; once the job has succeeded, also those"
            " that ran then.",
            **INT32,
        ),
    ] = None
    failed: Annotated[
        int | None,
        doc("failed is the number of failed pods, and of running pods that are being deleted.", **INT32),
    ] = None
    label_selector: Annotated[
        dict[str, Any] | None,
        core("labelSelector is deprecated and never written; see selector.", "meta.v1.LabelSelector"),
    ] = None
    selector: Annotated[
        str | None,
        doc(
            "selector is the label selector of these pods as text; autoscalers read it through the scale"
            " subresource."
        ),
    ] = None


class JobStatus(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """Observed state of a job. Written only by the operator."""

    conditions: Annotated[
        list[JobCondition] | None,
        doc("conditions are the facts about the job, the latest change last."),
    ] = None
    replica_statuses: Annotated[
        dict[str, ReplicaStatus] | None,
        doc("replicaStatuses counts the pods by replica type. Frozen once the job has failed."),
    ] = None
    start_time: Annotated[
        str | None,
        doc("startTime is when the job first started, or was last resumed.", **DATE_TIME),
    ] = None
    completion_time: Annotated[
        str | None,
        doc("completionTime is when the job succeeded or failed.", **DATE_TIME),
    ] = None
    last_reconcile_time: Annotated[
        str | None,
        doc("lastReconcileTime is kept for readers of older operators and not written.", **DATE_TIME),
    ] = None
