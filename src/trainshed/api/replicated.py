"""Kinds of any generation that are made of replica types, each a pod template and a count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from trainshed.api.kind import Kind, Program, ProgramPods
from trainshed.kube.meta.objects import Object, section


class ReplicaType(msgspec.Struct, frozen=True, kw_only=True):
    """One replica type of a kind.

    Attributes:
        default_replicas: the count where a job names none.
        exactly: the only count that is allowed, and it has to be written; None for any.
        indexed: pods are called `<job>-<type>-<index>` and have their index as a label; else there is one pod,
            `<job>-<type>`.
        any_case: other spellings such as `worker` mean it, too.
    """

    name: str
    default_replicas: int = 1
    exactly: int | None = None
    indexed: bool = True
    any_case: bool = True


class Port(msgspec.Struct, frozen=True):
    """The port that the training container of every pod has."""

    name: str
    number: int


class JobKind(Kind, frozen=True, kw_only=True, dict=True):
    """One kind of replicated job.

    Attributes:
        spec: the declared type of `spec`.
        replica_specs_field: the field of `spec` that maps replica types to pods.
        replica_types: in reconcile order: the type whose success ends the job comes first.
        other_types: replica types that are not listed are let in, and ignored.
        least_replicas: the least count of a type without an exact one, where a job names one; None for any.
        container_name: the container that trains.
        port: added to that container where it lacks it; None for kinds whose pods do not listen.
        default_restart_policy: of a replica type that names none.
        reports_selector: `status.replicaStatuses` have the selector that autoscalers read.
        deletion_word: ends the event reason of a deletion after the time to live: `SuccessfulDelete<word>`.
    """

    spec: type[msgspec.Struct]
    replica_specs_field: str
    replica_types: tuple[ReplicaType, ...]
    other_types: bool = False
    least_replicas: int | None = None
    container_name: str
    port: Port | None
    default_restart_policy: str
    reports_selector: bool
    deletion_word: Literal["Pod", "Job"]

    @property
    def type_names(self) -> tuple[str, ...]:
        """The names of the replica types in reconcile order."""
        return tuple(type_.name for type_ in self.replica_types)

    def replica_type(self, name: str) -> ReplicaType:
        """Return the declaration of a replica type; an unknown one is like any other."""
        for type_ in self.replica_types:
            if type_.name == name:
                return type_
        return ReplicaType(name=name)

    @property
    def runs_programs(self) -> bool:
        """Whether a job of this kind can be made of a `Program`: one that is deprecated is not proposed."""
        return not self.deletion_warnings

    @property
    def starts_ranks(self) -> bool:
        """Whether the operator tells a command how many ranks to start in each pod."""
        return "nproc_per_node" in self.spec.__struct_fields__

    def running(self, program: Program) -> Object:
        """Return the `spec` of a job that runs the program.

        With a type of which there is one pod, that is the first; one without index is a launcher, which has `mpirun`
        start the program in pods that wait.
        """
        launcher = next((type_.name for type_ in self.replica_types if not type_.indexed), "")
        first = next((type_.name for type_ in self.replica_types if type_.exactly == 1), "")
        counts: dict[str, tuple[int, Sequence[str]]]
        if launcher:
            mpirun = ("mpirun", "--allow-run-as-root", "-np", str(program.pods), *program.command)
            counts = {launcher: (1, mpirun), "Worker": (program.pods, ("sleep", "infinity"))}
        elif first:
            counts = {first: (1, program.command), "Worker": (program.pods - 1, program.command)}
        else:
            counts = {"Worker": (program.pods, program.command)}
        spec: Object = {} if program.processes is None else {"nprocPerNode": str(program.processes)}
        spec[self.replica_specs_field] = {
            type_: {
                "replicas": count,
                "restartPolicy": "Never",
                "template": program.template(
                    ProgramPods(
                        type=type_,
                        leads=type_ == next(iter(counts)),
                        container=self.container_name,
                        command=command,
                    )
                ),
            }
            for type_, (count, command) in counts.items()
            if count
        }
        return spec

    def replica_specs(self, job: Object) -> Mapping[str, Any]:
        """Return the map from replica type to its spec."""
        return section(job, "spec", self.replica_specs_field)

    def empty_replicas(self, job: Object) -> list[str]:
        """Return the paths of replica types without anything in them, and that of the map when it is empty."""
        path = f"spec.{self.replica_specs_field}"
        replicas = section(job, "spec").get(self.replica_specs_field)
        if not isinstance(replicas, dict):
            return []
        return [f"{path}[{type_}]" for type_, replica in replicas.items() if not replica] or (
            [] if replicas else [path]
        )
