"""Making a pod's sandbox and starting its containers: the effects behind CreateSandbox and StartContainer.

    sandbox     GPUs ▸ read what the pod refers to ▸ volumes, and meanwhile runtime.run_sandbox
    container   image ▸ environment ▸ command line ▸ mounts ▸ runtime.start_container

Failures are raised as one of the errors below, each with the kubelet's reason; the worker notes them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from trainshed.cluster.images.directories import ImageProblem, command_line
from trainshed.cluster.node.devices import gpu
from trainshed.cluster.node.pod import diskuse, plain
from trainshed.cluster.node.pod.amounts import in_bytes, in_milli, limits_of, oom_score
from trainshed.cluster.node.pod.environment import (
    SYSTEM_PATH,
    ConfigError,
    Surroundings,
    base_environment,
    container_environment,
    proxy_environment,
    referenced,
    thread_environment,
)
from trainshed.cluster.node.pod.images import ImageRefused, RunImage, check_non_root
from trainshed.cluster.node.pod.nodecontext import NodeContext
from trainshed.cluster.node.pod.pullsecrets import missing_secrets, pull_secrets, secret_names
from trainshed.cluster.node.pod.sandboxspec import (
    ContainerParts,
    container_spec,
    contended_cpu,
    hostname,
    sandbox_spec,
    user_of,
)
from trainshed.cluster.node.references import Reference, References, read
from trainshed.cluster.node.volumes import registry
from trainshed.cluster.node.volumes.empty_dir import IN_MEMORY, EmptyDirVolume
from trainshed.cluster.node.volumes.manager import VolumeManager
from trainshed.cluster.node.volumes.mounts import container_mounts, memory_volumes, refuse_block_devices
from trainshed.cluster.node.volumes.tokens import token_issuer
from trainshed.cluster.node.volumes.volume import ClaimPending, MountError, Volume, fs_group
from trainshed.cluster.sandbox.api import ContainerSpec, Mount, RuntimeLost, SandboxState
from trainshed.cluster.sandbox.model import MemoryVolume
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.plan import Event

log = logging.getLogger(__name__)

TOOLS_PATH = "/usr/local/lib/trainshed/tools"
"""Where containers see our stand-ins for missing programs."""


class SetupError(Exception):
    """The pod cannot be set up now: `reason` is the event's; the pod stays ContainerCreating.

    `passing`: expected to be over in a moment, so that a first time is not worth an event. `messages` are those of all
    events, the first of them `message`.
    """

    def __init__(self, reason: str, message: str, *others: str, passing: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.messages = (message, *others)
        self.passing = passing


class ContainerError(Exception):
    """A container cannot be made now: `reason` and message of its waiting state.

    Either `event` is the reason of the event that tells, or `events` are those; `retry_at`: not to be tried before, in
    seconds since the epoch.
    """

    def __init__(
        self,
        reason: str,
        message: str,
        event: str = "Failed",
        *,
        events: tuple[Event, ...] = (),
        retry_at: float | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.events = events or (
            Event("Warning", event, f"Error: {message}" if event == "Failed" else message),
        )
        self.retry_at = retry_at


def _of_problem(error: ImageProblem) -> tuple[Event, ...]:
    """Return what tells of an image that cannot be had: what is wrong with it, where that has a reason of its own, and
    that the container waits (pkg/kubelet/images/image_manager.go, pkg/kubelet/kuberuntime/kuberuntime_container.go)."""
    reason = {"ErrImageNeverPull": "ErrImageNeverPull", "InvalidImageName": "InspectFailed"}.get(error.reason)
    if reason is None:
        return ()
    return (
        Event("Warning", reason, error.message),
        Event("Warning", "Failed", f"Error: {error.reason}"),
    )


class Prepared(msgspec.Struct, frozen=True):
    """What the pod refers to and its volumes, ready."""

    references: References
    volumes: dict[str, Volume]


def needed(pod: Object) -> set[Reference]:
    """Return every object that the pod's containers and volumes name, optional ones included."""
    return referenced(pod) | registry.referenced(pod) | {("secrets", name) for name in secret_names(pod)}


def waits_for_volumes(pod: Object) -> bool:
    """Return whether a sandbox is made after the volumes: those in memory are mounted in it, and claims are often not
    bound yet."""
    return any(
        (isinstance(each.type, EmptyDirVolume) and each.source.get("medium") == IN_MEMORY)
        or any(
            plural == "persistentvolumeclaims"
            for plural, _ in each.type.referenced(pod, each.name, each.source)
        )
        for each in registry.declared(pod)
    )


