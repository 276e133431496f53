"""What the kinds of `kubeflow.org/v1` have in common: jobs made of replica types, each a pod template and a count.

Facts: the API tables of the Kubeflow training operator v1.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from trainshed.api.fields import doc
from trainshed.api.kind import PrinterColumn
from trainshed.api.v1.jobstatus import JobStatus
from trainshed.kube.meta.resourceinfo import ScalePaths

GROUP = "kubeflow.org"
VERSION = "v1"

STATE = PrinterColumn("State", "string", ".status.conditions[-1:].type")
AGE = PrinterColumn("Age", "date", ".metadata.creationTimestamp")


class JobObject(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """What every job has around its `spec`."""

    api_version: Annotated[str | None, doc("apiVersion is kubeflow.org/v1.")] = None
    kind: Annotated[str | None, doc("kind is the kind of job, spelled as in the type's name.")] = None
    metadata: Annotated[
        dict[str, Any] | None,
        doc("metadata is the standard object metadata. The name must be a DNS-1035 label."),
    ] = None
    status: Annotated[JobStatus | None, doc("status is the observed state, written by the operator.")] = None


def worker_scale(replica_specs_field: str) -> ScalePaths:
    """Return the scale subresource of a kind whose workers can be scaled."""
    return ScalePaths(
        f".spec.{replica_specs_field}.Worker.replicas",
        ".status.replicaStatuses.Worker.active",
        ".status.replicaStatuses.Worker.selector",
    )
