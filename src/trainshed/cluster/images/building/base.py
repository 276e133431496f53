"""What a FROM stands on: nothing, an image of the store or a registry, or this machine's root."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import sys
import sysconfig
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec

from trainshed.cluster.images.building.cache import Layer
from trainshed.cluster.images.building.errors import StepError
from trainshed.cluster.images.oci import (
    MACHINE_ROOT,
    Descriptor,
    History,
    Platform,
    RunConfig,
    parse_platform,
)
from trainshed.cluster.images.reference import InvalidReference, Reference, parse
from trainshed.cluster.images.store.store import ImageStore, StoredImage
from trainshed.cluster.sandbox.linux.process import DEFAULT_PATH

MACHINE = "machine"
"""What an alias names this machine's root by."""
SCRATCH = "scratch"
Pull = Callable[[Reference, Platform], Awaitable[StoredImage]]


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """What a stage begins with. `machine`: the layers lie over this machine's root; `key` tells roots apart."""

    config: RunConfig
    layers: tuple[Layer, ...] = ()
    machine: bool = False
    key: str = SCRATCH
    history: tuple[History, ...] = ()
    platform: Platform


def search_path(machine: bool) -> str:
    """Return PATH for commands of an image that has none: on this machine's root its own Python comes first."""
    own = f"{sys.prefix.rstrip('/')}/bin"
    others = [part for part in DEFAULT_PATH.split(":") if part != own]
    return ":".join([own, *others]) if machine else DEFAULT_PATH


def alias_of(name: str, aliases: Mapping[str, str]) -> str | None:
    """Return what stands for the name by the project's aliases, whose names may have `*`; None for none."""
    try:
        reference = parse(name)
        names = {name, str(reference), reference.familiar}
    except InvalidReference:
        names = {name}
    for pattern, target in aliases.items():
        if any(fnmatch.fnmatchcase(each, pattern) for each in names):
            return target
    return None


class Bases:
    """Finds bases. `aliases` are the project's; `pull` fetches an image into the store."""

    def __init__(
        self, store: ImageStore, aliases: Mapping[str, str], pull: Pull, platform: Platform, *, again: bool
    ) -> None:
        self._store = store
        self._aliases = aliases
        self._pull = pull
        self._platform = platform
        self._again = again

    async def find(self, name: str, platform: str = "") -> Base:
        """Return the base of that name. Raises StepError, RegistryError, InvalidImage or OSError."""
        wanted = self._wanted(platform)
        alias = alias_of(name, self._aliases)
        if alias == MACHINE:
            return _machine(wanted)
        name = alias or name
        if name == SCRATCH:
            return Base(config=RunConfig(), platform=wanted)
        try:
            reference = parse(name)
        except InvalidReference as error:
            raise StepError(str(error)) from error
        stored = None if self._again else self._store.find(reference)
        if stored is None or (platform and not _fits(stored.config.platform, wanted)):
            stored = await self._pull(reference, wanted)
        self._store.touch(stored)
        self._refuse_triggers(name, stored)
        return _of(stored)

    def _wanted(self, platform: str) -> Platform:
        if not platform:
            return self._platform
        try:
            return parse_platform(platform)
        except ValueError as error:
            raise StepError(str(error)) from error

    def _refuse_triggers(self, name: str, stored: StoredImage) -> None:
        run = json.loads(self._store.blobs.read(stored.id)).get("config") or {}
        if run.get("OnBuild"):
            raise StepError(
                f"{name} has ONBUILD triggers, which are not honoured: write them into this Dockerfile: "
                + "; ".join(map(str, run["OnBuild"]))[:500]
            )


def _fits(found: Platform, wanted: Platform) -> bool:
    return (found.os, found.architecture) == (wanted.os, wanted.architecture)


def _of(stored: StoredImage) -> Base:
    pairs = zip(stored.manifest.layers, stored.config.rootfs.diff_ids, strict=True)
    return Base(
        config=stored.config.run,
        layers=tuple(Layer(_plain(descriptor), diff_id) for descriptor, diff_id in pairs),
        machine=stored.over_machine,
        key=_fingerprint() if stored.over_machine else SCRATCH,
        history=stored.config.history,
        platform=stored.config.platform,
    )


def _plain(descriptor: Descriptor) -> Descriptor:
    return Descriptor(descriptor.media_type, descriptor.digest, descriptor.size)


def _machine(platform: Platform) -> Base:
    return Base(
        config=RunConfig(labels={MACHINE_ROOT: MACHINE}), machine=True, key=_fingerprint(), platform=platform
    )


def _fingerprint() -> str:
    """Return what tells one state of this machine from another: its release, its Python, and the packages of that."""
    digest = hashlib.sha256()
    try:
        digest.update(Path("/etc/os-release").read_bytes())
    except OSError:
        pass
    digest.update(f"{sys.version}\0{sys.prefix}\0{sys.base_prefix}".encode())
    for place in sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}):
        try:
            names = sorted(
                each.name for each in Path(place).iterdir() if each.suffix in (".dist-info", ".pth")
            )
        except OSError:
            continue
        digest.update("\0".join(names).encode("utf-8", "surrogateescape"))
    return f"{MACHINE}:{digest.hexdigest()}"
