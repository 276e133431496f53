"""What a container runs in: an image of the store, directories registered for its name, or this machine's root.

    `--images`                machine               pull                    strict
    in the store              used                  used                    used; pulled again with policy Always
    registered directories    used                  used                    not used
    anything else             the machine's root    pulled, else as left    pulled, or the pod waits

Reasons, messages and delays are the kubelet's (pkg/kubelet/images/image_manager.go): what cannot be had is
`ErrImagePull` once, then `ImagePullBackOff` until it is tried again after 10 s, 20 s, … up to 300 s.
"""

from __future__ import annotations

import asyncio
import hashlib
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from trainshed.cluster.images.directories import HOST_ROOT, Image, ImageProblem, ImageRegistry, find, image_id
from trainshed.cluster.images.lookup import as_image
from trainshed.cluster.images.oci import InvalidImage, Platform, local_platform
from trainshed.cluster.images.reference import LATEST, InvalidReference, Reference, parse
from trainshed.cluster.images.registry.credentials import (
    Credentials,
    CredentialsError,
    from_documents,
    of_user,
)
from trainshed.cluster.images.registry.errors import RegistryError
from trainshed.cluster.images.stopsignal import signal_number
from trainshed.cluster.images.store import notes
from trainshed.cluster.images.store.blobs import MissingBlob
from trainshed.cluster.images.store.store import ImageStore, StoredImage
from trainshed.cluster.images.store.usage import usage_of
from trainshed.cluster.sandbox.model import Layer
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.plan import Event

FIRST_BACKOFF_SECONDS = 10.0
MAX_BACKOFF_SECONDS = 300.0
SETTLE_SECONDS = 1.0
"""How long a container shows `ErrImagePull` before it shows `ImagePullBackOff`."""

Mode = Literal["machine", "pull", "strict"]
MODES: tuple[Mode, ...] = ("machine", "pull", "strict")
Tell = Callable[[Event], None]
Pull = Callable[[ImageStore, Reference, Platform, Sequence[Credentials]], Awaitable[StoredImage]]


class RunImage(msgspec.Struct, frozen=True, kw_only=True):
    """What a container is made of. `root` are unpacked layers, the topmost first; without them the machine's is below.

    `user` is what the image says, and known only of images of the store. `stored`: it comes from there. `known`: it is
    there or registered. `volumes` are the paths of its VOLUME instructions.
    """

    image: Image
    root: tuple[str, ...] = ()
    user: str = ""
    stored: bool = False
    known: bool = False
    volumes: tuple[str, ...] = ()

    @property
    def layers(self) -> tuple[str, ...]:
        """The directories that are the image's own, the topmost first."""
        return self.root or tuple(layer.source for layer in self.image.layers if self.stored)


class ImageRefused(ImageProblem):
    """A container has to wait for its image: until `retry_at`, in seconds since the epoch; `events` say why."""

    def __init__(self, reason: str, message: str, retry_at: float, events: tuple[Event, ...]) -> None:
        super().__init__(reason, message)
        self.retry_at = retry_at
        self.events = events


class _Attempt(msgspec.Struct, frozen=True):
    """Whose failures to get an image do not count for others: a pod that is made anew, or shows other secrets, is
    not to wait for what another was refused. `pod` is empty where pods do not wait for images."""

    name: str
    secrets: bytes
    pod: str = ""

    @classmethod
    def of(cls, name: str, secrets: Sequence[Any], pod: Path | None = None) -> _Attempt:
        digest = hashlib.sha256(msgspec.json.encode(secrets)).digest()
        return cls(name, digest, "" if pod is None else str(pod))


class _Backoff(msgspec.Struct):
    """Failures in a row to get an image, and from when on to try again."""

    seconds: float = 0.0
    until: float = 0.0
    message: str = ""


async def pull_aside(
    store: ImageStore, name: Reference, wanted: Platform, credentials: Sequence[Credentials]
) -> StoredImage:
    """Pull in a thread with a loop of its own: gigabytes are written, which the control plane must not wait for."""
    from trainshed.cluster.images.registry.transfer import pull  # loads an HTTP library

    return await asyncio.to_thread(asyncio.run, pull(store, name, wanted, credentials))


