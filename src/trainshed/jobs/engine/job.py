"""A job as the policies read it: defaulted, typed, with the names of its children."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from trainshed.api.v1.common import JobKind, ReplicaType
from trainshed.api.v1.replicas import ReplicaSpec
from trainshed.api.v1.runpolicy import RunPolicy
from trainshed.jobs.engine import constants as c
from trainshed.kube.meta.objects import (
    Object,
    is_terminating,
    name_of,
    namespace_of,
    status_of,
    uid_of,
)

T = TypeVar("T")


class Replica(msgspec.Struct, frozen=True):
    """One replica type of one job: `count` pods from `template`."""

    type: str
    count: int
    restart_policy: str
    template: Object
    indexed: bool = True

    @classmethod
    def of(cls, type_: ReplicaType, spec: ReplicaSpec) -> Replica:
        """Return the replica of a defaulted spec; a negative count is none."""
        return cls(
            type=type_.name,
            count=max(spec.replicas or 0, 0),
            restart_policy=spec.restart_policy or "",
            template=spec.template or {},
            indexed=type_.indexed,
        )

    @property
    def slug(self) -> str:
        """The type as names and labels spell it, e.g. `worker`."""
        return self.type.lower()


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One job. `spec` is the kind's typed spec; `replicas` are in the order in which they are reconciled."""

    kind: JobKind
    name: str
    namespace: str
    uid: str
    run_policy: RunPolicy
    replicas: tuple[Replica, ...]
    spec: Any
    document: Object
    _computed: dict[object, Any] = msgspec.field(default_factory=dict)

    @classmethod
    def of(
        cls,
        kind: JobKind,
        document: Object,
        spec: Any,
        run_policy: RunPolicy | None,
        specs: dict[str, ReplicaSpec],
    ) -> Job:
        """Return the view of a defaulted document; replica types that the kind does not know are ignored."""
        return cls(
            kind=kind,
            name=name_of(document),
            namespace=namespace_of(document),
            uid=uid_of(document),
            run_policy=run_policy or RunPolicy(),
            replicas=tuple(Replica.of(t, specs[t.name]) for t in kind.replica_types if t.name in specs),
            spec=spec,
            document=document,
        )

    @property
    def is_terminating(self) -> bool:
        """Whether the job is being deleted; its children then go with the garbage collector."""
        return is_terminating(self.document)

    @property
    def is_managed_elsewhere(self) -> bool:
        """Whether another controller was named; an empty name is another one too."""
        manager = self.run_policy.managed_by
        return manager is not None and manager != c.MANAGED_BY_OPERATOR

    @property
    def is_suspended(self) -> bool:
        """Whether the job must not run now."""
        return bool(self.run_policy.suspend)

    @property
    def status(self) -> Object:
        """The stored status, empty before the first write."""
        return status_of(self.document)

    @property
    def total_replicas(self) -> int:
        """The number of pods over all replica types."""
        return sum(replica.count for replica in self.replicas)

    def once(self, what: object, compute: Callable[[], T]) -> T:
        """Return what `compute` returns, which is called once per job: of a thousand pods, all are told the same.

        `what` names it among all that is computed for the job. Nothing may change the value.
        """
        if what not in self._computed:
            self._computed[what] = compute()
        value: T = self._computed[what]
        return value

    def replica(self, type_: str) -> Replica | None:
        """Return the replica type, None when the job does not have it."""
        for replica in self.replicas:
            if replica.type == type_:
                return replica
        return None

    def child_name(self, type_: str, index: int) -> str:
        """Return the name of the pod and of its service: `<job>-<type>-<index>`, or `<job>-<type>` without index."""
        stem, indexed = self.once(("stem", type_), lambda: self._stem(type_))
        return f"{stem}-{index}" if indexed else stem

    def _stem(self, type_: str) -> tuple[str, bool]:
        """Return what the names of the children of a type begin with, and whether an index follows."""
        return f"{self.name}-{type_.lower()}".replace("/", "-"), self.kind.replica_type(type_).indexed

    def labels(self) -> dict[str, str]:
        """Return the labels that every child has."""
        return {
            c.LABEL_OPERATOR_NAME: self.kind.controller_name,
            c.LABEL_JOB_NAME: self.name.replace("/", "-"),
        }

    def child_labels(self, type_: str, index: int) -> dict[str, str]:
        """Return the labels that pick out one replica; also the selector of its service."""
        common, indexed = self.once(("labels", type_), lambda: self._labels_of(type_))
        return {**common, c.LABEL_REPLICA_INDEX: str(index)} if indexed else dict(common)

    def _labels_of(self, type_: str) -> tuple[dict[str, str], bool]:
        """Return the labels that all children of a type have, and whether an index is added."""
        common = {**self.labels(), c.LABEL_REPLICA_TYPE: type_.lower()}
        return common, self.kind.replica_type(type_).indexed

    def selector(self, type_: str) -> str:
        """Return the label selector of all pods of one replica type as text, keys in order."""
        labels = {**self.labels(), c.LABEL_REPLICA_TYPE: type_.lower()}
        return ",".join(f"{key}={labels[key]}" for key in sorted(labels))

    def owner_reference(self) -> Object:
        """Return the reference that makes this job the controller of a child. All children share it."""
        return self.once("owner", self._owner_reference)

    def _owner_reference(self) -> Object:
        return {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.name,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
