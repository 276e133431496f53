"""`--mount` of RUN: caches that stay, files of the context or of another stage, secrets that never reach a layer."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import msgspec

from trainshed.cluster.images.building.errors import StepError
from trainshed.cluster.images.dockerfile.steps import Mount as Asked
from trainshed.cluster.images.dockerfile.steps import RunStep
from trainshed.cluster.images.store import confined
from trainshed.cluster.sandbox.api import Mount

MAX_SECRET = 500 << 10
_SCRIPT = "/dev/trainshed-script"
Materialise = Callable[[str, str, Path], Awaitable[str]]


class Mounted(msgspec.Struct, frozen=True):
    """What a RUN gets: mounts, variables, and the path of its script as the rest of its command."""

    mounts: tuple[Mount, ...] = ()
    env: Mapping[str, str] = {}
    script: tuple[str, ...] = ()


class Mounts:
    """Prepares mounts. `materialise` unpacks what is to be bound; `secrets` are files by id."""

    def __init__(self, caches: Path, secrets: Mapping[str, Path], materialise: Materialise) -> None:
        self._caches = caches
        self._secrets = secrets
        self._materialise = materialise

    @contextlib.asynccontextmanager
    async def of(self, step: RunStep, place: Path) -> AsyncIterator[Mounted]:
        """Yield what a step gets; what it wrote to it is gone afterwards, but for caches. Raises StepError."""
        scratch = Path(tempfile.mkdtemp(dir=place, prefix="m"))
        try:
            mounts: list[Mount] = []
            env: dict[str, str] = {}
            for number, asked in enumerate(step.mounts):
                directory = scratch / str(number)
                directory.mkdir(mode=0o755)
                directory.chmod(0o755 if asked.kind != "tmpfs" else 0o1777)
                if asked.kind == "secret":
                    mounts += self._secret(asked, directory, env)
                elif asked.kind == "cache":
                    mounts.append(await self._cache(asked, directory))
                elif asked.kind == "bind":
                    name = await self._materialise(asked.origin, asked.source or ".", directory)
                    mounts.append(Mount(str(directory / name), asked.target, asked.read_only))
                else:
                    mounts.append(Mount(str(directory), asked.target))
            script: tuple[str, ...] = ()
            if step.script:
                file = scratch / "script"
                file.write_text(step.script, errors="surrogateescape")
                file.chmod(0o755)
                mounts.append(Mount(str(file), _SCRIPT, True))
                script = (_SCRIPT,)
            yield Mounted(tuple(mounts), env, script)
        finally:
            await asyncio.to_thread(confined.remove, place, scratch.name)

    def _secret(self, asked: Asked, directory: Path, env: dict[str, str]) -> list[Mount]:
        source = self._secrets.get(asked.id)
        if source is None:
            if asked.required:
                raise StepError(f"secret {asked.id}: not found; give it with --secret id={asked.id},src=FILE")
            return []
        try:
            with source.open("rb") as opened:
                data = opened.read(MAX_SECRET + 1)
        except OSError as error:
            raise StepError(f"secret {asked.id}: {error}") from error
        if len(data) > MAX_SECRET:
            raise StepError(f"secret {asked.id} is larger than {MAX_SECRET >> 10} KiB")
        if asked.variable:
            env[asked.variable] = data.decode(errors="surrogateescape")
        if not asked.target:
            return []
        file = directory / "secret"
        file.touch(mode=0o600)
        file.write_bytes(data)
        file.chmod(_mode(asked, 0o400))  # nobody outside can enter the directory
        return [Mount(str(file), asked.target, True)]

    async def _cache(self, asked: Asked, directory: Path) -> Mount:
        name = hashlib.sha256(f"{asked.id}\0{asked.origin}\0{asked.source}".encode()).hexdigest()[:32]
        place = self._caches / name
        if not place.is_dir():
            self._caches.mkdir(mode=0o700, parents=True, exist_ok=True)
            if asked.origin:
                await self._materialise(asked.origin, asked.source or ".", directory)
            directory.chmod(_mode(asked, 0o755))
            with contextlib.suppress(OSError):  # another build was quicker
                directory.rename(place)
        return Mount(str(place), asked.target, asked.read_only)


def _mode(asked: Asked, default: int) -> int:
    """Return the permissions of what is root's here, whoever was asked for: that one may do what an owner may."""
    mode = default if asked.mode is None else asked.mode
    owner = mode >> 6 & 0o7
    return mode | owner << 3 | owner if asked.uid or asked.gid else mode