class Images:
    """The images of a machine. `now` returns seconds since the epoch.

    `transfer` is what pulls; `pulled` is called after.
    """

    def __init__(
        self,
        registry: ImageRegistry,
        store: ImageStore,
        mode: Mode,
        now: Callable[[], float],
        transfer: Pull = pull_aside,
        pulled: Callable[[], None] = lambda: None,
    ) -> None:
        self._registry = registry
        self._store = store
        self._mode = mode
        self._now = now
        self._transfer = transfer
        self._tell_pulled = pulled
        self._backoffs: dict[_Attempt, _Backoff] = {}
        self._pulls: dict[_Attempt, asyncio.Task[StoredImage]] = {}

    async def obtain(
        self,
        container: Object,
        pod_directory: Path,
        secrets: Sequence[Any] = (),
        tell: Tell = lambda event: None,
        *,
        or_machine: bool = True,
    ) -> RunImage:
        """Return what the container runs in, its layers unpacked and noted. Raises ImageProblem.

        `secrets` are the documents of the pod's imagePullSecrets; `tell` is told what happens to the image.
        `or_machine`: where `--images pull` gets no image, this machine's root takes its place.
        """
        name, policy = container["image"], container.get("imagePullPolicy") or "IfNotPresent"
        reference = _parse(name)
        stored = await self._find(name, reference)
        image = find({}, name) if self._mode == "strict" else self._registry.resolve(name)
        if self._mode == "strict" and policy == "Always" and image is None:
            stored = await self._pull(_Attempt.of(name, secrets, pod_directory), reference, secrets, tell)
        elif stored is not None or image is not None:
            tell(Event("Normal", "Pulled", f'Container image "{name}" already present on machine'))
        elif policy == "Never":
            raise ImageProblem(
                "ErrImageNeverPull", f'Container image "{name}" is not present with pull policy of Never'
            )
        elif self._mode == "strict" or (self._mode == "pull" and not or_machine):
            stored = await self._pull(_Attempt.of(name, secrets, pod_directory), reference, secrets, tell)
        elif self._mode == "pull":
            stored = await self._try_pull(_Attempt.of(name, secrets), reference, secrets, tell)
        if stored is None:
            return RunImage(image=image or HOST_ROOT, known=image is not None)
        try:
            return await asyncio.to_thread(self._unpacked, stored, pod_directory)
        except (InvalidImage, MissingBlob, OSError) as error:
            raise _unusable(name, error) from error

    async def obtain_volume(
        self, volume: str, source: Mapping[str, Any], pod_directory: Path, secrets: Sequence[Any], tell: Tell
    ) -> tuple[str, ...]:
        """Return the layers of an image that is a volume, the topmost first, noted. Raises ImageProblem."""
        name = source["reference"]
        asked = {"image": name, "imagePullPolicy": source.get("pullPolicy") or default_pull_policy(name)}
        obtained = await self.obtain(asked, pod_directory, secrets, tell, or_machine=False)
        if not obtained.stored:
            text = f'image "{name}" of volume "{volume}" is not in the store, and cannot be pulled'
            if self._mode == "machine":
                text += ": trainshed image pull, or trainshed up --images pull"
            raise ImageProblem("ErrImagePull", text)
        return obtained.layers

    async def _find(self, name: str, reference: Reference) -> StoredImage | None:
        try:
            if not self._store.may_have(reference):
                return None
            return await asyncio.to_thread(self._store.find, reference)
        except (InvalidImage, OSError) as error:
            raise _unusable(name, error) from error

    async def _try_pull(
        self, attempt: _Attempt, reference: Reference, secrets: Sequence[Any], tell: Tell
    ) -> StoredImage | None:
        """Return the image, None where it cannot be had now."""
        try:
            return await self._pull(attempt, reference, secrets, tell)
        except ImageRefused as error:
            tell(error.events[0])
            text = f"{attempt.name} cannot be pulled: the container runs on this machine's own root"
            tell(Event("Normal", "ImageNotPulled", text))
            return None

    async def _pull(
        self, attempt: _Attempt, reference: Reference, secrets: Sequence[Any], tell: Tell
    ) -> StoredImage:
        """Return the image, pulled; those who ask meanwhile share the pull. Raises ImageRefused."""
        name = attempt.name
        backoff = self._backoffs.get(attempt)
        began = self._now()
        if backoff is not None and began < backoff.until:
            raise _backing_off(name, backoff)
        shared = msgspec.structs.replace(attempt, pod="")
        task = self._pulls.get(shared)
        tell(Event("Normal", "Pulling", f'Pulling image "{name}"'))
        if task is None:
            task = self._pulls[shared] = asyncio.create_task(self._pulled(reference, secrets))
            task.add_done_callback(lambda _: self._pulls.pop(shared, None))
        try:
            stored = await asyncio.shield(task)
        except (RegistryError, CredentialsError, InvalidImage, MissingBlob, OSError) as error:
            raise self._refused(attempt, str(error)) from error
        self._backoffs.pop(attempt, None)
        self._tell_pulled()
        seconds = f"{self._now() - began:.3g}s"
        text = f'Successfully pulled image "{name}" in {seconds} ({seconds} including waiting)'
        tell(Event("Normal", "Pulled", f"{text}. Image size: {stored.size} bytes."))
        return stored

    async def _pulled(self, reference: Reference, secrets: Sequence[Any]) -> StoredImage:
        known = from_documents(secrets, reference)
        own = await asyncio.to_thread(of_user, reference)
        return await self._transfer(
            self._store, reference, local_platform(), [*known, *([own] if own else [])]
        )

    def bytes_on_disk(self, pods: Path) -> int:
        """Return how many bytes the store takes; `pods` holds the notes of pods."""
        try:
            return usage_of(self._store, pods).bytes
        except (InvalidImage, OSError):
            return 0

    def is_known(self, name: str) -> bool:
        """Return whether an image of that name is in the store or registered."""
        try:
            return self._stored(name) is not None or self._registry.resolve(name) is not None
        except ImageProblem:
            return False

    def id(self, name: str) -> str:
        """Return `imageID` of a container status."""
        try:
            stored = self._stored(name)
        except ImageProblem:
            stored = None
        if stored is not None:
            return f"{parse(name).repository}@{stored.descriptor.digest}"
        return image_id(name, self._registry)

    def stop_signal(self, name: str) -> int:
        """Return what asks a container of the image to end: the image's STOPSIGNAL, or SIGTERM."""
        try:
            stored = self._stored(name)
        except ImageProblem:
            stored = None
        return (
            signal_number(stored.config.run.stop_signal) if stored is not None else None
        ) or signal.SIGTERM

    def _stored(self, name: str) -> StoredImage | None:
        try:
            return self._store.find(_parse(name))
        except (InvalidImage, OSError):
            return None

    def _unpacked(self, stored: StoredImage, pod_directory: Path) -> RunImage:
        # Held until the pod's note is written: a collection in between would take the layers away.
        with self._store.paths.in_use():
            lowers = self._store.lowers(stored)
            notes.note(pod_directory, lowers)
            self._store.touch(stored)
        image = as_image(stored)
        if stored.over_machine and self._mode == "strict":
            raise InvalidImage("it lies over this machine's root, which --images strict does not allow")
        if stored.over_machine:
            over = tuple(Layer(str(path), "/") for path in lowers)
            image = msgspec.structs.replace(image, layers=over)
            root: tuple[str, ...] = ()
        else:
            root = tuple(map(str, lowers))
        run = stored.config.run
        volumes = tuple(path for path in run.volumes or () if path.startswith("/"))
        return RunImage(image=image, root=root, user=run.user, stored=True, known=True, volumes=volumes)

    def _refused(self, attempt: _Attempt, why: str) -> ImageRefused:
        """Return the first refusal after a failed pull, and begin to back off."""
        name, now = attempt.name, self._now()
        forgotten = now - 2 * MAX_BACKOFF_SECONDS
        self._backoffs = {one: b for one, b in self._backoffs.items() if b.until > forgotten}
        backoff = self._backoffs.setdefault(attempt, _Backoff())
        if now >= backoff.until:  # those who shared the pull share its failure
            backoff.seconds = min(backoff.seconds * 2 or FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS)
            backoff.until = now + backoff.seconds
            backoff.message = f'failed to pull image "{parse(name)}": {why}'
        events = (
            Event("Warning", "Failed", f'Failed to pull image "{name}": {backoff.message}'),
            Event("Warning", "Failed", "Error: ErrImagePull"),
        )
        return ImageRefused("ErrImagePull", backoff.message, min(now + SETTLE_SECONDS, backoff.until), events)


