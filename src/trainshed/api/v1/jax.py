"""JAXJob: distributed JAX training, one process for each worker, the first of which coordinates."""

from __future__ import annotations

from typing import Annotated

import msgspec

from trainshed.api.fields import doc
from trainshed.api.replicated import JobKind, Port, ReplicaType
from trainshed.api.v1 import validation as rules
from trainshed.api.v1.common import AGE, GROUP, STATE, VERSION, JobObject, worker_scale
from trainshed.api.v1.defaults import default_job
from trainshed.api.v1.replicas import ReplicaSpec
from trainshed.api.v1.runpolicy import OptionalRunPolicy
from trainshed.api.verdict import Verdict
from trainshed.kube.meta.objects import Object

WORKER = "Worker"


class JAXJobSpec(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """Desired state of a JAXJob."""

    run_policy: OptionalRunPolicy = None
    jax_replica_specs: Annotated[
        dict[str, ReplicaSpec],
        doc("jaxReplicaSpecs are the pods by replica type: Worker, of which the first coordinates."),
    ]


class JAXJob(JobObject, kw_only=True, rename="camel", omit_defaults=True):
    """JAXJob runs one distributed JAX training."""

    spec: Annotated[JAXJobSpec | None, doc("spec is the desired state.")] = None


def default_jaxjob(obj: Object) -> Object:
    """Return a copy of the JAXJob with every default filled in."""
    return default_job(obj, JAXJOB)


def validate_jaxjob(obj: Object, old: Object | None) -> Verdict:
    """Return every problem of a JAXJob as sent by a client; `old` is the stored one on an update."""
    return rules.verdict(
        [
            *rules.name_errors(obj),
            *rules.managed_by_errors(obj, old),
            *rules.replica_errors(obj, JAXJOB),
        ],
        rules.replica_warnings(obj, JAXJOB),
    )


JAXJOB = JobKind(
    group=GROUP,
    version=VERSION,
    name="JAXJob",
    singular="jaxjob",
    plural="jaxjobs",
    root=JAXJob,
    spec=JAXJobSpec,
    printer_columns=(STATE, AGE),
    scale=worker_scale("jaxReplicaSpecs"),
    defaults=default_jaxjob,
    validate=validate_jaxjob,
    controller_name="jaxjob-controller",
    framework="jax",
    replica_specs_field="jaxReplicaSpecs",
    replica_types=(ReplicaType(name=WORKER),),
    container_name="jax",
    port=Port("jaxjob-port", 6666),
    default_restart_policy="Never",
    reports_selector=True,
    deletion_word="Pod",
)
