"""Kinds of any generation that are made of replica types, each a pod template and a count."""

from __future__ import annotations

from typing import Literal

import msgspec

from trainshed.api.kind import Kind


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
