"""PyTorchJob: distributed PyTorch training with a master and workers, or elastic with workers alone."""

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
from trainshed.api.verdict import FORBIDDEN, REQUIRED, FieldError, Verdict
from trainshed.kube.meta.objects import Object, section, spec_of

MASTER = "Master"
WORKER = "Worker"
PORT = Port("pytorchjob-port", 23456)
NPROC_DEPRECATED = "spec.elasticPolicy.nProcPerNode is deprecated, use spec.nprocPerNode instead"


class RDZVConf(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """One setting of the rendezvous backend."""

    key: Annotated[str | None, doc("key is the name of the setting, e.g. last_call_timeout.")] = None
    value: Annotated[str | None, doc("value is its value as text.")] = None


class ElasticPolicy(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """Training that goes on with a varying number of workers; read by torchrun from the environment."""

    min_replicas: Annotated[
        int | None,
        doc(
            "minReplicas is the least number of workers to train with. Default: maxReplicas, or"
            " Worker.replicas.",
            **INT32,
        ),
    ] = None
    max_replicas: Annotated[
        int | None,
        doc(
            "maxReplicas is the largest number of workers. Default: minReplicas, or Worker.replicas.", **INT32
        ),
    ] = None
    rdzv_backend: Annotated[
        str | None,
        doc("rdzvBackend is how workers find each other: c10d, etcd or etcd-v2. Default: c10d."),
    ] = None
    rdzv_port: Annotated[
        int | None,
        doc("rdzvPort is the port of the rendezvous. Default: the job's port on the first worker.", **INT32),
    ] = None
    rdzv_host: Annotated[
        str | None,
        doc("rdzvHost is the host of the rendezvous. Default: the first worker."),
    ] = None
    rdzv_id: Annotated[
        str | None,
        doc("rdzvId names the rendezvous; workers with the same id meet. Default: torchrun's."),
    ] = None
    rdzv_conf: Annotated[
        list[RDZVConf] | None,
        doc("rdzvConf are further settings of the backend."),
    ] = None
    standalone: Annotated[
        bool | None,
        doc("standalone makes each worker its own rendezvous, for a job on one node. Default: false."),
    ] = None
    n_proc_per_node: Annotated[
        int | None,
        doc("nProcPerNode is deprecated; use spec.nprocPerNode. The two exclude each other.", **INT32),
    ] = None
    max_restarts: Annotated[
        int | None,
        doc(
            "maxRestarts is how often torchrun restarts its group of processes. Default: torchrun's.", **INT32
        ),
    ] = None
    metrics: Annotated[
        list[dict[str, Any]] | None,
        doc(
            "metrics makes a HorizontalPodAutoscaler that scales the workers between minReplicas and"
            " maxReplicas by"
            " these metrics. Default: no autoscaling.",
            items={CORE_TYPE: "autoscaling.v2.MetricSpec"},
        ),
    ] = None


class PyTorchJobSpec(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """Desired state of a PyTorchJob."""

    run_policy: OptionalRunPolicy = None
    elastic_policy: Annotated[
        ElasticPolicy | None,
        doc(
            "elasticPolicy lets the number of workers vary while the job runs. Needs Worker. Default:"
            " fixed size."
        ),
    ] = None
    pytorch_replica_specs: Annotated[
        dict[str, ReplicaSpec],
        doc("pytorchReplicaSpecs are the pods by replica type: Master (exactly 1, optional) and Worker."),
    ]
    nproc_per_node: Annotated[
        str | None,
        doc("nprocPerNode is the number of processes in each pod, or auto, cpu or gpu. Default: auto."),
    ] = None


class PyTorchJob(JobObject, kw_only=True, rename="camel", omit_defaults=True):
    """PyTorchJob runs one distributed PyTorch training."""

    spec: Annotated[PyTorchJobSpec | None, doc("spec is the desired state.")] = None


def default_pytorchjob(obj: Object) -> Object:
    """Return a copy of the PyTorchJob with every default filled in."""
    out = default_job(obj, PYTORCHJOB)
    spec = out["spec"]
    default_elastic_bounds(out, PYTORCHJOB, WORKER)
    if spec.get("nprocPerNode") is None and section(spec, "elasticPolicy").get("nProcPerNode") is None:
        spec["nprocPerNode"] = "auto"
    return out


def validate_pytorchjob(obj: Object, old: Object | None) -> Verdict:
    """Return every problem of a PyTorchJob as sent by a client; `old` is the stored one on an update."""
    return rules.verdict(
        [
            *rules.name_errors(obj),
            *rules.managed_by_errors(obj, old),
            *_elastic_errors(spec_of(obj)),
            *rules.replica_errors(obj, PYTORCHJOB),
        ],
        [
            *rules.replica_warnings(obj, PYTORCHJOB),
            *_elastic_warnings(spec_of(obj)),
        ],
    )


def _elastic_errors(spec: Object) -> Iterator[FieldError]:
    elastic, replicas = spec.get("elasticPolicy"), PYTORCHJOB.replica_specs_field
    if not isinstance(elastic, dict):
        return
    if section(spec, replicas).get(WORKER) is None:
        detail = "must be configured if elastic policy is used"
        yield FieldError(f"spec.{replicas}[{WORKER}]", REQUIRED, None, detail)
    if elastic.get("nProcPerNode") is not None and spec.get("nprocPerNode") is not None:
        detail = "must not be used with spec.nprocPerNode"
        yield FieldError("spec.elasticPolicy.nProcPerNode", FORBIDDEN, None, detail)


def _elastic_warnings(spec: Object) -> Iterator[str]:
    if section(spec, "elasticPolicy").get("nProcPerNode") is not None:
        yield NPROC_DEPRECATED


PYTORCHJOB = JobKind(
    group=GROUP,
    version=VERSION,
    name="PyTorchJob",
    singular="pytorchjob",
    plural="pytorchjobs",
    root=PyTorchJob,
    spec=PyTorchJobSpec,
    printer_columns=(STATE, AGE),
    scale=worker_scale("pytorchReplicaSpecs"),
    defaults=default_pytorchjob,
    validate=validate_pytorchjob,
    controller_name="pytorchjob-controller",
    framework="pytorch",
    replica_specs_field="pytorchReplicaSpecs",
    replica_types=(ReplicaType(name=MASTER, exactly=1), ReplicaType(name=WORKER)),
    least_replicas=1,
    container_name="pytorch",
    port=PORT,
    default_restart_policy="OnFailure",
    reports_selector=True,
    deletion_word="Pod",
)
