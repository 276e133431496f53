"""PaddleJob: distributed PaddlePaddle training, collective with workers alone, or with a parameter server as master."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from trainshed.api.fields import CORE_TYPE, INT32, doc
from trainshed.api.replicated import JobKind, Port, ReplicaType
from trainshed.api.v1 import validation as rules
from trainshed.api.v1.common import AGE, GROUP, STATE, VERSION, JobObject, worker_scale
from trainshed.api.v1.defaults import default_elastic_bounds, default_job
from trainshed.api.v1.replicas import ReplicaSpec
from trainshed.api.v1.runpolicy import OptionalRunPolicy
from trainshed.api.verdict import Verdict
from trainshed.kube.meta.objects import Object, spec_of

MASTER = "Master"
WORKER = "Worker"
ELASTIC_IGNORED = "spec.elasticPolicy has no effect on a PaddleJob: the number of workers is fixed"


class PaddleElasticPolicy(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """Bounds of the number of workers. Accepted, and without effect, as in the Kubeflow training operator v1."""

    min_replicas: Annotated[
        int | None,
        doc("minReplicas is the least number of workers. Default: maxReplicas, or Worker.replicas.", **INT32),
    ] = None
    max_replicas: Annotated[
        int | None,
        doc(
            "maxReplicas is the largest number of workers. Default: minReplicas, or Worker.replicas.", **INT32
        ),
    ] = None
    max_restarts: Annotated[
        int | None, doc("maxRestarts is how often training may be restarted.", **INT32)
    ] = None
    metrics: Annotated[
        list[dict[str, Any]] | None,
        doc(
            "metrics are those of an autoscaler, of which none is made.",
            items={CORE_TYPE: "autoscaling.v2.MetricSpec"},
        ),
    ] = None


class PaddleJobSpec(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """Desired state of a PaddleJob."""

    run_policy: OptionalRunPolicy = None
    elastic_policy: Annotated[
        PaddleElasticPolicy | None,
        doc("elasticPolicy is accepted and has no effect: the number of workers is fixed."),
    ] = None
    paddle_replica_specs: Annotated[
        dict[str, ReplicaSpec],
        doc(
            "paddleReplicaSpecs are the pods by replica type: Worker alone for collective training, or Master,"
            " the parameter server, and Worker."
        ),
    ]


class PaddleJob(JobObject, kw_only=True, rename="camel", omit_defaults=True):
    """PaddleJob runs one distributed PaddlePaddle training."""

    spec: Annotated[PaddleJobSpec | None, doc("spec is the desired state.")] = None


def default_paddlejob(obj: Object) -> Object:
    """Return a copy of the PaddleJob with every default filled in."""
    out = default_job(obj, PADDLEJOB)
    default_elastic_bounds(out, PADDLEJOB, WORKER)
    return out


def validate_paddlejob(obj: Object, old: Object | None) -> Verdict:
    """Return every problem of a PaddleJob as sent by a client; `old` is the stored one on an update."""
    return rules.verdict(
        [
            *rules.name_errors(obj),
            *rules.managed_by_errors(obj, old),
            *rules.replica_errors(obj, PADDLEJOB, container='"paddle"'),
        ],
        [*rules.replica_warnings(obj, PADDLEJOB), *_elastic_warnings(obj)],
    )


def _elastic_warnings(obj: Object) -> Iterator[str]:
    if isinstance(spec_of(obj).get("elasticPolicy"), dict):
        yield ELASTIC_IGNORED


PADDLEJOB = JobKind(
    group=GROUP,
    version=VERSION,
    name="PaddleJob",
    singular="paddlejob",
    plural="paddlejobs",
    root=PaddleJob,
    spec=PaddleJobSpec,
    printer_columns=(STATE, AGE),
    scale=worker_scale("paddleReplicaSpecs"),
    defaults=default_paddlejob,
    validate=validate_paddlejob,
    controller_name="paddlejob-controller",
    framework="paddle",
    replica_specs_field="paddleReplicaSpecs",
    replica_types=(ReplicaType(name=MASTER), ReplicaType(name=WORKER)),
    container_name="paddle",
    port=Port("master", 36543),
    default_restart_policy="OnFailure",
    reports_selector=True,
    deletion_word="Pod",
)
