"""Volumes of which each file is a key of an object. Pure."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from trainshed.cluster.node.references import Reference, References
from trainshed.cluster.node.volumes.files import DEFAULT_MODE, File, select
from trainshed.cluster.node.volumes.volume import FileVolume, MountError, Setup, Source
from trainshed.kube.meta.objects import Object, namespace_of


class KeyedVolume(FileVolume):
    """The keys of an object of the pod's namespace. A projected source names the object by `name`."""

    resource: ClassVar[str]
    word: ClassVar[str]
    """What messages call the object."""
    named_by: ClassVar[str] = "name"
    """The field of a volume that names the object."""

    @abstractmethod
    def keys(self, obj: Object) -> dict[str, bytes]:
        """Return the content of each key. Raises ValueError where it cannot be read."""

    def referenced(self, pod: Object, name: str, source: Source) -> Iterable[Reference]:
        yield self.resource, source.get(self.named_by, "")

    def files(self, setup: Setup) -> dict[str, File]:
        return self.read(setup.source, setup.references, namespace_of(setup.pod))

    def read(
        self, source: Source, references: References, namespace: str, default_mode: int = DEFAULT_MODE
    ) -> dict[str, File]:
        """Return the files of a source, in a volume or projected. Raises MountError."""
        name = source.get(self.named_by) or source.get("name", "")
        obj = references.get(self.resource, name)
        if obj is None:
            if source.get("optional"):
                return {}
            raise MountError(f'{self.word} "{name}" not found')
        try:
            return select(self.keys(obj), source, default_mode)
        except ValueError as error:
            raise MountError(f"{self.word} {namespace}/{name}: {error}") from error
