"""The pods that an object makes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trainshed.kube.meta.objects import Object, name_of, namespace_of, objects, section, spec_of

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
    """

    owner: Object
    path: str
    pod: Object
    replica: str = ""
    count: int = 1

    @property
    def namespace(self) -> str:
        """The namespace that the owner names, empty when it names none."""
        return namespace_of(self.owner)

    @property
    def owner_path(self) -> str:
        """What leads to the fields beside the template, e.g. `restartPolicy`, with a dot at the end."""
        return self.path.removesuffix("template.")

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
    for field, specs in spec.items():
        if not field.endswith("ReplicaSpecs") or not isinstance(specs, dict):
            continue
        for replica, each in specs.items():
            if isinstance(each, dict) and isinstance(each.get("template"), dict):
                path = f"spec.{field}[{replica}].template."
                yield PodTemplate(obj, path, each["template"], str(replica), _count(each))


def _count(spec: Object) -> int:
    count = spec.get("replicas", 1)
    return count if isinstance(count, int) and not isinstance(count, bool) else 1
