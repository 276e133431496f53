"""Which resources the server serves: built-in kinds and the kinds that CustomResourceDefinitions add.

`RESOURCES` (`kube.builtin.registry`) is data; `Registry` answers the questions a request asks ("what is
/apis/batch/v1/jobs?") and keeps groups and versions in the order of preference that clients see in
discovery: the first match of a short name wins, so the order is part of the interface.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from trainshed.kube.builtin.registry import RESOURCES
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resourceinfo import ResourceInfo
from trainshed.kube.meta.resources import Resource

_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Return a sort key that puts the preferred version first: v2, v1, v1beta2, v1beta1, v1alpha1, others.

    Source: "Version priority" in the documentation of CustomResourceDefinition versions.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return (stage, -int(match[1]), -int(match[3] or 0), "")


CRD_PRIORITY = 1000
"""`groupPriorityMinimum` of the groups of CustomResourceDefinitions, as upstream registers them."""


class External(msgspec.Struct, frozen=True, kw_only=True):
    """A group and version that another API server serves, as an APIService says.

    Attributes:
        resources: entries of its APIResourceList when it was last asked.
        current: it answered then.
        openapi: its OpenAPI v3 document; empty when it has none.
    """

    group_priority: int
    version_priority: int
    resources: tuple[Object, ...] = ()
    current: bool = False
    openapi: bytes = b""


class Registry:
    """The served resources. Mutated only by `add`, `remove` and `delegate`; `revision` grows with every change."""

    def __init__(self, builtins: Iterable[ResourceInfo] = RESOURCES) -> None:
        self._infos: dict[str, dict[str, dict[str, ResourceInfo]]] = {}
        """By group, version and plural. A group or version of which nothing is left is not there."""
        self._crds: dict[str, tuple[ResourceInfo, ...]] = {}
        self._builtin_groups: dict[str, dict[str, None]] = {}
        self._external: Mapping[tuple[str, str], External] = {}
        self.revision = 0
        for info in builtins:
            group, version = info.group_version
            self._builtin_groups.setdefault(group, {})[version] = None
            self._insert(info)

    def _insert(self, info: ResourceInfo) -> None:
        resource = info.resource
        self._infos.setdefault(resource.group, {}).setdefault(resource.version, {})[resource.plural] = info

    def add(self, crd_name: str, infos: Iterable[ResourceInfo]) -> None:
        """Serve the resources of a CRD, replacing what the same CRD served before. Built-ins stay."""
        self._drop(crd_name)
        added = tuple(info for info in infos if not self._is_builtin(info.resource))
        if added:
            self._crds[crd_name] = added
        for info in added:
            self._insert(info)
        self.revision += 1

    def remove(self, crd_name: str) -> None:
        """Stop serving the resources of a CRD; unknown names are fine."""
        if self._drop(crd_name):
            self.revision += 1

    def delegate(self, external: Mapping[tuple[str, str], External]) -> None:
        """Leave these groups and versions to other servers: what is built in of them is not served meanwhile."""
        if external != self._external:
            self._external = dict(external)
            self.revision += 1

    def external(self, group: str, version: str) -> External | None:
        """Return what another server serves of a group and version, None where this one does."""
        return self._external.get((group, version))

    def _is_builtin(self, resource: Resource) -> bool:
        held = self._found(resource.group, resource.version, resource.plural)
        return held is not None and not held.crd

    def _found(self, group: str, version: str, plural: str) -> ResourceInfo | None:
        return self._infos.get(group, {}).get(version, {}).get(plural)

    def _drop(self, crd_name: str) -> bool:
        dropped = self._crds.pop(crd_name, ())
        for info in dropped:
            group, version, plural = info.resource.group, info.resource.version, info.resource.plural
            versions = self._infos.get(group, {})
            versions.get(version, {}).pop(plural, None)
            if not versions.get(version):
                versions.pop(version, None)
            if not versions:
                self._infos.pop(group, None)
        return bool(dropped)

    def get(self, group: str, version: str, plural: str) -> ResourceInfo | None:
        """Return the resource at a path, or None."""
        return None if (group, version) in self._external else self._found(group, version, plural)

    def has_group(self, group: str) -> bool:
        """Return whether any resource of the group is served."""
        return group in self._infos or any(key[0] == group for key in self._external)

    def builtin_groups(self) -> list[str]:
        """Return the groups of built-in kinds, as listed."""
        return list(self._builtin_groups)

    def groups(self) -> list[str]:
        """Return the groups in order of preference: built-in ones as listed, then others by priority and name."""
        extra = {info.resource.group: CRD_PRIORITY for infos in self._crds.values() for info in infos}
        for (group, _), external in self._external.items():
            extra[group] = max(extra.get(group, 0), external.group_priority)
        others = sorted(extra.keys() - self._builtin_groups.keys(), key=lambda group: (-extra[group], group))
        return [*self._builtin_groups, *others]

    def versions(self, group: str) -> list[str]:
        """Return the served versions of a group, preferred first."""
        builtin = list(self._builtin_groups.get(group, {}))
        outside = {key[1]: one.version_priority for key, one in self._external.items() if key[0] == group}
        extra = (self._infos.get(group, {}).keys() | outside.keys()) - set(builtin)
        return [*builtin, *sorted(extra, key=lambda one: (-outside.get(one, 100), version_priority(one)))]

    def resources(self, group: str, version: str) -> list[ResourceInfo]:
        """Return the resources of a group and version that are served here: built-in ones, then CRDs by plural."""
        if (group, version) in self._external:
            return []
        found = self._infos.get(group, {}).get(version, {}).values()
        return sorted(found, key=lambda info: (info.crd, info.resource.plural if info.crd else ""))

    def in_group(self, group: str) -> Iterator[ResourceInfo]:
        """Yield the resources of all versions of a group that are served here."""
        for version in self.versions(group):
            yield from self.resources(group, version)

    def __iter__(self) -> Iterator[ResourceInfo]:
        for group in self.groups():
            yield from self.in_group(group)

    def stored(self) -> list[ResourceInfo]:
        """Return one resource per kind of stored object: views left out, CRs in their storage version."""
        return [
            info
            for info in self
            if info.stored and info.view_of is None and info.storage_version in ("", info.resource.version)
        ]
