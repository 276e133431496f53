"""configMap volumes: each key of a ConfigMap as a file. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from trainshed.cluster.node import podfields
from trainshed.cluster.node.references import Reference, References
from trainshed.cluster.node.volumes.files import DEFAULT_MODE, File, select
from trainshed.cluster.node.volumes.volume import FileVolume, MountError, Setup, Source
from trainshed.kube.meta.objects import Object


class ConfigMapVolume(FileVolume):
    """A ConfigMap of the pod's namespace."""

    field = "configMap"

    def referenced(self, pod: Object, name: str, source: Source) -> Iterable[Reference]:
        yield "configmaps", source.get("name", "")

    def files(self, setup: Setup) -> dict[str, File]:
        return configmap_files(setup.source, setup.references, setup.pod["metadata"].get("namespace", ""))


def configmap_files(
    source: Source, references: References, namespace: str, default_mode: int = DEFAULT_MODE
) -> dict[str, File]:
    """Return the files of a configMap source, in a volume or projected. Raises MountError."""
    name = source.get("name", "")
    obj = references.get("configmaps", name)
    if obj is None:
        if source.get("optional"):
            return {}
        raise MountError(f'configmap "{name}" not found')
    try:
        return select(podfields.configmap_bytes(obj), source, default_mode)
    except ValueError as error:
        raise MountError(f"configmap {namespace}/{name}: {error}") from error
