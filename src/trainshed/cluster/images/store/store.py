"""The images of this user: what the CLI and the node ask."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from trainshed.cluster.images import oci
from trainshed.cluster.images.oci import Descriptor, ImageConfig, InvalidImage, Manifest, Platform
from trainshed.cluster.images.reference import InvalidReference, Reference, parse
from trainshed.cluster.images.store.blobs import Blobs, MissingBlob
from trainshed.cluster.images.store.layers import Layers
from trainshed.cluster.images.store.names import Names
from trainshed.cluster.images.store.paths import StorePaths

SHORT = 12
"""Characters of a digest that tables show and commands take."""
_SHORTEST = 4


class UnknownImage(Exception):
    """The store has no image of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no image {name} in the store")
        self.name = name


class Remembered(msgspec.Struct, frozen=True):
    """What every record of a step of a build has: digests of what it needs, first of all the layer as it is stored."""

    digests: tuple[str, ...] = ()


class StoredImage(msgspec.Struct, frozen=True):
    """One image for one platform. `descriptor` is its manifest's."""

    descriptor: Descriptor
    manifest: Manifest
    config: ImageConfig

    @property
    def id(self) -> str:
        """The digest of the configuration."""
        return self.manifest.config.digest

    @property
    def size(self) -> int:
        """Bytes of the layers as they are stored."""
        return sum(layer.size for layer in self.manifest.layers)

    @property
    def over_machine(self) -> bool:
        """Whether it holds only what is added to this machine's root."""
        return (self.config.run.labels or {}).get(oci.MACHINE_ROOT) == "machine"


