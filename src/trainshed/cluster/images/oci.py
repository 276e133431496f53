"""Manifests, indexes and configurations of images, as OCI and Docker write them. Pure.

Sources: OCI image-spec 1.1 (manifest.md, image-index.md, config.md, layer.md), Docker Image Manifest V2, Schema 2. What
is not modelled here stays in the bytes, which the store keeps as they are: a digest is of those.
"""

from __future__ import annotations

import platform as machine
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from trainshed.cluster.images.reference import is_digest

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
MANIFESTS = (OCI_MANIFEST, DOCKER_MANIFEST)
INDEXES = (OCI_INDEX, DOCKER_LIST)
CONFIGS = (OCI_CONFIG, DOCKER_CONFIG)
NAME_ANNOTATION = "org.opencontainers.image.ref.name"
MACHINE_ROOT = "io.trainshed.base"
PULLED_ANNOTATION = "io.trainshed.pulled"
"""Of a name in the store's index: it came from a registry, which has it still."""
PINNED_ANNOTATION = "io.trainshed.pinned"
"""Of a name in the store's index: somebody wants it kept whatever it takes."""
"""Label of an image that holds only what a build added to this machine's root; its value is `machine`."""
MAX_DOCUMENT = 4 << 20
"""Bytes of a manifest or a configuration, as registries bound them."""

_LAYERS = {
    "application/vnd.oci.image.layer.v1.tar": "",
    "application/vnd.oci.image.layer.v1.tar+gzip": "gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd": "zstd",
    "application/vnd.oci.image.layer.nondistributable.v1.tar": "",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip": "gzip",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd": "zstd",
    "application/vnd.docker.image.rootfs.diff.tar": "",
    "application/vnd.docker.image.rootfs.diff.tar.gzip": "gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd": "zstd",
    "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip": "gzip",
}
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "riscv64": "riscv64", "ppc64le": "ppc64le"}

T = TypeVar("T")


class InvalidImage(Exception):
    """What an image consists of is not as the format has it. One sentence."""


