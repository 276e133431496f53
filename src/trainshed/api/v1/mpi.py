"""MPIJob: a launcher that runs one MPI program in its workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from trainshed.api.fields import INT32, doc
from trainshed.api.replicated import JobKind, ReplicaType
from trainshed.api.v1 import validation as rules
from trainshed.api.v1.common import AGE, GROUP, STATE, VERSION, JobObject
from trainshed.api.v1.defaults import default_job
from trainshed.api.v1.replicas import ReplicaSpec
from trainshed.api.v1.runpolicy import OptionalRunPolicy
from trainshed.api.verdict import FORBIDDEN, INVALID, REQUIRED, UNSUPPORTED, FieldError, Verdict
from trainshed.kube.meta.objects import Object, copy_tree, name_of, objects, section, spec_of

LAUNCHER = "Launcher"
WORKER = "Worker"
POLICY_IGNORED = "spec.cleanPodPolicy is ignored: spec.runPolicy.cleanPodPolicy says otherwise"

_MAX_LABEL_LENGTH = 63


class MPIJobSpec(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """Desired state of an MPIJob."""

    slots_per_worker: Annotated[
        int | None,
        doc("slotsPerWorker is the number of processes in each worker. Default: 1.", **INT32),
    ] = None
    clean_pod_policy: Annotated[
        str | None,
        doc(
            "cleanPodPolicy is an older place of runPolicy.cleanPodPolicy, which wins where both are set."
            " Default: None."
        ),
    ] = None
    mpi_replica_specs: Annotated[
        dict[str, ReplicaSpec],
        doc("mpiReplicaSpecs are the pods by replica type: Launcher and Worker, spelled so."),
    ]
    main_container: Annotated[
        str | None,
        doc(
            "mainContainer is the container of a worker in which the launcher starts processes."
            " Default: the first."
        ),
    ] = None
    run_policy: OptionalRunPolicy = None


class MPIJob(JobObject, kw_only=True, rename="camel", omit_defaults=True):
    """MPIJob runs one MPI program: the launcher starts its processes in the workers."""

    metadata: Annotated[
        dict[str, Any] | None,
        doc("metadata is the standard object metadata. The name has at most 63 characters."),
    ] = None
    spec: Annotated[MPIJobSpec | None, doc("spec is the desired state.")] = None


class Sentence(FieldError, frozen=True):
    """A problem in the words of the upstream operator, which name no field."""

    def __str__(self) -> str:
        return self.detail


def default_mpijob(obj: Object) -> Object:
    """Return a copy of the MPIJob with every default filled in."""
    merged = copy_tree(obj)
    spec = spec_of(merged)
    old = spec.get("cleanPodPolicy")
    if old is not None and section(spec, "runPolicy").get("cleanPodPolicy") is None:
        spec["runPolicy"] = {**section(spec, "runPolicy"), "cleanPodPolicy": old}
    out = default_job(merged, MPIJOB)
    out["spec"]["cleanPodPolicy"] = out["spec"]["runPolicy"]["cleanPodPolicy"]
    return out


def validate_mpijob(obj: Object, old: Object | None) -> Verdict:
    """Return every problem of an MPIJob as sent by a client; `old` is the stored one on an update."""
    return rules.verdict(
        [*_name_errors(obj), *rules.managed_by_errors(obj, old), *_replica_errors(obj)],
        _policy_warnings(spec_of(obj)),
    )


def _name_errors(obj: Object) -> Iterator[FieldError]:
    """The name is a label of the pods; there are no services that would ask for more."""
    if len(name_of(obj)) > _MAX_LABEL_LENGTH:
        detail = f"must be no more than {_MAX_LABEL_LENGTH} characters"
        yield FieldError("metadata.name", INVALID, name_of(obj), detail)


def _replica_errors(obj: Object) -> Iterator[FieldError]:
    spec, path = spec_of(obj), f"spec.{MPIJOB.replica_specs_field}"
    specs = spec.get(MPIJOB.replica_specs_field)
    if not isinstance(specs, dict):
        yield Sentence(path, REQUIRED, None, "MPIReplicaSpecs is not valid")
        return
    known = [name for name in MPIJOB.type_names if name in specs]
    for key in (*known, *sorted(specs.keys() - set(known))):
        yield from _type_errors(key, section(specs, key), f"{path}[{key}]")
    if LAUNCHER not in specs:
        detail = "MPIReplicaSpec is not valid: Master ReplicaSpec must be present"
        yield Sentence(f"{path}[{LAUNCHER}]", REQUIRED, None, detail)


def _type_errors(key: str, replica: Object, path: str) -> Iterator[FieldError]:
    where = f"{path}.template.spec.containers"
    containers = objects(section(replica, "template", "spec"), "containers")
    if not containers:
        detail = f"MPIReplicaSpecs is not valid: containers definition expected in {key}"
        yield Sentence(where, REQUIRED, None, detail)
    if key not in MPIJOB.type_names:
        detail = f"MPIReplicaType is {key} but must be one of [{LAUNCHER} {WORKER}]"
        yield Sentence(path, UNSUPPORTED, None, detail)
    for index, container in enumerate(containers):
        for field, word in (("image", "Image"), ("name", "ImageName")):
            if not container.get(field):
                detail = f"MPIReplicaSpec is not valid: {word} is undefined in the container of {key}"
                yield Sentence(f"{where}[{index}].{field}", REQUIRED, None, detail)
    count = replica.get("replicas")
    if key == LAUNCHER and count not in (None, 1):
        detail = "MPIReplicaSpec is not valid: There must be only 1 launcher replica"
        yield Sentence(f"{path}.replicas", FORBIDDEN, None, detail)
    elif isinstance(count, int) and count > rules.MAX_REPLICAS:
        yield FieldError(f"{path}.replicas", FORBIDDEN, None, f"must be at most {rules.MAX_REPLICAS}")


def _policy_warnings(spec: Object) -> Iterator[str]:
    old, new = spec.get("cleanPodPolicy"), section(spec, "runPolicy").get("cleanPodPolicy")
    if None not in (old, new) and old != new:
        yield POLICY_IGNORED


MPIJOB = JobKind(
    group=GROUP,
    version=VERSION,
    name="MPIJob",
    singular="mpijob",
    plural="mpijobs",
    root=MPIJob,
    spec=MPIJobSpec,
    printer_columns=(AGE, STATE),
    defaults=default_mpijob,
    validate=validate_mpijob,
    controller_name="mpijob-controller",
    framework="mpi",
    replica_specs_field="mpiReplicaSpecs",
    # Workers first: the launcher finds them there.
    replica_types=(
        ReplicaType(name=WORKER, default_replicas=0, any_case=False),
        ReplicaType(name=LAUNCHER, indexed=False, any_case=False),
    ),
    container_name="mpi",
    port=None,
    default_restart_policy="Never",
    reports_selector=False,
    deletion_word="Job",
)
