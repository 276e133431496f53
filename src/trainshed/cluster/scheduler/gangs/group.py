"""A PodGroup of either API as a value, and which group a pod belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TypeAlias

import msgspec

from trainshed.kube.meta.objects import Object, name_of, namespace_of, section, texts
from trainshed.kube.meta.podgroups import (
    COSCHEDULING_GROUP_LABEL,
    COSCHEDULING_PODGROUPS,
    VOLCANO_GROUP_ANNOTATION,
    VOLCANO_PODGROUPS,
)
from trainshed.kube.meta.resources import Resource

Unit: TypeAlias = tuple[str, str, str]
"""What is decided at once: the API group of a PodGroup, or nothing for a single pod; namespace; name."""

RESOURCES = {resource.group: resource for resource in (VOLCANO_PODGROUPS, COSCHEDULING_PODGROUPS)}


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """One PodGroup.

    `min_member` pods must fit before any starts, and `min_resources` be free, in base units. `priority` is None where
    that of the pods counts. `timeout`: seconds after which a group that still waits is told of, or None. `created`: as
    the API writes times.
    """

    resource: Resource
    namespace: str
    name: str
    min_member: int
    min_resources: Mapping[str, Decimal] = {}
    queue: str = ""
    priority: int | None = None
    timeout: float | None = None
    created: str = ""

    @property
    def unit(self) -> Unit:
        """The group as what is decided at once."""
        return self.resource.group, self.namespace, self.name

    def __str__(self) -> str:
        return f"pod group {self.namespace}/{self.name}"


class Counts(msgspec.Struct, frozen=True):
    """How many pods of a group there are, have got a node, and are in which phase."""

    pods: int = 0
    placed: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0


def unit_of(pod: Object) -> Unit:
    """Return the group that a pod says it belongs to, else the pod itself. Volcano's mark comes first."""
    metadata = section(pod, "metadata")
    namespace = namespace_of(pod)
    if name := texts(metadata, "annotations").get(VOLCANO_GROUP_ANNOTATION):
        return VOLCANO_PODGROUPS.group, namespace, name
    if name := texts(metadata, "labels").get(COSCHEDULING_GROUP_LABEL):
        return COSCHEDULING_PODGROUPS.group, namespace, name
    return "", namespace, name_of(pod)