def _backing_off(name: str, backoff: _Backoff) -> ImageRefused:
    events = (
        Event("Normal", "BackOff", f'Back-off pulling image "{name}"'),
        Event("Warning", "Failed", "Error: ImagePullBackOff"),
    )
    text = f'Back-off pulling image "{name}": ErrImagePull: {backoff.message}'
    return ImageRefused("ImagePullBackOff", text, backoff.until, events)


def _unusable(name: str, error: Exception) -> ImageProblem:
    return ImageProblem("CreateContainerError", f'image "{name}" cannot be used: {error}')


def check_non_root(pod: Object, container: Object, image: RunImage) -> str:
    """Return why a container may not run as its user, empty if it may (kubelet: security_context.go)."""
    why = _root(pod, container, image)
    metadata = pod["metadata"]
    whom = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
    return f'{why} (pod: "{whom}", container: {container["name"]})' if why else ""


def _root(pod: Object, container: Object, image: RunImage) -> str:
    shared, own = section(pod["spec"], "securityContext"), section(container, "securityContext")
    if not own.get("runAsNonRoot", shared.get("runAsNonRoot")):
        return ""
    asked = own.get("runAsUser", shared.get("runAsUser"))
    if asked is not None:
        return "container's runAsUser breaks non-root policy" if int(asked) == 0 else ""
    if not image.stored:
        return ""
    user = image.user.partition(":")[0]
    if user in ("", "0"):
        return "container has runAsNonRoot and image will run as root"
    if not user.isdigit():
        return f"container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root"
    return ""


def default_pull_policy(name: str) -> str:
    """Return the pull policy of an image volume that says none."""
    try:
        return "Always" if parse(name).tag == LATEST else "IfNotPresent"
    except InvalidReference:
        return "IfNotPresent"


def _parse(name: str) -> Reference:
    try:
        return parse(name)
    except InvalidReference as error:
        raise ImageProblem(
            "InvalidImageName", f'Failed to apply default image tag "{name}": {error}'
        ) from error
