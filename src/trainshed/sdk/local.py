"""The cluster of this machine: start it, stop it, forget it, and say what runs. Results are values."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trainshed.cluster.control import launcher
from trainshed.cluster.control.launcher import Info
from trainshed.cluster.control.processes import Process, cluster_processes, kill_all
from trainshed.cluster.paths import StateError, StatePaths
from trainshed.kube.meta.objects import name_of, namespace_of
from trainshed.sdk import contexts
from trainshed.sdk.errors import UserError, explain

if TYPE_CHECKING:
    from trainshed.cluster.images.directories import ImageRegistry

_ANSWER_SECONDS = 3.0
"""How long a cluster that is to be stopped may take to tell its jobs."""
CONTROL_PLANE = "trainshed.cli.serve"
"""The module of the control plane's process."""


class Started(msgspec.Struct, frozen=True):
    """A cluster that is up. `already` says whether it was before; `seconds` is how long the start took.

    `mended` says whether its own kubeconfig was broken and has been written again.
    """

    paths: StatePaths
    info: Info
    already: bool = False
    seconds: float = 0.0
    mended: bool = False


class ImageUse(msgspec.Struct, frozen=True):
    """Bytes that images have on disk, that could go, and that are theirs."""

    bytes: int
    reclaimable_bytes: int
    budget_bytes: int


class ClusterStatus(msgspec.Struct, frozen=True):
    """What is up, and where. What is not known, or not of this machine, is None."""

    running: bool
    state: str | None = None
    server: str | None = None
    kubeconfig: str | None = None
    version: str | None = None
    pid: int | None = None
    uptime_seconds: float | None = None
    processes: tuple[Process, ...] = ()
    damaged: tuple[str, ...] | None = None
    """What the disk did to the store since the cluster was last started, a sentence each."""
    limits: dict[str, str] | None = None
    """What keeps limits of cpu, memory, pids and ephemeral-storage, in a few words each."""
    services: str | None = None
    """What leads connections to Services on, in a few words."""

    isolation: str | None = None
    """What keeps pods apart: `namespaces` or `plain`."""

    images: ImageUse | None = None
    """What images take of the disk; None where there are none."""

    @property
    def rss_bytes(self) -> int:
        """Resident memory of all processes."""
        return sum(process.rss_bytes for process in self.processes)


def running(paths: StatePaths) -> Info | None:
    """Return the control plane that runs on this state directory; None when there is none."""
    return launcher.running(paths)


def kept_gang(paths: StatePaths) -> str:
    """Return what `trainshed up --gang-scheduler-name` was told last, `auto` where it never was."""
    from trainshed.operator.install import AUTO

    return paths.kept_gang() or AUTO


class ApiFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Files of the API server: a policy and where it has requests written, who else vouches for users, and
    what is encrypted."""

    audit_policy: Path | None = None
    audit_log: Path | None = None
    authentication_config: Path | None = None
    encryption_provider_config: Path | None = None
    encrypt_secrets: bool = False

    def arguments(self) -> list[str]:
        """Return them as the control plane takes them."""
        out: list[str] = []
        for flag, file in (
            ("--audit-policy", self.audit_policy),
            ("--audit-log", self.audit_log),
            ("--authentication-config", self.authentication_config),
            ("--encryption-provider-config", self.encryption_provider_config),
        ):
            if file is not None:
                out += [flag, str(file.absolute())]
        return [*out, "--encrypt-secrets"] if self.encrypt_secrets else out


class StartOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a cluster is to be started. All but `nodes`, `port`, `gang_scheduler` and `isolation` hold while it is up.

    Attributes:
        nodes: how many virtual nodes to show; 0 for as many as last time.
        port: where on 127.0.0.1 to listen; 0 for the port of last time.
        allow_privileged: pods of a cluster of root's may have privileged containers.
        gang_scheduler: the value of the operator's `gang-scheduler-name`, or `auto`; empty for that of last time.
        images: `strict` where containers run in images of the store only, `pull` where others are pulled.
        isolation: what keeps pods apart, `namespaces` or `plain`; empty for what did last time.
        api: what the API server reads and writes besides.
    """

    nodes: int = 0
    port: int = 0
    allow_privileged: bool = False
    gang_scheduler: str = ""
    images: str = ""
    isolation: str = ""
    api: ApiFiles = ApiFiles()

    def arguments(self) -> list[str]:
        """Return them as the control plane takes them."""
        out = ["--nodes", str(self.nodes), "--port", str(self.port)]
        out += ["--allow-privileged"] if self.allow_privileged else []
        out += [f"--gang-scheduler-name={self.gang_scheduler}"] if self.gang_scheduler else []
        out += ["--images", self.images] if self.images else []
        out += ["--isolation", self.isolation] if self.isolation else []
        return out + self.api.arguments()

    @property
    def says_anything(self) -> bool:
        """Whether anything but the port is other than it was last time."""
        return msgspec.structs.replace(self, port=0) != AS_LAST_TIME


