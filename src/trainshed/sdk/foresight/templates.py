"""The pods that an object makes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trainshed.jobs.engine.constants import LABEL_REPLICA_TYPE
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, labels_of, name_of, namespace_of, objects, section, spec_of
from trainshed.kube.meta.pods import find_container
from trainshed.sdk.errors import UserError
from trainshed.sdk.render import render

_WITH_TEMPLATE = {
    "apps/v1": ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"),
    "batch/v1": ("Job",),
    "v1": ("ReplicationController",),
}


class PodTemplate(msgspec.Struct, frozen=True):
    """A pod, or the template of some.

    Attributes:
        owner: the object that has it.
        path: what leads to its `metadata` and `spec`, with a dot at the end; empty for a pod.
        pod: the template: `metadata` and `spec` of a pod.
        replica: its replica type in a training job; empty elsewhere.
        count: how many pods are made of it.
        made: the first pod that the operator makes of it, with what it adds, where the object is a valid job.
    """

    owner: Object
    path: str
    pod: Object
    replica: str = ""
    count: int = 1
    made: Object | None = None

    @property
    def namespace(self) -> str:
        """The namespace that the owner names, empty when it names none."""
        return namespace_of(self.owner)

    @property
    def label(self) -> str:
        """What to call it in a sentence."""
        return f"{self.owner['kind']} {name_of(self.owner)}"

    @property
    def spec(self) -> Object:
        """The pod's spec."""
        return spec_of(self.pod)

    def containers(self) -> Iterator[tuple[str, Object]]:
        """Yield every container with its path, those that run first first."""
        for group in ("initContainers", "containers"):
            for index, container in enumerate(objects(self.spec, group)):
                yield f"{self.path}spec.{group}[{index}]", container

    def runs_by_itself(self, container: Object) -> bool:
        """Return whether the container has a command, its own or the operator's."""
        if container.get("command") or self.made is None:
            return bool(container.get("command"))
        made = find_container(self.made, str(container.get("name")))
        return made is not None and bool(made.get("command"))

    def volumes(self) -> Iterator[tuple[str, Object]]:
        """Yield every volume with its path."""
        for index, volume in enumerate(objects(self.spec, "volumes")):
            yield f"{self.path}spec.volumes[{index}]", volume


def templates(obj: Object) -> list[PodTemplate]:
    """Return the templates in an object of a kind that makes pods; an object of any shape is taken."""
    kind, version, spec = obj.get("kind"), str(obj.get("apiVersion", "")), spec_of(obj)
    if (version, kind) == ("v1", "Pod"):
        return [PodTemplate(obj, "", obj)]
    if version.startswith("kubeflow.org/"):
        return list(_of_training(obj, spec))
    if (version, kind) == ("batch/v1", "CronJob"):
        found = section(spec, "jobTemplate", "spec", "template")
        return [PodTemplate(obj, "spec.jobTemplate.spec.template.", found)] if found else []
    if kind in _WITH_TEMPLATE.get(version, ()):
        found = section(spec, "template")
        return [PodTemplate(obj, "spec.template.", found, "", _count(spec))] if found else []
    return []


def _of_training(obj: Object, spec: Object) -> Iterator[PodTemplate]:
    made = _made(obj)
    for field, specs in spec.items():
        if not field.endswith("ReplicaSpecs") or not isinstance(specs, dict):
            continue
        for replica, each in specs.items():
            if isinstance(each, dict) and isinstance(each.get("template"), dict):
                path = f"spec.{field}[{replica}].template."
                pod = made.get(str(replica).lower())
                yield PodTemplate(obj, path, each["template"], str(replica), _count(each), pod)


def _made(job: Object) -> dict[str, Object]:
    """Return a pod of each replica type in lower case; empty for a job of which none are made."""
    try:
        rendered = render(job)
    except (ApiError, UserError):
        return {}
    pods = [obj for obj in rendered.objects if obj["kind"] == "Pod"]
    return {labels_of(pod).get(LABEL_REPLICA_TYPE, ""): pod for pod in reversed(pods)}


def _count(spec: Object) -> int:
    count = spec.get("replicas", 1)
    return count if isinstance(count, int) and not isinstance(count, bool) else 1