class ImageStore:
    """Images in a directory. Methods block and may be called from several threads and processes."""

    def __init__(self, root: Path) -> None:
        self.paths = StorePaths(root)
        self.blobs = Blobs(self.paths)
        self.names = Names(self.paths)
        self.layers = Layers(self.paths, self.blobs)
        self._known: dict[str, StoredImage] = {}

    def may_have(self, name: Reference) -> bool:
        """Return whether `find` could find the image: a look at the index, which is read when it has changed."""
        names = self.names.all()
        return str(name) in names or bool(name.digest and names)

    def find(self, name: Reference) -> StoredImage | None:
        """Return the image of a name; None when there is none. Raises InvalidImage where the store is damaged."""
        names = self.names.all()
        one = names.get(str(name))
        if one is None and name.digest:
            one = next((o for n, o in names.items() if _is(name, n, o)), None)
        return None if one is None else self._complete(str(name), one)

    def get(self, name: str) -> StoredImage:
        """Return the image of a name, of an id or of the beginning of one.

        Raises:
            UnknownImage: there is none.
            InvalidImage: what the store has of it is damaged.
            InvalidReference: it is no name.
        """
        bare = name.removeprefix("sha256:")
        try:
            if (image := self.find(parse(name))) is not None:
                return image
        except InvalidReference:
            if name == bare:
                raise
        if (one := self._by_id(bare)) is None:
            raise UnknownImage(name)
        return self._complete(name, one)

    def _complete(self, name: str, one: Descriptor) -> StoredImage:
        try:
            return self.image(one)
        except MissingBlob as error:
            raise InvalidImage(f"{name} is in the store without {error.digest}: get it again") from error

    def image(self, manifest: Descriptor) -> StoredImage:
        """Return the image of a manifest. Raises MissingBlob or InvalidImage."""
        known = self._known.get(manifest.digest)
        if known is not None:
            return known
        decoded = oci.manifest_of(self.blobs.read(manifest.digest))
        config = oci.config_of(self.blobs.read(decoded.config.digest))
        if len(config.rootfs.diff_ids) != len(decoded.layers):
            raise InvalidImage(
                f"the image has {len(decoded.layers)} layers, and its configuration {len(config.rootfs.diff_ids)}"
            )
        plain = msgspec.structs.replace(manifest, annotations={})
        image = self._known[manifest.digest] = StoredImage(plain, decoded, config)
        return image

    def all(self) -> Mapping[Reference, Descriptor]:
        """Return the manifest of every name. Raises InvalidImage where the index is damaged."""
        return {parse(name): one for name, one in sorted(self.names.all().items())}

    def lowers(self, image: StoredImage) -> tuple[Path, ...]:
        """Return the unpacked layers, the topmost first. Raises InvalidImage, MissingBlob or OSError."""
        pairs = zip(image.manifest.layers, image.config.rootfs.diff_ids, strict=True)
        paths = [self.layers.ensure(layer, diff_id) for layer, diff_id in pairs]
        return tuple(dict.fromkeys(reversed(paths)))

    def touch(self, image: StoredImage) -> None:
        """Note that the image is used now."""
        self.paths.prepare()
        (self.paths.used / image.descriptor.digest.removeprefix("sha256:")).touch(mode=0o600)

    def used_at(self, manifest: Descriptor) -> float:
        """Return when an image was used last, or came, in seconds since the epoch."""
        name = manifest.digest.removeprefix("sha256:")
        for place in (self.paths.used / name, self.paths.blobs / name):
            try:
                return place.stat().st_mtime
            except FileNotFoundError:
                continue
        return 0.0

    def tag(self, name: str, new: str) -> Reference:
        """Give the image of a name another one as well; return that. Raises UnknownImage or InvalidReference."""
        reference = tagged(new)
        with self.paths.in_use():
            self.names.set(reference, self.get(name).descriptor)
        return reference

    def put(self, manifest: Manifest, name: Reference | None) -> StoredImage:
        """Store a manifest whose content is there, under a name. Raises MissingBlob or InvalidImage."""
        for part in (manifest.config, *manifest.layers):
            if not self.blobs.has(part):
                raise MissingBlob(part.digest)
        descriptor = self.blobs.add(manifest.encoded(), manifest.media_type)
        image = self.image(descriptor)
        if name is not None:
            self.names.set(name, descriptor)
        return image

    def remembered(self) -> set[str]:
        """Return the digests and diff ids that the steps of builds have led to."""
        found: set[str] = set()
        if self.paths.cache.is_dir():
            for file in self.paths.cache.iterdir():
                try:
                    found.update(msgspec.json.decode(file.read_bytes(), type=Remembered).digests)
                except (OSError, msgspec.DecodeError):
                    continue
        return found

    def forget(self, *, everything: bool) -> None:
        """Forget what steps of builds have led to: layers that are gone, or everything."""
        for file in self.paths.prepare().cache.iterdir():
            try:
                layer, *_ = msgspec.json.decode(file.read_bytes(), type=Remembered).digests or ("",)
            except (OSError, msgspec.DecodeError):
                layer = ""
            if everything or (layer and not self.blobs.path(layer).exists()):
                file.unlink(missing_ok=True)

    def names_of(self, manifest: Descriptor) -> list[Reference]:
        """Return the names that stand for a manifest."""
        return [name for name, one in self.all().items() if one.digest == manifest.digest]

    def _by_id(self, text: str) -> Descriptor | None:
        if len(text) < _SHORTEST or not set(text) <= set("0123456789abcdef"):
            return None
        found = {one.digest: one for one in self.names.all().values() if self._has_id(one, text)}
        if len(found) > 1:
            raise InvalidReference(f"{text} is the beginning of several images' ids")
        return next(iter(found.values()), None)

    def _has_id(self, one: Descriptor, text: str) -> bool:
        if one.digest.removeprefix("sha256:").startswith(text):
            return True
        try:
            return self.image(one).id.removeprefix("sha256:").startswith(text)
        except (MissingBlob, InvalidImage):
            return False


def tagged(name: str) -> Reference:
    """Return the reference to give to an image. Raises InvalidReference for one with a digest."""
    reference = parse(name)
    if reference.digest:
        raise InvalidReference(f"{name}: an image is named by a tag, not by a digest")
    return reference


def wanted_platform(text: str) -> Platform:
    """Return the platform that was asked for, or this machine's. Raises ValueError."""
    return oci.parse_platform(text) if text else oci.local_platform()


def _is(reference: Reference, name: str, one: Descriptor) -> bool:
    return parse(name).repository == reference.repository and one.digest == reference.digest
