"""One pod of a job: its template, the labels that say which replica it is, and what the phases add."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from trainshed.jobs.engine import constants as c
from trainshed.jobs.engine.job import Replica
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.jobs.v1.frameworks.base import ContainerPatch, Framework, Phase, PodPatch
from trainshed.jobs.v1.job import Job
from trainshed.kube.meta.objects import Object, metadata_of, objects, section, spec_of, texts
from trainshed.kube.meta.pods import container_named


class Conflict(Exception):
    """Two phases set the same place of a pod; the text names both and the place."""


class WritesPod(msgspec.Struct, frozen=True):
    """What writes one pod of a job: the same one each time."""

    job: Job
    framework: Framework
    phases: tuple[Phase, ...]
    replica: Replica
    index: int
    options: OperatorOptions

    def __call__(self) -> Object:
        """Return the pod: the template, over it what the phases add in their order, and what makes it this replica.

        The template's variables come first and ours are appended, so that ours win where a name repeats. What no
        phase changes is shared with the template, and with the other pods of its type: nothing may change a pod.
        """
        job, replica, template = self.job, self.replica, self.replica.template
        spec = _own_spec(template)
        labels: dict[str, str] = {}
        annotations: dict[str, str] = {}
        for patch in self._patches():
            _add(job, spec, patch)
            labels |= patch.labels
            annotations |= patch.annotations
        spec["restartPolicy"] = pod_restart_policy(replica)
        metadata: Object = {
            "name": job.child_name(replica.type, self.index),
            "namespace": job.namespace,
            "labels": _labels(job, self.framework, replica, self.index, labels, self.options),
            "ownerReferences": [job.owner_reference()],
        }
        template_metadata = metadata_of(template)
        if annotations := {**section(template_metadata, "annotations"), **annotations}:
            metadata["annotations"] = annotations
        if self.framework.copies_finalizers and template_metadata.get("finalizers"):
            metadata["finalizers"] = template_metadata["finalizers"]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def check(self) -> None:
        """Raise Conflict where two phases set the same place of the pod."""
        if len(self.phases) > 1:
            _refuse_conflicts(self.job, spec_of(self.replica.template), self.phases, self._patches())

    def _patches(self) -> list[PodPatch]:
        return [phase.patch(self.job, self.replica, self.index, self.options) for phase in self.phases]


def _own_spec(template: Object) -> Object:
    """Return the spec of a template with containers of its own; deeper parts are replaced, never changed."""
    spec = dict(spec_of(template))
    for field in ("containers", "initContainers"):
        if isinstance(spec.get(field), list):
            spec[field] = [dict(one) if isinstance(one, dict) else one for one in spec[field]]
    return spec


def pod_restart_policy(replica: Replica) -> str:
    """Return what the node does about a failed container; under ExitCode the operator decides instead."""
    return "Never" if replica.restart_policy == "ExitCode" else replica.restart_policy


def _add(job: Job, spec: Object, patch: PodPatch) -> None:
    """Put a patch into the copy of a template's spec."""
    for part in patch.containers:
        for container in _selected(job, spec, part):
            _append(container, "env", part.env)
            _append(container, "volumeMounts", part.mounts)
            if part.command is not None:
                container["command"] = list(part.command)
            if part.args is not None:
                container["args"] = list(part.args)
    _append(spec, "initContainers", patch.init_containers)
    _append(spec, "volumes", patch.volumes)
    if patch.service_account is not None:
        spec["serviceAccountName"] = patch.service_account
    if patch.scheduler_name is not None:
        spec["schedulerName"] = patch.scheduler_name


def _append(parent: Object, field: str, more: Sequence[Object]) -> None:
    if more:
        parent[field] = [*objects(parent, field), *more]


def _selected(job: Job, spec: Object, part: ContainerPatch) -> list[Object]:
    containers = objects(spec, "containers")
    match part.of:
        case "all":
            return containers
        case "first":
            return containers[:1]
        case "init":
            return objects(spec, "initContainers")
        case "training":
            found = container_named(spec, job.kind.container_name)
            return [] if found is None else [found]


def _refuse_conflicts(job: Job, spec: Object, phases: Sequence[Phase], patches: Sequence[PodPatch]) -> None:
    claimed: dict[str, str] = {}
    for phase, patch in zip(phases, patches, strict=True):
        name = type(phase).__name__
        for place in _places(job, spec, patch):
            if claimed.setdefault(place, name) != name:
                raise Conflict(f"{claimed[place]} and {name} both set {place}")


def _places(job: Job, spec: Object, patch: PodPatch) -> Iterator[str]:
    """Yield the places of a pod that a patch sets."""
    for part in patch.containers:
        for container in _selected(job, spec, part):
            where = f"of container {container.get('name')}"
            yield from (f"variable {variable['name']} {where}" for variable in part.env)
            yield from (f"mount {mount['mountPath']} {where}" for mount in part.mounts)
            if part.command is not None:
                yield f"command {where}"
            if part.args is not None:
                yield f"args {where}"
    yield from (f"init container {container['name']}" for container in patch.init_containers)
    yield from (f"volume {volume['name']}" for volume in patch.volumes)
    yield from (f"label {key}" for key in patch.labels)
    yield from (f"annotation {key}" for key in patch.annotations)
    if patch.service_account is not None:
        yield "serviceAccountName"
    if patch.scheduler_name is not None:
        yield "schedulerName"


def _labels(
    job: Job,
    framework: Framework,
    replica: Replica,
    index: int,
    added: dict[str, str],
    options: OperatorOptions,
) -> dict[str, str]:
    ours = job.child_labels(replica.type, index)
    if framework.is_master(job, replica, index):
        ours[c.LABEL_JOB_ROLE] = c.JOB_ROLE_MASTER
    legacy = {}
    if options.legacy_labels:
        legacy = {short: ours[label] for label, short in c.LEGACY_LABELS.items() if label in ours}
    # A template may use a short name for itself; the current ones are the operator's.
    return {**legacy, **texts(metadata_of(replica.template), "labels"), **added, **ours}
