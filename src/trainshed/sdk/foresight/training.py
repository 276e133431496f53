"""What makes a training job hang or fail although every field of it is right."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trainshed.api.registry import KINDS
from trainshed.kube.meta.objects import objects, section
from trainshed.sdk.foresight.commands import words
from trainshed.sdk.foresight.findings import Noted
from trainshed.sdk.foresight.templates import PodTemplate
from trainshed.sdk.foresight.world import World

_LOADERS = re.compile(r"(?:num|loader|dataloader)[-_]?(?:num[-_]?)?workers?[= ]+([1-9][0-9]*)")
_SHARED = "/dev/shm"  # noqa: S108  (a path in a pod)
_INJECT = ("sidecar.istio.io/inject", "linkerd.io/inject")
_NAMESPACE_INJECTS = {"istio-injection": "enabled", "linkerd.io/inject": "enabled"}


def small_shared_memory(template: PodTemplate, world: World) -> Iterator[Noted]:
    """Yield the containers whose data loaders share 64 MiB, as containers of a cluster have them.

    Here they have the machine's own: nothing is in the way until the manifest is taken to a cluster.
    """
    for path, container in template.containers():
        match = _LOADERS.search(" ".join(words(container)))
        mounted = any(mount.get("mountPath") == _SHARED for mount in objects(container, "volumeMounts"))
        if match is not None and not mounted:
            share = f"{match[1]} data loader workers share"
            yield Noted(
                "TS405" if world.is_local else "TS401",
                f"{path}.volumeMounts",
                f"{share} this machine's /dev/shm, and 64 MiB on a cluster (Bus error)"
                if world.is_local
                else f"{share} a /dev/shm of 64 MiB (Bus error)",
                "mount an emptyDir with `medium: Memory` at /dev/shm",
            )


def colliding_ports(found: Sequence[PodTemplate], world: World) -> Iterator[Noted]:
    """Yield the replicas with the node's network that meet each other on a node."""
    on_host = [t for t in found if t.spec.get("hostNetwork") is True]
    nodes = len(world.nodes) if world.nodes is not None else None
    count = sum(t.count for t in on_host)
    if count > 1 and nodes is not None and nodes < count:
        yield Noted(
            "TS402",
            f"{on_host[0].path}spec.hostNetwork",
            f"{count} replicas share the network of {nodes} node{'s' if nodes > 1 else ''} and listen on the same port",
            "leave hostNetwork out",
        )


def port_elsewhere(template: PodTemplate, world: World) -> Iterator[Noted]:
    """Yield the job's port where it stands in a container whose ports are not looked at."""
    kind = KINDS.get(str(template.owner.get("kind")))
    port, trains = getattr(kind, "port", None), getattr(kind, "container_name", "")
    if port is None:
        return
    for path, container in template.containers():
        for index, each in enumerate(objects(container, "ports")):
            if each.get("name") == port.name and container.get("name") != trains:
                yield Noted(
                    "TS403",
                    f"{path}.ports[{index}]",
                    f"{port.name} is read from the container {trains}; the job uses {port.number}",
                    f"name it in {trains}",
                )


def injected_sidecars(template: PodTemplate, world: World) -> Iterator[Noted]:
    """Yield the templates into whose pods a service mesh puts a container that does not end."""
    metadata = section(template.pod, "metadata")
    told = {**section(metadata, "labels"), **section(metadata, "annotations")}
    if any(str(told.get(key)).lower() in ("false", "disabled") for key in _INJECT):
        return
    asked = next((k for k in _INJECT if str(told.get(k)).lower() in ("true", "enabled")), "")
    namespace = world.found.get(world.key("Namespace", "", template.namespace or world.namespace)) or {}
    labels = section(namespace, "metadata", "labels")
    by_namespace = any(labels.get(key) == value for key, value in _NAMESPACE_INJECTS.items())
    if asked or by_namespace:
        why = f"{asked} asks for it" if asked else "the namespace's label asks for it"
        yield Noted(
            "TS404",
            f"{template.path}metadata.annotations",
            f"a mesh's sidecar is put into the pods, which then never end ({why})",
            'annotate the template with `sidecar.istio.io/inject: "false"`',
        )
