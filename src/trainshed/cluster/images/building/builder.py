"""One build: the stages that are needed, step by step, what is known from before taken from the cache."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from trainshed.cluster.images.building.base import Bases, search_path
from trainshed.cluster.images.building.built import Built, from_base
from trainshed.cluster.images.building.cache import Cache, Layer, key
from trainshed.cluster.images.building.context import Context, Selection
from trainshed.cluster.images.building.copysource import archive_of, write_others
from trainshed.cluster.images.building.download import Fetched, download, is_url
from trainshed.cluster.images.building.errors import BuildFailed, StepError
from trainshed.cluster.images.building.export import export
from trainshed.cluster.images.building.lastlines import LastLines
from trainshed.cluster.images.building.mounts import Mounts
from trainshed.cluster.images.building.progress import Progress, Task
from trainshed.cluster.images.building.sandbox import STUBS, BuildSandbox, Command
from trainshed.cluster.images.dockerfile.evaluation import evaluate
from trainshed.cluster.images.dockerfile.expansion import variables
from trainshed.cluster.images.dockerfile.instructions import Copy, Run, Workdir
from trainshed.cluster.images.dockerfile.patterns import PatternError, clean, compiled, has_wildcard
from trainshed.cluster.images.dockerfile.planning import Plan, PlannedStage
from trainshed.cluster.images.dockerfile.steps import (
    PROXIES,
    CopyStep,
    DirectoryStep,
    Note,
    Options,
    RunStep,
    Step,
    history_of,
)
from trainshed.cluster.images.oci import InvalidImage
from trainshed.cluster.images.reference import Reference
from trainshed.cluster.images.registry.credentials import CredentialsError
from trainshed.cluster.images.registry.errors import RegistryError
from trainshed.cluster.images.store import changes, confined
from trainshed.cluster.images.store.blobs import MissingBlob
from trainshed.cluster.images.store.store import ImageStore, StoredImage
from trainshed.cluster.sandbox.model import RuntimeLost

T = TypeVar("T")
_EXPECTED = (
    StepError,
    InvalidImage,
    MissingBlob,
    RegistryError,
    CredentialsError,
    RuntimeLost,
    PatternError,
    OSError,
)


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What a build is made with. `caches` keeps the directories of `--mount=type=cache`; `secrets` are files by id."""

    store: ImageStore
    bases: Bases
    context: Context
    sandbox: BuildSandbox
    progress: Progress
    caches: Path
    secrets: Mapping[str, Path] = {}
    use_cache: bool = True


