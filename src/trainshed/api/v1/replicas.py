"""One type of replica of a job: how many pods, from which template, and what happens when one fails."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from trainshed.api.fields import INT32, core, doc


class ReplicaSpec(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """The pods of one replica type."""

    replicas: Annotated[
        int | None,
        doc(
            "replicas is the number of pods of this type, at least 1. Default: 1; a Master must say so.",
            **INT32,
        ),
    ] = None
    template: Annotated[
        dict[str, Any] | None,
        core(
            "template describes the pods. Its restartPolicy is replaced by the one beside it; of its"
            " metadata,"
            " labels, annotations and finalizers are copied.",
            "core.v1.PodTemplateSpec",
        ),
    ] = None
    restart_policy: Annotated[
        str | None,
        doc(
            "restartPolicy says what happens when a container fails: Always and OnFailure restart it,"
            " Never fails"
            " the job, ExitCode replaces the pod for exit codes from 128 on (killed by a signal) and"
            " fails the job"
            " for lower ones. Default: by kind; OnFailure for a PyTorchJob."
        ),
    ] = None
