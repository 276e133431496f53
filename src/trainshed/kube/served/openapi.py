"""OpenAPI v3 documents, one per group and version, and the root that names them.

kubectl reads them before almost every write: a `patch` operation that carries the kind and takes
`fieldValidation` is how it learns that the server validates (KEP-2885), the schemas are what `explain`
prints. The root names each document with a hash of its content, so clients keep a document for as long as
its hash stands: the hash has to change when a CRD does.

OpenAPI v2 is the same in another form, and in one document, for kubectl before 1.27, Helm and generators of clients.

Documents are made when they are asked for, in some ten milliseconds, and not kept: they have megabytes, and clients
that ask often keep them.
"""

from __future__ import annotations

import hashlib

import msgspec

from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resourceinfo import ResourceInfo
from trainshed.kube.schema.definitions import KUBERNETES_MINOR
from trainshed.kube.served import openapi_v2
from trainshed.kube.served.openapi_paths import gv_path, paths, referred
from trainshed.kube.served.openapi_schemas import components
from trainshed.kube.served.registry import Registry

_FORMAT = 2  # raise when the way documents are built changes, so that cached copies are dropped


class OpenAPI:
    """The documents of a registry, whose hashes are kept until its resources change."""

    def __init__(self, registry: Registry, version: str) -> None:
        self._registry = registry
        self._version = version
        self._hashes: dict[tuple[str, str], str] = {}
        self._revision = -1

    def root(self) -> Object:
        """Return the document at `/openapi/v3`."""
        paths: Object = {}
        for group in self._registry.groups():
            for version in self._registry.versions(group):
                path = gv_path(group, version)
                if self._unknown(group, version):
                    continue
                digest = self.hash(group, version)
                paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        return {"paths": paths}

    def _unknown(self, group: str, version: str) -> bool:
        """Return whether another server serves this, and says nothing of its schemas."""
        external = self._registry.external(group, version)
        return external is not None and not external.openapi

    def hash(self, group: str, version: str) -> str:
        """Return the hash that names the document of a group and version at this moment."""
        if self._revision != self._registry.revision:
            self._revision = self._registry.revision
            self._hashes.clear()
        key = (group, version)
        if key not in self._hashes:
            external = self._registry.external(group, version)
            if external is not None:
                text = external.openapi
            else:
                infos = self._registry.resources(group, version)
                text = msgspec.json.encode([_FORMAT, KUBERNETES_MINOR, self._version, infos], order="sorted")
            self._hashes[key] = hashlib.sha256(text).hexdigest().upper()
        return self._hashes[key]

    def document(self, group: str, version: str) -> bytes | None:
        """Return the encoded document of a group and version, or None when it is not served."""
        external = self._registry.external(group, version)
        if external is not None:
            return external.openapi or None
        infos = self._registry.resources(group, version)
        if not infos:
            return None
        return msgspec.json.encode(build(infos, self._version))

    def has(self, group: str, version: str) -> bool:
        """Return whether there is a document of a group and version."""
        external = self._registry.external(group, version)
        return bool(external.openapi if external is not None else self._registry.resources(group, version))

    def whole_hash(self, *, protobuf: bool) -> str:
        """Return the hash of the document of version 2 at this moment."""
        hashes = [self.hash(group, version) for group, version in self._own()]
        return hashlib.sha256(" ".join([*hashes, str(protobuf)]).encode()).hexdigest().upper()

    def whole(self, *, protobuf: bool) -> bytes:
        """Return the encoded document of version 2. What other servers serve is not in it: they publish version 3."""
        groups = [self._registry.resources(group, version) for group, version in self._own()]
        return openapi_v2.encoded(groups, self._version, protobuf=protobuf)

    def _own(self) -> list[tuple[str, str]]:
        found = [(g, v) for g in self._registry.groups() for v in self._registry.versions(g)]
        return [gv for gv in found if self._registry.external(*gv) is None]


def build(infos: list[ResourceInfo], version: str) -> Object:
    """Return the document of one group and version; `infos` are its resources, at least one."""
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": dict(paths(infos)),
        "components": {"schemas": components(infos, referred(infos))},
    }
