"""A job of `kubeflow.org/v1`: defaulted, typed, with the names and labels of its replicas."""

from __future__ import annotations

from typing import Any

from trainshed.api.replicated import JobKind, ReplicaType
from trainshed.api.v1.replicas import ReplicaSpec
from trainshed.api.v1.runpolicy import RunPolicy
from trainshed.api.v1.validation import MAX_REPLICAS
from trainshed.jobs.engine import constants as c
from trainshed.jobs.engine import job as engine
from trainshed.jobs.engine.job import Replica
from trainshed.kube.meta.objects import Object, name_of, namespace_of, uid_of


class Job(engine.Job, frozen=True, kw_only=True):
    """One job. `spec` is the kind's typed spec."""

    kind: JobKind
    run_policy: RunPolicy
    spec: Any

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
            replicas=tuple(_replica(t, specs[t.name]) for t in kind.replica_types if t.name in specs),
            spec=spec,
            document=document,
        )

    def child_name(self, type_: str, index: int) -> str:
        """Return the name of the pod and of its service: `<job>-<type>-<index>`, or `<job>-<type>` without index."""
        stem, indexed = self.once(("stem", type_), lambda: self._stem(type_))
        return f"{stem}-{index}" if indexed else stem

    def _stem(self, type_: str) -> tuple[str, bool]:
        """Return what the names of the children of a type begin with, and whether an index follows."""
        return f"{self.name}-{type_.lower()}".replace("/", "-"), self.kind.replica_type(type_).indexed

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


def _replica(type_: ReplicaType, spec: ReplicaSpec) -> Replica:
    """Return the replica of a defaulted spec; a negative count is none.

    There are slots for as many as a job may have: nothing asks `scale` whether its count is one.
    """
    count = max(spec.replicas or 0, 0)
    return Replica(
        type=type_.name,
        count=count,
        slots=min(count, MAX_REPLICAS),
        restart_policy=spec.restart_policy or "",
        template=spec.template or {},
        indexed=type_.indexed,
    )