AS_LAST_TIME = StartOptions()


def start(
    paths: StatePaths,
    options: StartOptions = AS_LAST_TIME,
    *,
    progress: Callable[[str], None] = lambda step: None,
) -> Started:
    """Return the cluster, started if need be; `progress` is told each step. Blocks until it serves.

    Raises:
        StateError: the state directory cannot be used.
        StartFailed: the control plane does not come up.
    """
    paths.prepare()
    if (info := launcher.running(paths)) is not None and not launcher.is_ending(info):
        return Started(paths, info, already=True, mended=contexts.mend(paths, info.port))
    began = time.monotonic()
    with launcher.starting(paths):
        if (info := launcher.running(paths)) is not None:  # another process has started it meanwhile
            return Started(paths, info, already=True)
        try:
            info = launcher.start(paths, CONTROL_PLANE, options.arguments(), progress)
        except launcher.StartFailed:
            with launcher.absent(paths) as absent:
                if absent:
                    asyncio.run(_end_daemons(paths))
            raise
    return Started(paths, info, seconds=time.monotonic() - began)


async def _end_daemons(paths: StatePaths) -> None:
    """Leave no daemon behind a start that failed, unless pods of an earlier one live."""
    from trainshed.cluster.sandbox.api import Runtime, RuntimePaths

    runtime = Runtime(RuntimePaths.under(paths.root))
    if not any(state.alive for state in await runtime.list()):
        await runtime.stop_all()


async def stop(paths: StatePaths) -> bool:
    """End the control plane and every pod; return whether the control plane ran. All state stays.

    Raises:
        StateError: the state directory cannot be used.
        TimeoutError: the control plane does not end.
        UserError: the disk fails; nothing runs any more all the same.
    """
    from trainshed.cluster.sandbox.api import Runtime, RuntimePaths

    if not paths.root.is_dir():
        return False
    try:
        paths.prepare()
        was_running = await asyncio.to_thread(launcher.stop, paths)
        await Runtime(RuntimePaths.under(paths.root)).stop_all()
    except (OSError, StateError) as error:
        cause = error.__cause__ if isinstance(error, StateError) else error
        if not isinstance(cause, OSError) or cause.errno != errno.EIO:
            raise
        killed = await asyncio.to_thread(kill_all, paths, CONTROL_PLANE)
        said = explain(cause)
        left = f"nothing of the cluster runs any more ({killed} processes were killed)"
        raise UserError(f"{cause.filename}: {cause.strerror}; {left}", said.hint if said else "") from error
    return was_running


async def unfinished_jobs(paths: StatePaths) -> list[str]:
    """Return the jobs, as `namespace/name`, that stopping the cluster interrupts; none where nobody answers."""
    from trainshed.client.config import ConfigError
    from trainshed.client.transport import TransportError
    from trainshed.kube.meta.errors import ApiError
    from trainshed.sdk import jobs
    from trainshed.sdk import state as jobstate
    from trainshed.sdk.connection import Target, connected

    try:
        if launcher.running(paths) is None:
            return []
        async with asyncio.timeout(_ANSWER_SECONDS), connected(Target(home=str(paths.root))) as client:
            found = await jobs.list_jobs(client, None)
    except (ApiError, ConfigError, TransportError, OSError, UserError):
        return []
    return [
        f"{namespace_of(job.obj)}/{name_of(job.obj)}"
        for job in found
        if not jobstate.is_finished(job.obj) and jobstate.condition(job.obj, "Suspended") is None
    ]


