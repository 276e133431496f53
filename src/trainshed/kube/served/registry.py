"""Which resources the server serves: built-in kinds and the kinds that CustomResourceDefinitions add.

`RESOURCES` (`kube.builtin.registry`) is data; `Registry` answers the questions a request asks ("what is
/apis/batch/v1/jobs?") and keeps groups and versions in the order of preference that clients see in
discovery: the first match of a short name wins, so the order is part of the interface.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from trainshed.kube.builtin.registry import RESOURCES
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


class Registry:
    """The served resources. Mutated only by `add` and `remove`; `revision` grows with every change."""

    def __init__(self, builtins: Iterable[ResourceInfo] = RESOURCES) -> None:
        self._infos: dict[tuple[str, str, str], ResourceInfo] = {}
        self._crds: dict[str, tuple[ResourceInfo, ...]] = {}
        self._builtin_groups: dict[str, dict[str, None]] = {}
        self.revision = 0
        for info in builtins:
            group, version = info.group_version
            self._builtin_groups.setdefault(group, {})[version] = None
            self._insert(info)

    def _insert(self, info: ResourceInfo) -> None:
        resource = info.resource
        self._infos[(resource.group, resource.version, resource.plural)] = info

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

    def _is_builtin(self, resource: Resource) -> bool:
        held = self._infos.get((resource.group, resource.version, resource.plural))
        return held is not None and not held.crd

    def _drop(self, crd_name: str) -> bool:
        dropped = self._crds.pop(crd_name, ())
        for info in dropped:
            resource = info.resource
            self._infos.pop((resource.group, resource.version, resource.plural), None)
        return bool(dropped)

    def get(self, group: str, version: str, plural: str) -> ResourceInfo | None:
        """Return the resource at a path, or None."""
        return self._infos.get((group, version, plural))

    def has_group(self, group: str) -> bool:
        """Return whether any resource of the group is served."""
        return any(key[0] == group for key in self._infos)

    def groups(self) -> list[str]:
        """Return the groups in order of preference: built-in ones as listed, then CRD groups by name."""
        extra = {info.resource.group for infos in self._crds.values() for info in infos}
        return [*self._builtin_groups, *sorted(extra - set(self._builtin_groups))]

    def versions(self, group: str) -> list[str]:
        """Return the served versions of a group, preferred first."""
        builtin = list(self._builtin_groups.get(group, {}))
        extra = {key[1] for key in self._infos if key[0] == group} - set(builtin)
        return [*builtin, *sorted(extra, key=version_priority)]

    def resources(self, group: str, version: str) -> list[ResourceInfo]:
        """Return the resources of a group and version: built-ins as listed, then CRDs by plural."""
        found = [info for info in self._infos.values() if info.group_version == (group, version)]
        return sorted(found, key=lambda info: (info.crd, info.resource.plural if info.crd else ""))

    def __iter__(self) -> Iterator[ResourceInfo]:
        for group in self.groups():
            for version in self.versions(group):
                yield from self.resources(group, version)

    def stored(self) -> list[ResourceInfo]:
        """Return one resource per kind of stored object: views left out, CRs in their storage version."""
        return [
            info
            for info in self
            if info.stored and info.view_of is None and info.storage_version in ("", info.resource.version)
        ]
