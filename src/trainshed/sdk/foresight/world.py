"""What is known of the place where manifests shall run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from trainshed.cluster.images.directories import Image, ImageProblem, find
from trainshed.cluster.node.pod.unsupported import Capabilities
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.kube.meta.objects import Object, name_of, namespace_of

CLUSTER_SCOPED = frozenset({"Namespace", "PriorityClass", "PersistentVolume", "StorageClass"})


class World(msgspec.Struct, frozen=True, kw_only=True):
    """What is known. A part that is None is not known, and no rule says anything that needs it.

    Attributes:
        namespace: of objects that name none.
        found: (kind, namespace, name) → the object that was looked for, None where there is none. Objects of the
            cluster have an empty namespace. What was not looked for is not in it.
        nodes: the nodes.
        images: the registered images by normalised name, where images are directories of this machine.
        schedulers: who places pods.
        operator: how the operator was started.
        capabilities: what sandboxes can do, where pods are sandboxes of this machine.
    """

    namespace: str = "default"
    found: Mapping[tuple[str, str, str], Object | None] = {}
    nodes: Sequence[Object] | None = None
    images: Mapping[str, Image] | None = None
    schedulers: frozenset[str] | None = None
    operator: OperatorOptions | None = None
    capabilities: Capabilities | None = None

    @property
    def is_local(self) -> bool:
        """Whether pods are sandboxes of this machine."""
        return self.capabilities is not None

    def with_objects(self, objects: Sequence[Object]) -> World:
        """Return the world with these objects in it: what comes in the same files is there in time."""
        there = {self.key(str(obj["kind"]), namespace_of(obj), name_of(obj)): obj for obj in objects}
        return msgspec.structs.replace(self, found={**self.found, **there})

    def without(self, wanted: Iterable[tuple[str, str, str]]) -> World:
        """Return the world in which it is known that there are no objects of these kinds, namespaces and names."""
        gone = {self.key(*each): None for each in wanted}
        return msgspec.structs.replace(self, found={**gone, **self.found})

    def key(self, kind: str, namespace: str, name: str) -> tuple[str, str, str]:
        """Return the key of an object in `found`."""
        return kind, "" if kind in CLUSTER_SCOPED else namespace or self.namespace, name

    def is_missing(self, kind: str, namespace: str, name: str) -> bool:
        """Return whether it is known that there is no such object."""
        return self.found.get(self.key(kind, namespace, name), ...) is None

    def image(self, name: str) -> Image | None:
        """Return what stands for an image here, None for nothing."""
        try:
            return find(self.images or {}, name)
        except ImageProblem:
            return None