async def purge(paths: StatePaths) -> None:
    """Delete the state directory of a cluster that is stopped.

    Raises:
        UserError: something cannot be deleted. The rest is, and the message says what is left.
    """
    from trainshed.cluster.images.building.sandbox import BuildSandbox
    from trainshed.cluster.sandbox.api import Runtime, RuntimeLost, RuntimePaths, RuntimeUnavailable

    if not paths.root.is_dir():
        return
    runtime = Runtime(RuntimePaths.under(paths.root), paths.kept_isolation())
    of_pods = [paths.pods, paths.volumes, paths.images]

    async def remove(*directories: Path) -> None:
        """Delete all that can be deleted of each; raise what was in the way of the last."""
        problem: OSError | None = None
        for directory in directories:
            try:
                await runtime.remove_tree(directory)
            except OSError as error:
                problem = error
        if problem is not None:
            raise problem

    try:
        await BuildSandbox(paths.builds, ()).clear()
        try:
            await remove(*of_pods, paths.root)
        except RuntimeLost:  # files of users that only the pods' user namespace has
            await runtime.start()
            try:
                with contextlib.suppress(OSError):  # told when the whole is deleted
                    await remove(*of_pods)
            finally:
                await runtime.stop_all()
            await remove(paths.root)
    except (OSError, RuntimeLost, RuntimeUnavailable) as error:
        what = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(
            f"{paths.root} is not deleted whole: {what}", "delete it yourself; nothing of it runs any more"
        ) from error


def status(paths: StatePaths) -> ClusterStatus:
    """Return what runs on this state directory, and how much memory it takes."""
    info = launcher.running(paths)
    processes = tuple(cluster_processes(paths, info))
    damaged = tuple(store_damage(paths)) or None
    if info is None:
        return ClusterStatus(running=False, state=str(paths.root), processes=processes, damaged=damaged)
    return ClusterStatus(
        running=True,
        state=str(paths.root),
        server=f"https://127.0.0.1:{info.port}",
        kubeconfig=str(paths.kubeconfig),
        version=info.version,
        pid=info.pid,
        uptime_seconds=round(time.time() - info.started_at, 1),
        processes=processes,
        damaged=damaged,
        limits=_limits(paths),
        services=_services(paths),
        isolation=paths.kept_isolation(),
        images=image_use(paths),
    )


def image_use(paths: StatePaths) -> ImageUse | None:
    """Return what images take of the disk; None where there is no store, or it cannot be read."""
    from trainshed.cluster.images.oci import InvalidImage
    from trainshed.cluster.images.store.space import read_space
    from trainshed.cluster.images.store.store import ImageStore
    from trainshed.cluster.images.store.usage import usage_of

    if not paths.image_store.is_dir():
        return None
    try:
        usage = usage_of(ImageStore(paths.image_store), paths.pods)
    except (InvalidImage, OSError):
        return None
    budget = read_space(paths.image_space).budget(paths.image_store)
    return ImageUse(usage.bytes, usage.reclaimable, budget)


def _limits(paths: StatePaths) -> dict[str, str] | None:
    from trainshed.cluster.sandbox.client.keepers import keepers

    found = keepers(paths.root / "run")
    return None if found is None else msgspec.to_builtins(found)


def _services(paths: StatePaths) -> str | None:
    from trainshed.cluster.sandbox.client.keepers import services_by

    return services_by(paths.root / "run") or None


def store_damage(paths: StatePaths) -> list[str]:
    """Return what the store found broken when it was last opened, a sentence each."""
    from trainshed.cluster.store import (  # a command that runs something does not need the store
        keys,
        read_report,
    )

    damage = read_report(paths.store)
    places = [keys.place(key) for key in damage.keys]
    texts = [
        f"{place.plural} {f'{place.namespace}/' if place.namespace else ''}{place.name} cannot be read: delete it"
        for place in places
    ]
    if damage.lost:
        texts.append(f"the last {damage.lost} writes before that start are lost")
    return texts


def has_volumes(paths: StatePaths) -> bool:
    """Return whether there are provisioned volumes, which a purge would delete."""
    return paths.volumes.is_dir() and any(paths.volumes.iterdir())


def images(paths: StatePaths) -> ImageRegistry:
    """Return the images that are registered for this cluster. Raises StateError."""
    from trainshed.cluster.images.directories import ImageRegistry

    return ImageRegistry(paths.prepare().images_file)
