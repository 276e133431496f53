"""Images that are no images: the host's root, plus directories that the user registers.

`images.json` under the state directory maps a name to what an image would add: directories laid over the
root, environment, entrypoint, command and working directory. An image that is not registered is the host's
root as it is.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from trainshed.cluster.images.reference import InvalidReference, parse
from trainshed.cluster.sandbox.files import lock
from trainshed.cluster.sandbox.model import Layer
from trainshed.kube.meta.expansion import TooLong, expand_all
from trainshed.kube.meta.objects import Object

DEFAULT_HOSTS = ("docker.io/library/", "docker.io/", "index.docker.io/library/", "index.docker.io/")


class Image(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a registered image adds to the host's root. `cmd` is the default of a container's `args`."""

    layers: tuple[Layer, ...] = ()
    env: dict[str, str] = {}
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    workdir: str = ""
    stored: bool = False
    """Whether it is of the store, with a root of its own."""

    @property
    def has_own_root(self) -> bool:
        """Whether nothing of this machine's root is in it."""
        return self.stored or any(layer.path == "/" for layer in self.layers)


HOST_ROOT = Image()

_DELIVERY = Image(
    entrypoint=("sh", "-c", Path(__file__).with_name("kubectl-delivery.sh").read_text(), "kubectl-delivery")
)
BUILT_IN = dict.fromkeys(("kubeflow/kubectl-delivery", "mpioperator/kubectl-delivery"), _DELIVERY)
"""What is there without being registered, in every version, by its name: images whose work is done locally."""


class ImageProblem(Exception):
    """A container cannot be made from its image: `reason` and message of its waiting state."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class ImageRegistry:
    """The registered images, in a file that the CLI writes and the node reads whenever it changed.

    The file is replaced whole and under a lock: readers see one state or the next.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._images: dict[str, Image] = {}

    def list(self) -> dict[str, Image]:
        """Return every registered image by normalised name."""
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            return {}
        stamp = (stat.st_mtime_ns, stat.st_ino)
        if stamp != self._stamp:
            self._images = msgspec.json.decode(self._path.read_bytes(), type=dict[str, Image])
            self._stamp = stamp
        return self._images

    def add(self, name: str, image: Image) -> str:
        """Register `image`, replacing one of that name; return the normalised name. Raises ImageProblem
        for an invalid reference and FileNotFoundError for a layer that is no directory."""
        normal = normalise(name)
        for layer in image.layers:
            if not Path(layer.source).is_dir():
                raise FileNotFoundError(f"layer {layer.source} of image {name} is not a directory")
        with self._locked():
            self._write({**self.list(), normal: image})
        return normal

    def remove(self, name: str) -> bool:
        """Unregister; return whether it was registered."""
        normal = normalise(name)
        with self._locked():
            images = dict(self.list())
            if images.pop(normal, None) is None:
                return False
            self._write(images)
        return True

    def resolve(self, name: str) -> Image | None:
        """Return the registered or built-in image, or None: the container then runs on the host's root."""
        return find(self.list(), name)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = lock(self._path.with_suffix(".lock"), wait=True)
        try:
            yield
        finally:
            os.close(descriptor)

    def _write(self, images: dict[str, Image]) -> None:
        encoded = msgspec.json.format(msgspec.json.encode(images, order="sorted"), indent=2)
        descriptor, temporary = tempfile.mkstemp(dir=self._path.parent, prefix=".images-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(encoded + b"\n")
        Path(temporary).replace(self._path)


def find(images: Mapping[str, Image], name: str) -> Image | None:
    """Return what stands for the image: one of `images`, or one that is built in. Raises ImageProblem."""
    normal = normalise(name)
    return images.get(normal) or BUILT_IN.get(re.sub(r"[:@][^/]*$", "", normal))


def normalise(name: str) -> str:
    """Return the name under which an image is registered: `docker.io/library/` dropped, `:latest` added.

    Raises ImageProblem(InvalidImageName) when it is no image reference.
    """
    try:
        parse(name)
    except InvalidReference as error:
        raise ImageProblem(
            "InvalidImageName", f'Failed to apply default image tag "{name}": {error}'
        ) from error
    for prefix in DEFAULT_HOSTS:
        if name.startswith(prefix):
            name = name.removeprefix(prefix)
            break
    has_tag = "@" in name or ":" in name.rpartition("/")[2]
    return name if has_tag else f"{name}:latest"


def _expanded(container: Object, field: str, variables: Mapping[str, str]) -> tuple[str, ...]:
    try:
        return expand_all(container.get(field) or (), variables)
    except TooLong as error:
        raise ImageProblem("CreateContainerConfigError", f"{field}: {error}") from None


def command_line(
    container: Object,
    image: Image,
    variables: dict[str, str],
    *,
    is_program: Callable[[str], bool],
    stored: bool = False,
) -> tuple[str, ...]:
    """Return argv: `command` replaces the entrypoint, `args` the default arguments, `$(NAME)` expanded.

    An image that nobody registered has no known entrypoint. Its `args` are the command line when they begin
    with a program (`kubectl run x --image=busybox -- sleep 9`), which `is_program` decides. Of a `stored` one it is
    known that there is none. Raises ImageProblem.
    """
    command, arguments = (_expanded(container, field, variables) for field in ("command", "args"))
    if command:
        return command + arguments
    if image.entrypoint or image.cmd:
        return image.entrypoint + (arguments or image.cmd)
    if arguments and not arguments[0].startswith("-") and is_program(arguments[0]):
        return arguments
    if stored:
        if arguments:
            return arguments
        raise ImageProblem(
            "CreateContainerError", f'no command specified: image "{container["image"]}" has no entrypoint'
        )
    if image.layers or image.env or image.workdir:
        raise ImageProblem(
            "CreateContainerError",
            f'no command specified: image "{container["image"]}" is registered without an entrypoint. Set `command` in '
            f"the container, or register it with --entrypoint '...'",
        )
    raise ImageProblem(
        "CreateContainerError",
        f'no command specified: image "{container["image"]}" is not registered on this node, so its entrypoint '
        "is unknown. Set `command` in the container, or register the image: "
        f"trainshed image add {container['image']} --entrypoint '...'",
    )


def image_id(name: str, registry: ImageRegistry) -> str:
    """Return `imageID` of a container status: a digest of what was registered, or the host's root."""
    try:
        image = registry.resolve(name)
    except ImageProblem:
        image = None
    if image is None:
        return "trainshed://host-root"
    digest = hashlib.sha256(msgspec.json.encode(image, order="sorted")).hexdigest()
    return f"trainshed://sha256:{digest}"
