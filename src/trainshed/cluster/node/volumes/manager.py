"""The volumes of one pod, put together: write the files of each, say where it is.

Runs again whenever a referenced object may have changed: files change atomically, directories stay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from trainshed.cluster.node.paths import NodePaths
from trainshed.cluster.node.podfields import NodeFacts
from trainshed.cluster.node.references import References
from trainshed.cluster.node.volumes import atomic
from trainshed.cluster.node.volumes.files import File
from trainshed.cluster.node.volumes.registry import Declared, declared, token_requests
from trainshed.cluster.node.volumes.tokens import IssueToken, Token, TokenRequest, Tokens
from trainshed.cluster.node.volumes.volume import (
    ClaimPending,
    DirectoryVolume,
    FileVolume,
    MountError,
    Setup,
    Volume,
    fs_group,
)
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object

_Tokens = Mapping[TokenRequest, Token]
_GROUP_READS = 0o440


def _readable(pod: Object, files: Mapping[str, File]) -> Mapping[str, File]:
    """Return the files so that the pod's `fsGroup` may read them, if it has one."""
    if fs_group(pod) is None:
        return files
    return {path: File(file.content, file.mode | _GROUP_READS) for path, file in files.items()}


class VolumeManager:
    """The volumes of pod `uid`. `prepare` and `update` may be called any number of times, one after the other."""

    def __init__(self, paths: NodePaths, uid: str, node: NodeFacts, issue_token: IssueToken) -> None:
        self._paths = paths
        self._uid = uid
        self._node = node
        self._tokens = Tokens(issue_token)

    @property
    def refresh_at(self) -> float | None:
        """When `update` should run again because a token grows old."""
        return self._tokens.refresh_at

    async def prepare(self, pod: Object, references: References) -> dict[str, Volume]:
        """Return every volume by name, ready to be mounted. Raises MountError naming the volume."""
        tokens = await self._obtain_tokens(pod)
        # Making files may wait for a disk that others keep busy: not on the event loop.
        return await asyncio.to_thread(self._prepare_all, pod, references, tokens)

    def _prepare_all(self, pod: Object, references: References, tokens: _Tokens) -> dict[str, Volume]:
        out = {}
        for volume in declared(pod):
            try:
                out[volume.name] = self._prepare_one(pod, volume, references, tokens)
            except (MountError, OSError) as error:
                kind = ClaimPending if isinstance(error, ClaimPending) else MountError
                raise kind(f'MountVolume.SetUp failed for volume "{volume.name}" : {error}') from error
        return out

    def _prepare_one(self, pod: Object, volume: Declared, references: References, tokens: _Tokens) -> Volume:
        setup = self._setup(pod, volume, references, tokens)
        if isinstance(volume.type, FileVolume):
            atomic.write(setup.disk, _readable(pod, volume.type.files(setup)))
            return Volume(setup.disk, read_only=True, owned=True)
        assert isinstance(volume.type, DirectoryVolume)
        return volume.type.directory(setup)

    async def update(self, pod: Object, references: References) -> None:
        """Write changed objects into the volumes that show them. Nothing happens to a volume whose object
        is missing now: a running pod keeps what it has."""
        tokens = await self._obtain_tokens(pod)
        await asyncio.to_thread(self._update_all, pod, references, tokens)

    def _update_all(self, pod: Object, references: References, tokens: _Tokens) -> None:
        for volume in declared(pod):
            if not isinstance(volume.type, FileVolume):
                continue
            setup = self._setup(pod, volume, references, tokens)
            try:
                files = volume.type.files(setup)
            except MountError:
                continue
            atomic.write(setup.disk, _readable(pod, files))

    def _setup(self, pod: Object, volume: Declared, references: References, tokens: _Tokens) -> Setup:
        return Setup(
            pod=pod,
            name=volume.name,
            source=volume.source,
            node=self._node,
            references=references,
            tokens=tokens,
            disk=self._paths.volumes(self._uid) / volume.name,
        )

    async def _obtain_tokens(self, pod: Object) -> _Tokens:
        try:
            return await self._tokens.obtain(pod, token_requests(pod))
        except ApiError as error:
            raise MountError(f"failed to fetch token: {error}") from error
