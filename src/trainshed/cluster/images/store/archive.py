"""Images as one file: `docker save`'s archives and OCI layouts, read and written.

What is written is both: an OCI layout with Docker's `manifest.json` beside its `index.json`, which every tool takes.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

import msgspec

from trainshed.cluster.images import compression, oci
from trainshed.cluster.images.oci import Descriptor, InvalidImage, Manifest, Platform
from trainshed.cluster.images.reference import InvalidReference, Reference, parse
from trainshed.cluster.images.store.blobs import MissingBlob
from trainshed.cluster.images.store.store import ImageStore, StoredImage
from trainshed.cluster.sandbox.layers.members import BoundedMember

_CHUNK = 1 << 20
_MAX_MEMBERS = 100_000
_COMPRESSED = {"gzip": f"{oci.OCI_LAYER}+gzip", "zstd": f"{oci.OCI_LAYER}+zstd", "": oci.OCI_LAYER}
_CONTAINERD_NAME = "io.containerd.image.name"


def save(
    store: ImageStore, images: Sequence[tuple[StoredImage, Sequence[Reference]]], target: IO[bytes]
) -> None:
    """Write images and their names as an archive. Raises MissingBlob or OSError."""
    entries: list[Descriptor] = []
    docker: list[dict[str, Any]] = []
    blobs: dict[str, int] = {}
    for image, names in images:
        for part in (image.descriptor, image.manifest.config, *image.manifest.layers):
            blobs[part.digest] = part.size
        plain = msgspec.structs.replace(image.descriptor, annotations={}, platform=image.config.platform)
        for name in names or (None,):
            notes = {} if name is None else {_CONTAINERD_NAME: str(name), oci.NAME_ANNOTATION: str(name)}
            entries.append(msgspec.structs.replace(plain, annotations=notes))
        docker.append(
            {
                "Config": _blob_name(image.id),
                "RepoTags": [name.familiar for name in names if name.tag],
                "Layers": [_blob_name(layer.digest) for layer in image.manifest.layers],
            }
        )
    with tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        for digest, size in sorted(blobs.items()):
            try:
                with store.blobs.path(digest).open("rb") as file:
                    archive.addfile(_member(_blob_name(digest), size), file)
            except FileNotFoundError:
                raise MissingBlob(digest) from None
        _add(archive, "manifest.json", json.dumps(docker).encode())
        _add(archive, "index.json", oci.Index(tuple(entries)).encoded())


def load(
    store: ImageStore,
    source: IO[bytes],
    wanted: Platform,
    progress: Callable[[str], None] = lambda text: None,
) -> list[tuple[StoredImage, list[Reference]]]:
    """Store the images of an archive, which may be compressed as a whole; return them with their names.

    `source` must be seekable. `progress` is told each layer. Raises InvalidImage or OSError.
    """
    head = source.read(4)
    source.seek(0)
    kind = compression.sniff(head)
    try:
        with (
            tempfile.TemporaryFile() as spool,
            store.paths.in_use(),
            tarfile.open(fileobj=_plain(source, kind, spool), mode="r:", tarinfo=BoundedMember) as archive,
        ):
            return _Loader(store, archive, wanted, progress).load()
    except (tarfile.TarError, EOFError, RecursionError) as error:
        raise InvalidImage(f"not an archive of images: {error}") from error


class _Loader:
    def __init__(
        self, store: ImageStore, archive: tarfile.TarFile, wanted: Platform, progress: Callable[[str], None]
    ) -> None:
        self._store = store
        self._archive = archive
        self._wanted = wanted
        self._progress = progress
        self._members: dict[str, tarfile.TarInfo] = {}
        for number, member in enumerate(archive):
            if number > _MAX_MEMBERS:
                raise InvalidImage(f"the archive has more than {_MAX_MEMBERS} entries")
            self._members[member.name.removeprefix("./")] = member

    def load(self) -> list[tuple[StoredImage, list[Reference]]]:
        if "index.json" in self._members:
            return self._layout()
        if "manifest.json" in self._members:
            return self._docker()
        raise InvalidImage("not an archive of images: it has neither index.json nor manifest.json")

    def _layout(self) -> list[tuple[StoredImage, list[Reference]]]:
        found: dict[str, tuple[StoredImage, list[Reference]]] = {}
        for one in oci.index_of(self._read("index.json")).manifests:
            manifest = self._manifest(one)
            image, names = found.setdefault(manifest.digest, (self._store_parts(manifest), []))
            name = self._name(one)
            if name is not None:
                names.append(name)
                self._store.names.set(name, image.descriptor)
        return list(found.values())

    def _manifest(self, one: Descriptor) -> Descriptor:
        """Return the manifest for the platform, through any indexes."""
        for _ in range(4):
            if one.media_type not in oci.INDEXES:
                return one
            index = oci.index_of(self._blob(one))
            chosen = oci.choose(index.manifests, self._wanted)
            if chosen is None:
                had = ", ".join(oci.platforms(index.manifests)) or "none"
                raise InvalidImage(f"the image is not for {self._wanted}; it is for {had}")
            one = chosen
        raise InvalidImage("an index of the archive leads to no manifest")

    def _store_parts(self, manifest: Descriptor) -> StoredImage:
        data = self._blob(manifest)
        decoded = oci.manifest_of(data)
        for part in (decoded.config, *decoded.layers):
            if not self._store.blobs.has(part):
                self._progress(part.digest)
                self._store.blobs.add_stream(part, self._chunks(_blob_name(part.digest)))
        stored = self._store.blobs.add(data, oci.document_type(data))
        return self._store.image(stored)

    def _name(self, one: Descriptor) -> Reference | None:
        """Return the full name of an entry; a layout may say the tag alone, which names nothing."""
        for text in (one.annotations.get(_CONTAINERD_NAME), one.annotations.get(oci.NAME_ANNOTATION)):
            if text and ("/" in text or ":" in text):
                try:
                    return parse(text)
                except InvalidReference as error:
                    raise InvalidImage(str(error)) from error
        return None

    def _docker(self) -> list[tuple[StoredImage, list[Reference]]]:
        """Return the images of an archive as Docker wrote it before 25: layers are plain archives at any path."""
        try:
            entries = msgspec.json.decode(self._read("manifest.json"), type=list[dict[str, Any]])
            return [self._docker_image(entry) for entry in entries]
        except (msgspec.DecodeError, KeyError, TypeError, InvalidReference) as error:
            raise InvalidImage(f"manifest.json of the archive is malformed: {error}") from error

    def _docker_image(self, entry: dict[str, Any]) -> tuple[StoredImage, list[Reference]]:
        data = self._read(entry["Config"])
        config = oci.config_of(data)
        if str(config.platform) and (config.os, config.architecture) != (
            self._wanted.os,
            self._wanted.architecture,
        ):
            raise InvalidImage(f"the image is not for {self._wanted}; it is for {config.platform}")
        layers = tuple(self._docker_layer(path) for path in entry["Layers"])
        manifest = Manifest(config=self._store.blobs.add(data, oci.OCI_CONFIG), layers=layers)
        names = [parse(text) for text in entry.get("RepoTags") or ()]
        image = self._store.put(manifest, None)
        for name in names:
            self._store.names.set(name, image.descriptor)
        return image, names

    def _docker_layer(self, path: str) -> Descriptor:
        self._progress(path)
        head = b""
        with self._store.blobs.writer() as writer:
            for chunk in self._chunks(path):
                head = head or chunk[:4]
                writer.write(chunk)
        return Descriptor(_COMPRESSED[compression.sniff(head)], writer.digest, writer.size)

    def _blob(self, one: Descriptor) -> bytes:
        data = self._read(_blob_name(one.digest))
        if f"sha256:{hashlib.sha256(data).hexdigest()}" != one.digest:
            raise InvalidImage(f"{one.digest} of the archive is not what its digest says")
        return data

    def _read(self, name: str) -> bytes:
        member = self._member(name)
        if member.size > oci.MAX_DOCUMENT:
            raise InvalidImage(f"{name} of the archive is larger than {oci.MAX_DOCUMENT >> 20} MiB")
        return b"".join(self._chunks(name))

    def _chunks(self, name: str) -> Iterator[bytes]:
        file = self._archive.extractfile(self._member(name))
        assert file is not None
        while data := file.read(_CHUNK):
            yield data

    def _member(self, name: str) -> tarfile.TarInfo:
        member = self._members.get(name)
        for _ in range(2):  # Docker writes a layer that several images have once, and links to it
            if member is not None and member.issym():
                parts = [*name.split("/")[:-1], *member.linkname.split("/")]
                kept: list[str] = []
                for part in parts:
                    kept = kept[:-1] if part == ".." else [*kept, part]
                member = self._members.get("/".join(kept))
        if member is None or not member.isreg() or member.issparse():
            raise InvalidImage(f"the archive has no file {name}")
        return member


def _plain(source: IO[bytes], kind: str, spool: IO[bytes]) -> IO[bytes]:
    """Return the archive without the compression of the whole: entries are found by going back and forth."""
    if not kind:
        return source
    for chunk in compression.decompressed(source, kind):
        spool.write(chunk)
    spool.seek(0)
    return spool


def _blob_name(digest: str) -> str:
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    archive.addfile(_member(name, len(data)), io.BytesIO(data))