class Platform(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an image is for: `linux/arm64/v8`."""

    architecture: str = ""
    os: str = ""
    variant: str = ""

    def __str__(self) -> str:
        """Return it as command lines have it."""
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


class Descriptor(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A reference to content. `size` in bytes."""

    media_type: str
    digest: str
    size: int
    annotations: dict[str, str] = {}
    platform: Platform | None = None
    artifact_type: str = ""


class Manifest(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One image for one platform: a configuration and layers, the lowest first."""

    config: Descriptor
    layers: tuple[Descriptor, ...]
    schema_version: int = 2
    media_type: str = OCI_MANIFEST
    annotations: dict[str, str] = {}

    def encoded(self) -> bytes:
        """Return the bytes that its digest is of; version and type are written although they are the usual ones."""
        head = {"schemaVersion": self.schema_version, "mediaType": self.media_type}
        return msgspec.json.encode({**head, **msgspec.to_builtins(self)})


class Index(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Manifests of one image for several platforms, or of all images of a layout."""

    manifests: tuple[Descriptor, ...] = ()
    schema_version: int = 2
    media_type: str = OCI_INDEX

    def encoded(self) -> bytes:
        return msgspec.json.format(
            msgspec.json.encode(
                {
                    "schemaVersion": self.schema_version,
                    "mediaType": self.media_type,
                    "manifests": msgspec.to_builtins(self.manifests),
                }
            ),
            indent=1,
        )


class Healthcheck(msgspec.Struct, frozen=True, rename="pascal", omit_defaults=True):
    """Stored as written; the node has probes instead. Durations in nanoseconds."""

    test: tuple[str, ...] = ()
    interval: int = 0
    timeout: int = 0
    start_period: int = 0
    start_interval: int = 0
    retries: int = 0


class RunConfig(msgspec.Struct, frozen=True, rename="pascal", omit_defaults=True):
    """What a container of the image does unless it is told otherwise."""

    user: str = ""
    exposed_ports: dict[str, dict[str, Any]] | None = None
    env: tuple[str, ...] | None = None
    entrypoint: tuple[str, ...] | None = None
    cmd: tuple[str, ...] | None = None
    volumes: dict[str, dict[str, Any]] | None = None
    working_dir: str = ""
    labels: dict[str, str] | None = None
    stop_signal: str = ""
    shell: tuple[str, ...] | None = None
    healthcheck: Healthcheck | None = None


class RootFs(msgspec.Struct, frozen=True):
    """Digests of the layers as plain tar archives, the lowest first."""

    diff_ids: tuple[str, ...] = ()
    type: str = "layers"


class History(msgspec.Struct, frozen=True, omit_defaults=True):
    """One instruction that an image was built by."""

    created: str = ""
    created_by: str = ""
    author: str = ""
    comment: str = ""
    empty_layer: bool = False


class ImageConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    """The configuration of an image; its digest is the image's id."""

    architecture: str = ""
    os: str = ""
    variant: str = ""
    created: str | None = None
    author: str = ""
    config: RunConfig | None = None
    rootfs: RootFs = RootFs()
    history: tuple[History, ...] = ()

    @property
    def run(self) -> RunConfig:
        return self.config or RunConfig()

    @property
    def platform(self) -> Platform:
        return Platform(self.architecture, self.os, self.variant)

    def encoded(self) -> bytes:
        """Return the bytes that its digest is of. `rootfs` is written even when there are no layers."""
        fields = msgspec.to_builtins(self)
        fields["rootfs"] = {"type": "layers", "diff_ids": list(self.rootfs.diff_ids)}
        return msgspec.json.encode(fields)


def manifest_of(data: bytes) -> Manifest:
    """Return the manifest. Raises InvalidImage."""
    manifest = _decode(data, Manifest, "manifest")
    for one in (manifest.config, *manifest.layers):
        _check(one)
    for layer in manifest.layers:
        compression_of(layer.media_type)
    if manifest.config.media_type not in CONFIGS:
        raise InvalidImage(
            f"not an image that can be run: its configuration is a {manifest.config.media_type}"
        )
    return manifest


def index_of(data: bytes) -> Index:
    """Return the index. Raises InvalidImage."""
    index = _decode(data, Index, "index")
    for one in index.manifests:
        _check(one)
    return index


def config_of(data: bytes) -> ImageConfig:
    """Return the configuration. Raises InvalidImage."""
    config = _decode(data, ImageConfig, "configuration")
    for digest in config.rootfs.diff_ids:
        if not is_digest(digest):
            raise InvalidImage(
                f"the configuration of the image names a layer by {digest!r}, which is no sha256 digest"
            )
    return config


def document_type(data: bytes) -> str:
    """Return the media type that a manifest or index says it has, else what its fields tell. Raises InvalidImage."""
    fields = _decode(data, dict[str, Any], "manifest")
    said = fields.get("mediaType")
    if isinstance(said, str) and said:
        return said
    return OCI_INDEX if "manifests" in fields else OCI_MANIFEST


def compression_of(media_type: str) -> str:
    """Return how a layer of this media type is compressed: `gzip`, `zstd`, or empty. Raises InvalidImage."""
    try:
        return _LAYERS[media_type]
    except KeyError:
        raise InvalidImage(f"layers of type {media_type} are not known") from None


def local_platform() -> Platform:
    """Return the platform of this machine."""
    architecture = _ARCHITECTURES.get(machine.machine(), machine.machine())
    return Platform(architecture, "linux", "v8" if architecture == "arm64" else "")


def parse_platform(text: str) -> Platform:
    """Return the platform written as `os/architecture[/variant]`. Raises ValueError."""
    parts = text.lower().split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise ValueError(f"{text!r} is no platform: expected os/architecture, such as linux/amd64")
    return Platform(parts[1], parts[0], parts[2] if len(parts) == 3 else "")


def choose(manifests: Sequence[Descriptor], wanted: Platform) -> Descriptor | None:
    """Return the manifest of an index for the platform; None when there is none.

    A variant that is not asked for, or not said, fits any; the same variant fits better.
    """
    fitting = [
        one
        for one in manifests
        if one.platform is not None
        and one.media_type in (*MANIFESTS, *INDEXES)
        and (one.platform.os, one.platform.architecture) == (wanted.os, wanted.architecture)
        and (not wanted.variant or one.platform.variant in ("", wanted.variant))
    ]
    fitting.sort(key=lambda one: one.platform is None or one.platform.variant != wanted.variant)
    if fitting:
        return fitting[0]
    unsaid = [one for one in manifests if one.platform is None and one.media_type in (*MANIFESTS, *INDEXES)]
    return unsaid[0] if len(manifests) == 1 and unsaid else None


def platforms(manifests: Sequence[Descriptor]) -> list[str]:
    """Return the platforms that an index has, for messages."""
    return [
        str(one.platform) for one in manifests if one.platform is not None and one.platform.os != "unknown"
    ]


def _decode(data: bytes, kind: type[T], what: str) -> T:
    if len(data) > MAX_DOCUMENT:
        raise InvalidImage(f"the {what} of the image is larger than {MAX_DOCUMENT >> 20} MiB")
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidImage(f"the {what} of the image is malformed: {error}") from error


def _check(one: Descriptor) -> None:
    if not is_digest(one.digest):
        raise InvalidImage(f"{one.digest!r} is no sha256 digest")
    if one.size < 0:
        raise InvalidImage(f"{one.digest} has a size of {one.size} bytes")
