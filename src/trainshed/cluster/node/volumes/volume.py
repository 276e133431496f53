"""What every type of volume declares, and what is known when one is set up.

A type is a `FileVolume` or a `DirectoryVolume` in a file of its own, and a line in `registry`; nothing else
knows it. It says which objects it needs, what of it this node does not honour, and its files or its directory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from trainshed.cluster.node.podfields import NodeFacts
from trainshed.cluster.node.references import Reference, References
from trainshed.cluster.node.volumes.files import File
from trainshed.cluster.node.volumes.tokens import Token, TokenRequest
from trainshed.kube.meta.objects import Object, section

Source: TypeAlias = Mapping[str, Any]
"""What stands below the type's field in a pod: `{"name": "cm"}` of `configMap: {name: cm}`."""


class MountError(Exception):
    """A volume cannot be set up (yet). The pod waits; its FailedMount event carries this text, and one more each the
    texts of `others` of the pod."""

    def __init__(self, message: str, *others: str) -> None:
        super().__init__(message)
        self.others = others


class ClaimPending(MountError):
    """The claim is about to be bound: normal for a moment after a pod that is its first consumer."""


class Volume(msgspec.Struct, frozen=True):
    """A volume that is ready: the host's directory (or file, of a hostPath).

    With `memory_bytes` there is a file system in memory of that size at it, for this pod only. `owned`: its files are
    handed to the pod's `fsGroup`; where the pod says OnRootMismatch, those of one that is `lasting` only
    if its root is not. `image` is the source of one that is an image, whose directories are found later.
    """

    source: Path
    read_only: bool = False
    memory_bytes: int = 0
    owned: bool = False
    lasting: bool = False
    image: Source | None = None


def fs_group(pod: Object) -> int | None:
    """Return the group that a pod's volumes are handed to, if any."""
    found = section(pod["spec"], "securityContext").get("fsGroup")
    return None if found is None else int(found)


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """One volume of a pod, and what there is to set it up with.

    `disk` is where this volume may keep files: below a directory of the pod's, which is below one of all pods. It need
    not exist. `references` and `tokens` hold what the type asked for.
    """

    pod: Object
    name: str
    source: Source
    node: NodeFacts
    references: References
    tokens: Mapping[TokenRequest, Token]
    disk: Path


class VolumeType(ABC):
    """One field of the API's `Volume`. All methods but those of the two kinds below are pure."""

    field: str
    """As a pod spells it."""

    def referenced(self, pod: Object, name: str, source: Source) -> Iterable[Reference]:
        """Return the objects to read before the volume `name` of `pod` is set up, optional ones included."""
        return ()

    def token_requests(self, source: Source) -> Iterable[TokenRequest]:
        """Return the service account tokens to obtain before."""
        return ()

    def unsupported(self, source: Source) -> Iterable[tuple[str, str]]:
        """Return (path below the field, why) of what this node does not honour; the path may be empty."""
        return ()


class FileVolume(VolumeType):
    """A type whose content the node writes and keeps up to date; containers see it read-only."""

    @abstractmethod
    def files(self, setup: Setup) -> dict[str, File]:
        """Return the files by relative path. Raises MountError."""


class DirectoryVolume(VolumeType):
    """A type that is a directory of the host."""

    @abstractmethod
    def directory(self, setup: Setup) -> Volume:
        """Return the directory, made if needed. Raises MountError or OSError."""
