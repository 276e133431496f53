"""XGBoostJob: distributed XGBoost training with a master, which runs the tracker, and workers."""

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
from trainshed.api.verdict import REQUIRED, FieldError, Verdict
from trainshed.kube.meta.objects import Object, section

MASTER = "Master"
WORKER = "Worker"


class XGBoostJobSpec(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """Desired state of an XGBoostJob."""

    run_policy: OptionalRunPolicy = None
    xgb_replica_specs: Annotated[
        dict[str, ReplicaSpec],
        doc("xgbReplicaSpecs are the pods by replica type: Master (exactly 1) and Worker."),
    ]


class XGBoostJob(JobObject, kw_only=True, rename="camel", omit_defaults=True):
    """XGBoostJob runs one distributed XGBoost training."""

    spec: Annotated[XGBoostJobSpec | None, doc("spec is the desired state.")] = None


def default_xgboostjob(obj: Object) -> Object:
    """Return a copy of the XGBoostJob with every default filled in."""
    return default_job(obj, XGBOOSTJOB)


def validate_xgboostjob(obj: Object, old: Object | None) -> Verdict:
    """Return every problem of an XGBoostJob as sent by a client; `old` is the stored one on an update."""
    return rules.verdict(
        [
            *rules.name_errors(obj),
            *rules.managed_by_errors(obj, old),
            *rules.replica_errors(obj, XGBOOSTJOB),
            *_master_errors(obj),
        ],
        rules.replica_warnings(obj, XGBOOSTJOB),
    )


def _master_errors(obj: Object) -> Iterator[FieldError]:
    if MASTER not in section(obj, "spec", XGBOOSTJOB.replica_specs_field):
        path = f"spec.{XGBOOSTJOB.replica_specs_field}[{MASTER}]"
        yield FieldError(path, REQUIRED, None, "must be present")


XGBOOSTJOB = JobKind(
    group=GROUP,
    version=VERSION,
    name="XGBoostJob",
    singular="xgboostjob",
    plural="xgboostjobs",
    root=XGBoostJob,
    spec=XGBoostJobSpec,
    printer_columns=(STATE, AGE),
    defaults=default_xgboostjob,
    validate=validate_xgboostjob,
    controller_name="xgboostjob-controller",
    framework="xgboost",
    replica_specs_field="xgbReplicaSpecs",
    replica_types=(ReplicaType(name=MASTER, exactly=1), ReplicaType(name=WORKER)),
    container_name="xgboost",
    port=Port("xgboostjob-port", 9999),
    default_restart_policy="Never",
    reports_selector=False,
    deletion_word="Job",
)
