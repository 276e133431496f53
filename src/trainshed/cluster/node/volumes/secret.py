"""secret volumes: each key of a Secret as a file. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from trainshed.cluster.node import podfields
from trainshed.cluster.node.references import Reference, References
from trainshed.cluster.node.volumes.files import DEFAULT_MODE, File, select
from trainshed.cluster.node.volumes.volume import FileVolume, MountError, Setup, Source
from trainshed.kube.meta.objects import Object


class SecretVolume(FileVolume):
    """A Secret of the pod's namespace."""

    field = "secret"

    def referenced(self, pod: Object, name: str, source: Source) -> Iterable[Reference]:
        yield "secrets", source.get("secretName", "")

    def files(self, setup: Setup) -> dict[str, File]:
        return secret_files(setup.source, setup.references, setup.pod["metadata"].get("namespace", ""))


def secret_files(
    source: Source, references: References, namespace: str, default_mode: int = DEFAULT_MODE
) -> dict[str, File]:
    """Return the files of a secret source (`secretName` in a volume, `name` when projected). Raises MountError."""
    name = source.get("secretName") or source.get("name", "")
    obj = references.get("secrets", name)
    if obj is None:
        if source.get("optional"):
            return {}
        raise MountError(f'secret "{name}" not found')
    try:
        return select(podfields.secret_bytes(obj), source, default_mode)
    except ValueError as error:
        raise MountError(f"secret {namespace}/{name}: {error}") from error