class Builder:
    """Builds one plan."""

    def __init__(self, parts: Parts, whole: Plan, options: Options) -> None:
        self._parts = parts
        self._plan = whole
        self._options = options
        self._cache = Cache(parts.store)
        self._built: dict[int, Built] = {}
        self._others: dict[str, Built] = {}
        self._created = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._mounts = Mounts(parts.caches, parts.secrets, self._materialised)

    async def build(self, names: Sequence[Reference]) -> StoredImage:
        """Return the image, in the store under these names.

        Raises:
            BuildFailed: a step failed.
            DockerfileError: an instruction means nothing.
            RuntimeUnavailable: no sandboxes can be made on this machine.
        """
        self._parts.store.paths.prepare()
        with self._parts.store.paths.in_use():
            await self._parts.sandbox.clear()
            for stage in self._plan.stages:
                self._built[stage.number] = await self._stage(stage)
            with self._task("exporting to image"):
                last = self._built[self._plan.stages[-1].number]
                return export(self._parts.store, last, self._created, names)

    # Stages.

    async def _stage(self, stage: PlannedStage) -> Built:
        label = f"{stage.name} " if len(self._plan.stages) > 1 else ""
        count = sum(isinstance(each, _WITH_ROOT) for each in stage.instructions)
        task = self._parts.progress.begin(f"[{label}1/{count + 1}] {stage.title}")
        base = await self._guarded(task, stage, self._begin(stage))
        task.end("cached")
        config = base.config
        env = variables(config)
        default = search_path(base.machine)
        if "PATH" not in env:
            config = msgspec.structs.replace(config, env=(*(config.env or ()), f"PATH={default}"))
        evaluated = evaluate(self._plan, stage, config, self._options)
        final = evaluated.config
        if base.machine and "PATH" not in env and variables(final)["PATH"] == default:
            kept = tuple(each for each in final.env or () if not each.startswith("PATH="))
            final = msgspec.structs.replace(final, env=kept or None)
        built = Built(
            base=base.base, layers=base.layers, config=final, history=base.history, author=evaluated.author
        )
        number = 1
        for step in evaluated.steps:
            if isinstance(step, Note):
                built = self._with(built, step, None)
                continue
            number += 1
            task = self._parts.progress.begin(f"[{label}{number}/{count + 1}] {step.title}")
            layer, cached = await self._guarded(task, step, self._step(built, step, task))
            task.end("cached" if cached else "done")
            built = self._with(built, step, layer)
        return built

    def _with(self, built: Built, step: Step, layer: Layer | None) -> Built:
        entry = history_of(step, self._created, empty=layer is None)
        layers = built.layers if layer is None else (*built.layers, layer)
        return msgspec.structs.replace(built, layers=layers, history=(*built.history, entry))

    async def _begin(self, stage: PlannedStage) -> Built:
        if stage.stage >= 0:
            return self._built[stage.stage]
        return from_base(await self._parts.bases.find(stage.base, stage.platform))

    async def _other(self, name: str) -> Built:
        """Return the stage or image that files are taken from."""
        number = self._plan.names.get(name.lower())
        if number is not None:
            return self._built[number]
        if name not in self._others:
            self._others[name] = from_base(await self._parts.bases.find(name))
        return self._others[name]

    async def _guarded(self, task: Task, place: PlannedStage | Step, work: Awaitable[T]) -> T:
        try:
            return await work
        except _EXPECTED as error:
            task.end("failed")
            tail = error.tail if isinstance(error, StepError) else ()
            raise BuildFailed(place.line, place.end, place.title, str(error), tail) from error
        except BaseException:
            task.end("failed")
            raise

    @contextlib.contextmanager
    def _task(self, title: str) -> Iterator[Task]:
        task = self._parts.progress.begin(title)
        try:
            yield task
        except BaseException:
            task.end("failed")
            raise
        task.end("done")

    # Steps.

    async def _step(self, built: Built, step: Step, task: Task) -> tuple[Layer | None, bool]:
        """Return the layer that a step leads to, and whether that was known."""
        if isinstance(step, RunStep):
            return await self._run(built, step, task)
        if isinstance(step, CopyStep):
            return await self._copy(built, step)
        assert isinstance(step, DirectoryStep)
        what = {"path": step.path, "user": step.user}
        name = key("directory", built.identity, what)
        return await self._cached(name, lambda: self._in_root(built, {"directory": what}, None, ()))

    async def _cached(
        self, name: str, work: Callable[[], Awaitable[Layer | None]]
    ) -> tuple[Layer | None, bool]:
        if self._parts.use_cache and (record := await asyncio.to_thread(self._cache.find, name)) is not None:
            return record.layer, True
        layer = await work()
        self._cache.remember(name, layer)
        return layer, False

    async def _run(self, built: Built, step: RunStep, task: Task) -> tuple[Layer | None, bool]:
        origins = {
            mount.origin: (await self._other(mount.origin)).identity for mount in step.mounts if mount.origin
        }
        binds = [
            (
                await asyncio.to_thread(self._parts.context.select, [mount.source or "."], (), unpacks=False)
            ).digest
            for mount in step.mounts
            if mount.kind == "bind" and not mount.origin
        ]
        own = {name: value for name, value in step.env if name.upper() not in PROXIES}
        name = key(
            "run",
            built.identity,
            step.argv,
            step.script,
            own,
            step.cwd,
            step.user,
            step.mounts,
            origins,
            binds,
        )
        return await self._cached(name, lambda: self._execute(built, step, task))

    async def _execute(self, built: Built, step: RunStep, task: Task) -> Layer | None:
        lowers = await self._lowers(built)
        tail = LastLines()

        def output(data: bytes) -> None:
            tail.add(data)
            task.output(data)

        async with self._mounts.of(step, self._parts.sandbox.place()) as mounted:
            argv = (*step.argv, *mounted.script)
            env = {"PATH": search_path(built.machine)} | ({"HOME": "/root"} if built.machine else {})
            command = Command(
                argv=argv,
                env=tuple({**env, **dict(step.env), **mounted.env}.items()),
                cwd=step.cwd,
                user=step.user,
                lowers=lowers,
                machine=built.machine,
                mounts=mounted.mounts,
            )
            async with self._parts.sandbox.run(command, output) as (code, private):
                if code:
                    raise StepError(f"the command returned a non-zero code: {code}", tail.lines())
                stubs = [*STUBS, *_with_parents(mount.path for mount in mounted.mounts)]
                return await asyncio.to_thread(self._pack, private, stubs)

    async def _copy(self, built: Built, step: CopyStep) -> tuple[Layer | None, bool]:
        addresses = [source for source in step.sources if is_url(source)]
        if not addresses:
            return await self._copy_with(built, step, ())
        with self._scratch() as scratch:
            fetched = [
                await asyncio.to_thread(download, each, step.checksum, scratch, step.target)
                for each in addresses
            ]
            return await self._copy_with(built, step, fetched)

    async def _copy_with(
        self, built: Built, step: CopyStep, fetched: Sequence[Fetched]
    ) -> tuple[Layer | None, bool]:
        local = [source for source in step.sources if not is_url(source)]
        where = [
            step.target,
            step.chown,
            step.mode,
            step.documents,
            [(each.name, each.digest) for each in fetched],
        ]
        if step.origin:
            other = await self._other(step.origin)
            name = key("copy from", built.identity, where, local, step.exclude, other.identity)
            return await self._cached(name, lambda: self._copy_from(built, step, other))
        selection = Selection("", False)
        if local:
            selection = await asyncio.to_thread(
                self._parts.context.select, local, step.exclude, unpacks=step.add
            )
        name = key("copy", built.identity, where, selection)
        return await self._cached(name, lambda: self._copy_context(built, step, local, selection, fetched))

    async def _copy_context(
        self,
        built: Built,
        step: CopyStep,
        local: Sequence[str],
        selection: Selection,
        fetched: Sequence[Fetched],
    ) -> Layer | None:
        def fill(target: IO[bytes]) -> None:
            with archive_of(target) as archive:
                write_others(step, fetched, archive)
                if local:
                    self._parts.context.write(local, step.exclude, selection.archives, archive)

        others = len(step.documents) + len(fetched)
        single = selection.single if not others else others == 1 and not local
        with tempfile.TemporaryFile(dir=self._parts.sandbox.place()) as source:
            await asyncio.to_thread(fill, source)
            source.seek(0)
            opened = [self._parts.context.open(path) for path in selection.archives]
            try:
                return await self._in_root(built, _where(step, single), source, opened)
            finally:
                for descriptor in opened:
                    os.close(descriptor)

    async def _copy_from(self, built: Built, step: CopyStep, other: Built) -> Layer | None:
        with tempfile.TemporaryFile(dir=self._parts.sandbox.place()) as archive:
            answer = await self._exported(other, step.sources, archive)
            archive.seek(0)
            single = answer["files"] == 1 and not answer["directories"]
            return await self._in_root(built, _where(step, single), archive, ())

    async def _exported(self, other: Built, sources: Sequence[str], archive: IO[bytes]) -> dict[str, Any]:
        wanted = [
            [path, compiled(path).pattern if has_wildcard(path) else ""] for path in map(clean, sources)
        ]
        what = {"lowers": await self._lowers(other), "machine": other.machine, "sources": wanted}
        with self._scratch() as scratch:
            return await asyncio.to_thread(confined.export, scratch, what, archive)

    async def _materialised(self, origin: str, source: str, target: Path) -> str:
        """Unpack what a bind mount shows into an empty directory; return the name of it there, if it is one file."""
        with tempfile.TemporaryFile(dir=self._parts.sandbox.place()) as archive:
            if origin:
                answer = await self._exported(await self._other(origin), [source], archive)
                single = answer["files"] == 1 and not answer["directories"]
            else:
                selection = await asyncio.to_thread(self._parts.context.select, [source], (), unpacks=False)
                with archive_of(archive) as written:
                    self._parts.context.write([source], (), (), written)
                single = selection.single
            archive.seek(0)
            chunks = iter(lambda: archive.read(1 << 20), b"")
            await asyncio.to_thread(confined.unpack, target, chunks)
        return clean(source).rpartition("/")[2] if single else ""

    async def _in_root(
        self, built: Built, what: dict[str, Any], source: IO[bytes] | None, archives: Sequence[int]
    ) -> Layer | None:
        lowers = await self._lowers(built)
        whole = {"directory": None, **what, "lowers": lowers, "machine": built.machine}
        with self._scratch() as scratch:
            await asyncio.to_thread(confined.copy, scratch, whole, source, archives)
            return await asyncio.to_thread(self._pack, scratch, ())

    def _pack(self, private: Path, stubs: Sequence[str]) -> Layer | None:
        found = changes.pack(self._parts.store, private, stubs)
        if found is None:
            return None
        layer = Layer(*found)
        self._parts.store.layers.ensure(layer.descriptor, layer.diff_id)
        return layer

    async def _lowers(self, built: Built) -> tuple[str, ...]:
        """Return the unpacked layers, the topmost first; of nothing, an empty directory."""
        ensure = self._parts.store.layers.ensure
        paths = [
            str(await asyncio.to_thread(ensure, layer.descriptor, layer.diff_id)) for layer in built.layers
        ]
        if not paths and not built.machine:
            empty = self._parts.sandbox.place() / "empty"
            empty.mkdir(exist_ok=True, mode=0o755)
            return (str(empty),)
        return tuple(dict.fromkeys(reversed(paths)))

    @contextlib.contextmanager
    def _scratch(self) -> Iterator[Path]:
        place = Path(tempfile.mkdtemp(dir=self._parts.sandbox.place(), prefix="s"))
        try:
            yield place
        finally:
            confined.remove(place.parent, place.name)


_WITH_ROOT = (Run, Copy, Workdir)
"""Instructions that change the root, and that progress counts."""


def _where(step: CopyStep, single: bool) -> dict[str, Any]:
    return {"target": step.target, "single": single, "chown": step.chown, "mode": step.mode}


def _with_parents(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        parts = path.strip("/").split("/")
        for count in range(1, len(parts) + 1):
            yield "/" + "/".join(parts[:count])
