"""MXJob: distributed Apache MXNet training with a scheduler, servers and workers, or tuning of operators with TVM.

Upstream's release 1.9 has dropped the kind; facts are those of 1.8.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec

from trainshed.api.fields import doc
from trainshed.api.replicated import JobKind, Port, ReplicaType
from trainshed.api.v1 import validation as rules
from trainshed.api.v1.common import AGE, GROUP, STATE, VERSION, JobObject
from trainshed.api.v1.defaults import default_job
from trainshed.api.v1.replicas import ReplicaSpec
from trainshed.api.v1.runpolicy import OptionalRunPolicy
from trainshed.api.verdict import FieldError, Verdict
from trainshed.kube.meta.objects import Object, section

SCHEDULER = "Scheduler"
SERVER = "Server"
WORKER = "Worker"
TUNERS = ("TunerTracker", "TunerServer", "Tuner")
DEPRECATED = (
    "MXJob is deprecated: the Kubeflow training operator removed it in release v1.9.0.",
    "See https://github.com/kubeflow/training-operator/issues/1996 for the reasons.",
)


class Sentence(FieldError, frozen=True):
    """A problem that reads as a sentence of the kind's own, where it has one, before field and cause."""

    sentence: str = ""

    def __str__(self) -> str:
        return f"{self.sentence}: {super().__str__()}"


class MXJobSpec(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """Desired state of an MXJob."""

    run_policy: OptionalRunPolicy = None
    job_mode: Annotated[
        str,
        doc("jobMode says what the job is for, MXTrain or MXTune. The operator does not read it."),
    ]
    mx_replica_specs: Annotated[
        dict[str, ReplicaSpec],
        doc(
            "mxReplicaSpecs are the pods by replica type: Scheduler (at most 1), Server and Worker to train,"
            " TunerTracker, TunerServer and Tuner to tune."
        ),
    ]


class MXJob(JobObject, kw_only=True, rename="camel", omit_defaults=True):
    """MXJob runs one distributed MXNet training, or one tuning. Deprecated."""

    spec: Annotated[MXJobSpec | None, doc("spec is the desired state.")] = None


def default_mxjob(obj: Object) -> Object:
    """Return a copy of the MXJob with every default filled in."""
    return default_job(obj, MXJOB)


def validate_mxjob(obj: Object, old: Object | None) -> Verdict:
    """Return every problem of an MXJob as sent by a client; `old` is the stored one on an update.

    Other spellings of Scheduler, Server and Worker are let in: upstream checks the job after defaulting.
    """
    whole = default_mxjob(obj)
    return rules.verdict(
        [
            *_sentences("MXJob name is invalid", rules.name_errors(obj)),
            *rules.managed_by_errors(obj, old),
            *_sentences("MXJobSpec is not valid", rules.replica_errors(whole, MXJOB)),
            *_sentences("more than 1 scheduler found", _scheduler_errors(whole)),
        ],
        [*DEPRECATED, *rules.replica_warnings(obj, MXJOB)],
    )


def _sentences(sentence: str, errors: Iterator[FieldError]) -> Iterator[FieldError]:
    for error in errors:
        yield Sentence(error.path, error.type, error.value, error.detail, sentence)


def _scheduler_errors(obj: Object) -> Iterator[FieldError]:
    """Yield that there are several schedulers: servers and workers register with the first alone."""
    count = section(obj, "spec", MXJOB.replica_specs_field, SCHEDULER).get("replicas")
    if isinstance(count, int) and count > 1:
        path = f"spec.{MXJOB.replica_specs_field}[{SCHEDULER}].replicas"
        yield FieldError(path, "Forbidden", None, "must not be more than 1")


MXJOB = JobKind(
    group=GROUP,
    version=VERSION,
    name="MXJob",
    singular="mxjob",
    plural="mxjobs",
    root=MXJob,
    spec=MXJobSpec,
    printer_columns=(STATE, AGE),
    defaults=default_mxjob,
    validate=validate_mxjob,
    deletion_warnings=DEPRECATED,
    controller_name="mxjob-controller",
    framework="mxnet",
    replica_specs_field="mxReplicaSpecs",
    replica_types=(
        ReplicaType(name=SCHEDULER),
        ReplicaType(name=SERVER),
        ReplicaType(name=WORKER),
        *(ReplicaType(name=name, any_case=False) for name in TUNERS),
    ),
    container_name="mxnet",
    port=Port("mxjob-port", 9091),
    default_restart_policy="Never",
    reports_selector=False,
    deletion_word="Pod",
)