class PodStarter:
    """Sets one pod up. Holds its volumes between starts."""

    def __init__(self, context: NodeContext, uid: str, tell: Callable[[Event], None]) -> None:
        self._context = context
        self._uid = uid
        self._tell = tell
        self.volumes = VolumeManager(
            context.paths, uid, context.facts, token_issuer(context.client), plain=self._plain
        )
        self._prepared: Prepared | None = None
        self._preparing = asyncio.Lock()
        self._has_failed = False
        """Whether the volumes could not be made once: the next time the sandbox waits for them."""

    def refresh(self) -> None:
        """Read everything again before the next start."""
        self._prepared = None

    async def sandbox(self, pod: Object) -> SandboxState:
        """Return the pod's new sandbox. Raises SetupError, NotEnoughDevices, ApiError or TransportError."""
        self.refresh()
        self._allocate_gpus(pod)
        if self._plain or self._has_failed or waits_for_volumes(pod):
            prepared = await self._prepare(pod)
            memory = () if self._plain else memory_volumes(pod, prepared.volumes, self._group(pod))
            return await self._run_sandbox(pod, memory)
        return await self._sandbox_meanwhile(pod)

    async def _sandbox_meanwhile(self, pod: Object) -> SandboxState:
        """Have the sandbox made while the volumes are: neither needs the other."""
        preparing = asyncio.create_task(self._prepare(pod))
        try:
            state = await self._run_sandbox(pod, ())
        except BaseException:
            preparing.cancel()
            await asyncio.gather(preparing, return_exceptions=True)
            raise
        try:
            await preparing
        except Exception:
            self._has_failed = True
            # As with a kubelet, a pod that waits for what it refers to has no sandbox and no address.
            with suppress(RuntimeLost, OSError):
                await self._context.runtime.remove_sandbox(self._uid)
            raise
        return state

    async def _run_sandbox(self, pod: Object, memory: Sequence[MemoryVolume]) -> SandboxState:
        options = self._context.options
        try:
            spec = sandbox_spec(pod, options.network, pids=options.pids, memory=memory)
            return await self._context.runtime.run_sandbox(spec)
        except (RuntimeLost, OSError, ValueError) as error:
            raise SetupError("FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}") from error

    async def container(self, pod: Object, container: Object, attempt: int, ip: str) -> ContainerSpec:
        """Return what to start. Raises ContainerError, SetupError, ApiError or TransportError."""
        context = self._context
        prepared = await self._prepare(pod)
        try:
            secrets = pull_secrets(pod, prepared.references)
            if context.options.capabilities.pulls and (missing := missing_secrets(pod, prepared.references)):
                self._tell(Event("Warning", "FailedToRetrieveImagePullSecret", missing))
            directory = context.paths.pod(self._uid)
            image = await context.images.obtain(container, directory, secrets, self._tell)
            if self._plain:
                plain.check(pod, container, image)
            around = Surroundings(
                node=context.facts,
                pod_ip=ip,
                references=prepared.references,
                services=context.services(pod["metadata"]["namespace"]),
                api_host=context.options.api_host,
                api_port=context.options.api_port,
                egress=context.options.egress,
            )
            declared = container_environment(pod, container, around)
            indexes = context.allocated.get(self._uid, {}).get(container["name"], ())
            devices = gpu.environment(indexes, context.known_gpus) if context.gpus else {}
            base = base_environment(
                hostname(pod),
                ":".join(SYSTEM_PATH) if image.root else context.search_path,
                tty=bool(container.get("tty")),
                home="" if image.root or self._plain else self._home(pod, container),
            )
            base |= thread_environment(declared, os.cpu_count() or 1)
            proxy = proxy_environment(context.options.egress)
            env = {**base, **proxy, **image.image.env, **devices, **declared}
            driver = gpu.driver_mounts() if image.root and indexes else ()
            if driver:
                env |= gpu.library_path(env.get("LD_LIBRARY_PATH", ""))
            path = env["PATH"]
            argv = command_line(
                container,
                image.image,
                declared,
                is_program=lambda name: not image.stored and shutil.which(name, path=path) is not None,
                stored=image.stored,
            )
            of_images = {
                mount["name"]: await context.images.obtain_volume(
                    mount["name"], volume.image, directory, secrets, self._tell
                )
                for mount in container.get("volumeMounts") or ()
                if (volume := prepared.volumes[mount["name"]]).image is not None
            }
            mounts = container_mounts(container, prepared.volumes, declared, of_images)
            if self._plain:
                more, found = plain.client_files(mounts, directory, pod["metadata"]["namespace"], env)
                mounts, env = (*mounts, *more), {**env, **found}
        except ImageRefused as error:
            raise ContainerError(
                error.reason, error.message, events=error.events, retry_at=error.retry_at
            ) from error
        except ImageProblem as error:
            raise ContainerError(error.reason, error.message, events=_of_problem(error)) from error
        except plain.NotPlain as error:
            raise ContainerError("CreateContainerConfigError", str(error)) from error
        except (ConfigError, MountError) as error:
            raise ContainerError("CreateContainerConfigError", str(error)) from error
        if refusal := check_non_root(pod, container, image):
            raise ContainerError("CreateContainerConfigError", refusal)
        log = context.paths.log(self._uid, container["name"], attempt)
        log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        parts = ContainerParts(
            attempt=attempt,
            argv=argv,
            env=env,
            mounts=[*driver, *mounts, *_tool_mounts(context.tools, image)],
            image=image,
            devices=gpu.device_files(indexes),
            log_path=log,
            masked=() if image.root else (str(context.paths.home), *context.options.masked),
            cpu_largest=context.shares.take(self._uid, container["name"], contended_cpu(pod, container)),
            cpus=context.cores.take(self._uid, container["name"], in_milli(limits_of(container).get("cpu"))),
            oom_score=oom_score(pod, container, in_bytes(context.facts.allocatable.get("memory"))),
        )
        return container_spec(pod, container, parts)

    async def update_volumes(self, pod: Object, *, read_again: bool = True) -> None:
        """Bring what has changed into the volumes of the running pod.

        Without `read_again` that are fields of the pod, and its ConfigMaps and Secrets are as they were.
        """
        async with self._preparing:
            if read_again or self._prepared is None:
                references = await read(self._context.client, pod["metadata"]["namespace"], needed(pod))
            else:
                references = self._prepared.references
            await self.volumes.update(
                pod,
                references,
                lambda fresh: self._hand_over(
                    pod, [Volume(one, read_only=True, owned=True) for one in fresh]
                ),
            )
            if self._prepared is not None:
                self._prepared = Prepared(references, self._prepared.volumes)

    async def _prepare(self, pod: Object) -> Prepared:
        async with self._preparing:
            if self._prepared is None:
                references = await read(self._context.client, pod["metadata"]["namespace"], needed(pod))
                if problem := self._context.attachments.take(self._context.facts.name, pod, references):
                    raise SetupError("FailedAttachVolume", problem)
                try:
                    refuse_block_devices(pod)
                    volumes = await self.volumes.prepare(pod, references)
                except MountError as error:
                    passing = isinstance(error, ClaimPending)
                    raise SetupError("FailedMount", str(error), *error.others, passing=passing) from error
                await self._hand_over(pod, volumes.values())
                self._prepared = Prepared(references, volumes)
            return self._prepared

    @property
    def _plain(self) -> bool:
        """Whether pods are plain processes."""
        return self._context.options.capabilities.plain

    def _group(self, pod: Object) -> int | None:
        """Return the pod's `fsGroup` where there are groups: else every file and process is the caller's."""
        return fs_group(pod) if self._context.options.capabilities.user_mapping else None

    async def _hand_over(self, pod: Object, volumes: Iterable[Volume]) -> None:
        """Hand the files of volumes to the pod's group. Raises SetupError."""
        group = self._group(pod)
        if group is None:
            return
        policy = section(pod["spec"], "securityContext").get("fsGroupChangePolicy")
        sparing = policy == "OnRootMismatch"
        owned = [volume for volume in volumes if volume.owned]
        try:
            for lasting in (False, True):
                places = [(str(one.source), one.read_only) for one in owned if one.lasting is lasting]
                if places:
                    await self._context.runtime.hand_to_group(places, group, if_differs=lasting and sparing)
        except (RuntimeLost, OSError) as error:
            text = f"applyFSGroup failed for group {group}: {error}"
            raise SetupError("FailedMount", f"MountVolume.SetUp failed : {text}") from error

    async def give_back(self, pod: Object) -> None:
        """Leave what the pod, whose sandbox has ended for good, had of devices and of the disk, but for its logs.

        Nobody sees its emptyDirs again, which a kubelet removes as well: while they are there, others are evicted for
        what they hold.
        """
        paths = self._context.paths
        paths.devices(self._uid).unlink(missing_ok=True)
        for path in diskuse.kept_on_disk(paths, pod):
            try:
                await self._context.runtime.remove_tree(path)
            except (RuntimeLost, OSError) as error:
                log.warning("volume not removed", extra={"pod": self._uid, "error": str(error)})

    def _allocate_gpus(self, pod: Object) -> None:
        """Give the pod its GPUs, the same as before if it had some. Raises NotEnoughDevices."""
        context = self._context
        if self._uid in context.allocated:
            return
        taken = {i for pods in context.allocated.values() for indexes in pods.values() for i in indexes}
        allocation = gpu.allocate(pod, context.gpus, taken)
        if allocation:
            context.allocated[self._uid] = allocation
            gpu.save(context.paths.devices(self._uid), allocation)

    def _home(self, pod: Object, container: Object) -> str:
        """Return the home directory: as in container runtimes that of /etc/passwd, here the machine's, or /.

        Where all users of a pod stand for the caller, all have root's, which is theirs.
        """
        uid = user_of(section(pod["spec"], "securityContext"), section(container, "securityContext"))
        if not uid or not self._context.options.capabilities.user_mapping:
            return "/root"
        try:
            return pwd.getpwuid(uid).pw_dir
        except KeyError:
            return "/"


def tools_directory() -> Path | None:
    """Return our stand-ins for programs that this machine lacks, or None when it has them all."""
    directory = Path(__file__).with_name("tools")
    missing = [tool.name for tool in directory.iterdir() if shutil.which(tool.name) is None]
    return directory if missing else None


def _tool_mounts(tools: Path | None, image: RunImage) -> tuple[Mount, ...]:
    if tools is None or image.root:
        return ()
    return (Mount(str(tools), TOOLS_PATH, read_only=True),)
