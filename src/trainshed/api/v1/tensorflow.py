"""TFJob: distributed TensorFlow training with workers, parameter servers, a chief and an evaluator."""

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
from trainshed.api.verdict import FORBIDDEN, FieldError, Verdict, supported
from trainshed.kube.meta.objects import Object, section

CHIEF = "Chief"
EVALUATOR = "Evaluator"
MASTER = "Master"
PS = "PS"
WORKER = "Worker"
ALL_WORKERS = "AllWorkers"


class TFJobSpec(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """Desired state of a TFJob."""

    run_policy: OptionalRunPolicy = None
    success_policy: Annotated[
        str | None,
        doc(
            "successPolicy says when a job without Chief and Master has succeeded: AllWorkers when all"
            " workers have, anything else when worker 0 has, or all have. Default: empty."
        ),
    ] = None
    tf_replica_specs: Annotated[
        dict[str, ReplicaSpec],
        doc(
            "tfReplicaSpecs are the pods by replica type: Worker, PS, Chief or Master (at most one of the"
            " two), and Evaluator. Other types are ignored."
        ),
    ]
    enable_dynamic_worker: Annotated[
        bool | None,
        doc(
            "enableDynamicWorker lets workers come and go: each is told of itself and the parameter"
            " servers only, and one that fails does not fail the job. Default: false."
        ),
    ] = None


class TFJob(JobObject, kw_only=True, rename="camel", omit_defaults=True):
    """TFJob runs one distributed TensorFlow training."""

    spec: Annotated[TFJobSpec | None, doc("spec is the desired state.")] = None


def default_tfjob(obj: Object) -> Object:
    """Return a copy of the TFJob with every default filled in."""
    out = default_job(obj, TFJOB)
    if out["spec"].get("successPolicy") is None:
        out["spec"]["successPolicy"] = ""
    return out


def validate_tfjob(obj: Object, old: Object | None) -> Verdict:
    """Return every problem of a TFJob as sent by a client; `old` is the stored one on an update."""
    specs = section(obj, "spec", TFJOB.replica_specs_field)
    return rules.verdict(
        [
            *rules.name_errors(obj),
            *rules.managed_by_errors(obj, old),
            *rules.replica_errors(obj, TFJOB),
            *_leader_errors(specs),
        ],
        [*rules.replica_warnings(obj, TFJOB), *_type_warnings(specs)],
    )


def _leader_errors(specs: Object) -> Iterator[FieldError]:
    if CHIEF in specs and MASTER in specs:
        detail = "must not have more than 1 Chief or Master role"
        yield FieldError(f"spec.{TFJOB.replica_specs_field}", FORBIDDEN, None, detail)


def _type_warnings(specs: Object) -> Iterator[str]:
    """Warn of replica types that upstream makes pods of, though no TF_CONFIG counts them."""
    known = {name.lower() for name in TFJOB.type_names}
    for key in sorted(specs):
        if key.lower() not in known:
            path = f"spec.{TFJOB.replica_specs_field}[{key}]"
            yield f"{path} is ignored: no such replica type; {supported(TFJOB.type_names)}"


TFJOB = JobKind(
    group=GROUP,
    version=VERSION,
    name="TFJob",
    singular="tfjob",
    plural="tfjobs",
    root=TFJob,
    spec=TFJobSpec,
    printer_columns=(STATE, AGE),
    defaults=default_tfjob,
    validate=validate_tfjob,
    controller_name="tfjob-controller",
    framework="tensorflow",
    replica_specs_field="tfReplicaSpecs",
    replica_types=tuple(ReplicaType(name=name) for name in (CHIEF, EVALUATOR, MASTER, PS, WORKER)),
    other_types=True,
    container_name="tensorflow",
    port=Port("tfjob-port", 2222),
    default_restart_policy="Never",
    reports_selector=False,
    deletion_word="Job",
)
