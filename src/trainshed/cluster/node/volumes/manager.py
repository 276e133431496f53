"""The volumes of one pod, put together: write the files of each, say where it is.

Runs again whenever a referenced object may have changed: files change atomically, directories stay.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeAlias

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
from trainshed.cluster.sandbox.daemon.plain.places import Places
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.pods import all_containers


def _in_text(places: Places, content: bytes) -> bytes:
    """Return a file with real paths in it; one that is no text as it is."""
    try:
        return places.in_text(content.decode()).encode()
    except UnicodeDecodeError:
        return content


_Tokens = Mapping[TokenRequest, Token]
_GROUP_READS = 0o440

Own: TypeAlias = Callable[[list[Path]], Awaitable[None]]
"""Hands directories, and what is in them, to the pod's group."""


def _readable(pod: Object, files: Mapping[str, File]) -> Mapping[str, File]:
    """Return the files so that the pod's `fsGroup` may read them, if it has one."""
    if fs_group(pod) is None:
        return files
    return {path: File(file.content, file.mode | _GROUP_READS) for path, file in files.items()}


class VolumeManager:
    """The volumes of pod `uid`. `prepare` and `update` may be called any number of times, one after the other.

    For a pod of `plain` processes, in which nothing is mounted, files of ConfigMaps name the directories themselves.
    """

    def __init__(
        self, paths: NodePaths, uid: str, node: NodeFacts, issue_token: IssueToken, *, plain: bool = False
    ) -> None:
        self._plain = plain
        self._directories: dict[str, Path] = {}
        """Of volumes that are directories of the machine, as last prepared."""
        self._paths = paths
        self._uid = uid
        self._node = node
        self._tokens = Tokens(issue_token)

    @property
    def refresh_at(self) -> float | None:
        """When `update` should run again because a token grows old."""
        return self._tokens.refresh_at

    async def prepare(self, pod: Object, references: References) -> dict[str, Volume]:
        """Return every volume by name, ready to be mounted. Raises MountError naming those that are not."""
        tokens = await self._obtain_tokens(pod)
        # Making files may wait for a disk that others keep busy: not on the event loop.
        return await asyncio.to_thread(self._prepare_all, pod, references, tokens)

    def _prepare_all(self, pod: Object, references: References, tokens: _Tokens) -> dict[str, Volume]:
        out = {}
        failed: list[tuple[str, Exception]] = []
        for volume in sorted(declared(pod), key=lambda one: isinstance(one.type, FileVolume)):
            try:
                out[volume.name] = self._prepare_one(pod, volume, references, tokens)
            except (MountError, OSError) as error:
                failed.append((f'MountVolume.SetUp failed for volume "{volume.name}" : {error}', error))
        if failed:
            pending = all(isinstance(error, ClaimPending) for _, error in failed)
            raise (ClaimPending if pending else MountError)(*(text for text, _ in failed)) from failed[0][1]
        return out

    def _prepare_one(self, pod: Object, volume: Declared, references: References, tokens: _Tokens) -> Volume:
        setup = self._setup(pod, volume, references, tokens)
        if isinstance(volume.type, FileVolume):
            atomic.write(setup.disk, self._files(pod, volume, setup))
            return Volume(setup.disk, read_only=True, owned=True)
        assert isinstance(volume.type, DirectoryVolume)
        found = volume.type.directory(setup)
        self._directories[volume.name] = found.source
        return found

    def _files(self, pod: Object, volume: Declared, setup: Setup) -> Mapping[str, File]:
        """Return the files of a volume. Raises MountError."""
        assert isinstance(volume.type, FileVolume)
        files = _readable(pod, volume.type.files(setup))
        if not self._plain or volume.type.field != "configMap":
            return files
        places = Places(self._mounted(pod))
        return {path: File(_in_text(places, file.content), file.mode) for path, file in files.items()}

    def _mounted(self, pod: Object) -> dict[str, str]:
        """Return where mount paths of the pod's containers lead; of two with one path the first."""
        found: dict[str, str] = {}
        for container in all_containers(pod):
            for mount in container.get("volumeMounts") or ():
                source = self._directories.get(mount["name"], self._paths.volumes(self._uid) / mount["name"])
                found.setdefault(mount["mountPath"], str(source / (mount.get("subPath") or "")))
        return found

    async def update(self, pod: Object, references: References, own: Own) -> None:
        """Write changed objects into the volumes that show them, from when `own` has given the pod what is new.

        Nothing happens to a volume whose object is missing now: a running pod keeps what it has.
        """
        tokens = await self._obtain_tokens(pod)
        staged = await asyncio.to_thread(self._stage_all, pod, references, tokens)
        try:
            await own([fresh for _, fresh in staged])
        except BaseException:
            for _, fresh in staged:
                shutil.rmtree(fresh, ignore_errors=True)
            raise
        for volume, fresh in staged:
            await asyncio.to_thread(atomic.show, volume, fresh)

    def _stage_all(self, pod: Object, references: References, tokens: _Tokens) -> list[tuple[Path, Path]]:
        """Return the volumes that change, each with the directory that has its new files."""
        out = []
        for volume in declared(pod):
            if not isinstance(volume.type, FileVolume):
                continue
            setup = self._setup(pod, volume, references, tokens)
            try:
                files = self._files(pod, volume, setup)
            except MountError:
                continue
            if (fresh := atomic.stage(setup.disk, files)) is not None:
                out.append((setup.disk, fresh))
        return out

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
