"""The volumes of one pod, put together: read what they refer to, write their files, say where they are.

Runs again whenever a referenced object may have changed: files change atomically, directories stay.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from trainshed.client.client import Client
from trainshed.cluster.node.podfields import NodeFacts
from trainshed.cluster.node.references import References, claim_name
from trainshed.cluster.node.volumes import atomic
from trainshed.cluster.node.volumes.claim import claimed_directory
from trainshed.cluster.node.volumes.configmap import configmap_files, secret_files
from trainshed.cluster.node.volumes.downward_api import downward_files
from trainshed.cluster.node.volumes.empty_dir import empty_dir, memory_root
from trainshed.cluster.node.volumes.host_path import host_path
from trainshed.cluster.node.volumes.mounts import Volume
from trainshed.cluster.node.volumes.projected import (
    REFRESH_FRACTION,
    Token,
    TokenRequest,
    projected_files,
    token_requests,
)
from trainshed.cluster.node.volumes.volume import ClaimPending, MountError
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.times import parse_time

SUPPORTED = (
    "emptyDir",
    "hostPath",
    "persistentVolumeClaim",
    "ephemeral",
    "configMap",
    "secret",
    "downwardAPI",
    "projected",
)
IssueToken = Callable[[Object, TokenRequest], Awaitable[Token]]


def token_issuer(client: Client) -> IssueToken:
    """Return a function that asks the API server for a token bound to a pod."""

    async def issue(pod: Object, request: TokenRequest) -> Token:
        metadata = pod["metadata"]
        asked = time.time()
        answer = await client.create_token(
            pod["spec"].get("serviceAccountName") or "default",
            metadata["namespace"],
            audiences=[request.audience] if request.audience else [],
            expiration_seconds=request.expiration_seconds,
            bound_pod={"name": metadata["name"], "uid": metadata["uid"]},
        )
        expires = parse_time(answer["status"]["expirationTimestamp"])
        return Token(answer["status"]["token"], asked + (expires - asked) * REFRESH_FRACTION)

    return issue


class VolumeManager:
    """The volumes of one pod below `directory`. `prepare` and `update` may be called any number of times, one
    after the other."""

    def __init__(self, directory: Path, uid: str, node: NodeFacts, issue_token: IssueToken) -> None:
        self._directory = directory
        self._uid = uid
        self._node = node
        self._issue_token = issue_token
        self._tokens: dict[TokenRequest, Token] = {}

    @property
    def refresh_at(self) -> float | None:
        """When `prepare` should run again because a token grows old."""
        return min((t.refresh_at for t in self._tokens.values()), default=None)

    async def prepare(self, pod: Object, references: References) -> dict[str, Volume]:
        """Return every volume by name, ready to be mounted. Raises MountError naming the volume."""
        await self._renew_tokens(pod)
        # Making files may wait for a disk that others keep busy: not on the event loop.
        return await asyncio.to_thread(self._prepare_all, pod, references)

    def _prepare_all(self, pod: Object, references: References) -> dict[str, Volume]:
        out = {}
        for volume in pod["spec"].get("volumes") or ():
            try:
                out[volume["name"]] = self._prepare_one(pod, volume, references)
            except (MountError, OSError) as error:
                kind = ClaimPending if isinstance(error, ClaimPending) else MountError
                raise kind(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}') from error
        return out

    async def update(self, pod: Object, references: References) -> None:
        """Write changed objects into the volumes that show them. Nothing happens to a volume whose object
        is missing now: a running pod keeps what it has."""
        await self._renew_tokens(pod)
        await asyncio.to_thread(self._update_all, pod, references)

    def _update_all(self, pod: Object, references: References) -> None:
        for volume in pod["spec"].get("volumes") or ():
            try:
                files = self._files(pod, volume, references)
            except MountError:
                continue
            if files is not None:
                atomic.write(self._path(volume["name"]), files)

    def _prepare_one(self, pod: Object, volume: Mapping[str, Any], references: References) -> Volume:
        files = self._files(pod, volume, references)
        if files is not None:
            path = self._path(volume["name"])
            atomic.write(path, files)
            return Volume(path, read_only=True)
        if "hostPath" in volume:
            return Volume(host_path(volume["hostPath"]))
        claim = claim_name(pod, volume)
        if claim is not None:
            path, read_only = claimed_directory(claim, references, self._uid)
            own = bool((volume.get("persistentVolumeClaim") or {}).get("readOnly"))
            return Volume(path, read_only or own)
        kinds = [kind for kind in volume if kind != "name"]
        if kinds and kinds[0] != "emptyDir":
            raise MountError(f"volume type {kinds[0]} is not supported by this node")
        source = volume.get("emptyDir") or {}
        memory = memory_root(self._uid) / volume["name"]
        return Volume(empty_dir(source, self._path(volume["name"]), memory))

    def _files(
        self, pod: Object, volume: Mapping[str, Any], references: References
    ) -> dict[str, atomic.File] | None:
        """Return the files of a volume that consists of files, else None."""
        namespace = pod["metadata"].get("namespace", "")
        if "configMap" in volume:
            return configmap_files(volume["configMap"], references, namespace)
        if "secret" in volume:
            return secret_files(volume["secret"], references, namespace)
        if "downwardAPI" in volume:
            return downward_files(volume["downwardAPI"], pod, self._node)
        if "projected" in volume:
            return projected_files(volume["projected"], pod, self._node, references, self._tokens)
        return None

    def _path(self, name: str) -> Path:
        return self._directory / name

    async def _renew_tokens(self, pod: Object) -> None:
        wanted = {
            request
            for volume in pod["spec"].get("volumes") or ()
            for request in token_requests(volume.get("projected") or {})
        }
        now = time.time()
        due = [r for r in wanted if r not in self._tokens or self._tokens[r].refresh_at <= now]
        try:
            issued = await asyncio.gather(*(self._issue_token(pod, request) for request in due))
        except ApiError as error:
            if all(request in self._tokens for request in due):
                # Still valid: keep it and ask again in a minute.
                self._tokens.update({r: Token(self._tokens[r].text, now + 60) for r in due})
                return
            raise MountError(f"failed to fetch token: {error}") from error
        self._tokens.update(zip(due, issued, strict=True))
