"""Pulling images into the store and pushing them out of it.

    manifest ▸ (index ▸ the platform's manifest) ▸ configuration and layers, several at once ▸ name

A download that breaks off goes on where it stopped, in this call or the next: what has come is kept beside its place
until its digest is that of the manifest.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from trainshed.cluster.images import oci
from trainshed.cluster.images.oci import Descriptor, InvalidImage, Platform
from trainshed.cluster.images.reference import LATEST, Reference
from trainshed.cluster.images.registry.arrival import Arrival
from trainshed.cluster.images.registry.client import ACCEPT, Registry, connected
from trainshed.cluster.images.registry.credentials import Credentials, of_user
from trainshed.cluster.images.registry.errors import RegistryError
from trainshed.cluster.images.registry.mirrors import Endpoint, of_machine
from trainshed.cluster.images.store.store import ImageStore, StoredImage
from trainshed.cluster.sandbox.files import lock

log = logging.getLogger(__name__)

AT_ONCE = 4
ATTEMPTS = 5
RETRY_SECONDS = 0.5
_CHUNK = 1 << 20
_POLL_SECONDS = 0.1
_SCHEMA_1 = "application/vnd.docker.distribution.manifest.v1"


class Progress(msgspec.Struct, frozen=True):
    """How far a blob is. `total` bytes of all; `what`: pulling, pushing, done or there (nothing had to be moved)."""

    digest: str
    what: str
    done: int
    total: int


Tell = Callable[[Progress], None]


def _silent(progress: Progress) -> None:
    return None


async def pull(
    store: ImageStore,
    name: Reference,
    wanted: Platform,
    credentials: Sequence[Credentials] = (),
    tell: Tell = _silent,
) -> StoredImage:
    """Return the image of the name for the platform, now in the store under that name.

    Raises:
        RegistryError: the registry does not have it, does not let us, or cannot be reached.
        InvalidImage: what it has is no image for this platform, or not what its digest says.
        OSError: it cannot be written.
    """
    store.paths.prepare()
    *mirrors, own = of_machine(name)
    with store.paths.in_use():
        for mirror in mirrors:
            known = of_user(mirror.name)
            try:
                data, media_type = await _fetched(store, mirror, wanted, [known] if known else [], tell)
                break
            except (RegistryError, InvalidImage) as error:
                log.warning("mirror %s: %s", mirror.name.domain, error)
        else:
            data, media_type = await _fetched(store, own, wanted, credentials, tell)
        image = store.image(store.blobs.add(data, media_type))
        store.names.set(name, image.descriptor, pulled=True)
        store.touch(image)
    return image


async def _fetched(
    store: ImageStore, where: Endpoint, wanted: Platform, credentials: Sequence[Credentials], tell: Tell
) -> tuple[bytes, str]:
    """Return the manifest of an image, whose parts are in the store now, and its type."""
    name = where.name
    async with connected(name, credentials, insecure=where.insecure) as registry:
        data, media_type = await _manifest(registry, name.digest or name.tag or LATEST)
        alone = media_type not in oci.INDEXES
        for _ in range(3):
            if media_type not in oci.INDEXES:
                break
            chosen = oci.choose(oci.index_of(data).manifests, wanted)
            if chosen is None:
                had = ", ".join(oci.platforms(oci.index_of(data).manifests)) or "none"
                raise InvalidImage(f"{name.familiar} is not for {wanted}; it is for {had}")
            data, media_type = await _manifest(registry, chosen.digest)
        manifest = oci.manifest_of(data)
        if alone:  # nothing but its configuration says what it is for
            await _blob(store, registry, manifest.config, tell)
            config = oci.config_of(store.blobs.read(manifest.config.digest))
            said = Descriptor(oci.OCI_MANIFEST, manifest.config.digest, 0, platform=config.platform)
            if config.os and config.architecture and oci.choose([said], wanted) is None:
                raise InvalidImage(f"{name.familiar} is not for {wanted}; it is for {config.platform}")
        await _several([_blob(store, registry, part, tell) for part in (manifest.config, *manifest.layers)])
    return data, media_type


async def push(
    store: ImageStore,
    image: StoredImage,
    name: Reference,
    credentials: Sequence[Credentials] = (),
    tell: Tell = _silent,
) -> str:
    """Put an image under a name on its registry; return the digest of the manifest there.

    Raises:
        RegistryError: the registry does not let us, or cannot be reached.
        MissingBlob: the store lacks part of the image.
    """
    async with connected(name, credentials) as registry:
        parts = {part.digest: part for part in (*image.manifest.layers, image.manifest.config)}
        await _several([_upload(store, registry, part, tell) for part in parts.values()])
        data = store.blobs.read(image.descriptor.digest)
        headers = {"Content-Type": image.descriptor.media_type}
        path = f"manifests/{name.tag or image.descriptor.digest}"
        async with registry.request(
            "PUT", path, actions="pull,push", ok=(200, 201, 202), headers=headers, data=data
        ):
            return image.descriptor.digest


async def _several(transfers: Sequence[asyncio.Future[None] | object]) -> None:
    """Run transfers, a few at a time; the first error ends the others."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(transfer: object) -> None:
        async with gate:
            assert asyncio.iscoroutine(transfer)
            await transfer

    try:
        async with asyncio.TaskGroup() as tasks:
            for transfer in transfers:
                tasks.create_task(one(transfer))
    except ExceptionGroup as group:
        raise group.exceptions[0] from group


async def _manifest(registry: Registry, which: str) -> tuple[bytes, str]:
    """Return a manifest or index by tag or digest, and its media type."""
    async with registry.request("GET", f"manifests/{which}", headers={"Accept": ACCEPT}) as answer:
        data = await answer.content.read(oci.MAX_DOCUMENT + 1)
        while len(data) <= oci.MAX_DOCUMENT and (more := await answer.content.read(_CHUNK)):
            data += more
        media_type = answer.headers.get("Content-Type", "").partition(";")[0].strip()
        said = which if which.startswith("sha256:") else answer.headers.get("Docker-Content-Digest", "")
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if said.startswith("sha256:") and said != digest:
        raise InvalidImage(f"the registry's manifest of {which} is {digest}, not {said}")
    if media_type.startswith(_SCHEMA_1):
        raise InvalidImage(
            "the image has a manifest of the oldest kind (schema 1), which nobody takes any more"
        )
    return data, media_type if media_type in (*oci.MANIFESTS, *oci.INDEXES) else oci.document_type(data)


async def _blob(store: ImageStore, registry: Registry, part: Descriptor, tell: Tell) -> None:
    if store.blobs.has(part):
        tell(Progress(part.digest, "there", part.size, part.size))
        return
    partial = store.paths.partial / f"pull-{part.digest.removeprefix('sha256:')}"
    async with _alone(partial.with_suffix(".lock")):
        if not store.blobs.has(part):  # another has brought it meanwhile
            await _fetch(store, registry, part, partial, tell)
    tell(Progress(part.digest, "done", part.size, part.size))


@asynccontextmanager
async def _alone(path: Path) -> AsyncIterator[None]:
    """Hold a lock, waiting for other pulls of the same blob, of this or another process."""
    while True:
        try:
            descriptor = lock(path)
            break
        except BlockingIOError:
            await asyncio.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        os.close(descriptor)


async def _fetch(store: ImageStore, registry: Registry, part: Descriptor, partial: Path, tell: Tell) -> None:
    for attempt in range(ATTEMPTS):
        before = partial.stat().st_size if partial.exists() else 0
        try:
            digest = await _download(registry, part, partial, tell)
            break
        except RegistryError as error:
            came = partial.exists() and partial.stat().st_size > before
            if error.status or (attempt == ATTEMPTS - 1 and not came):
                raise
            await asyncio.sleep(RETRY_SECONDS * 2**attempt)
    if digest != part.digest:
        partial.unlink()
        raise InvalidImage(f"{part.digest} was expected; what came is {digest}")
    partial.replace(store.blobs.path(part.digest))


async def _download(registry: Registry, part: Descriptor, partial: Path, tell: Tell) -> str:
    """Bring the file to the size of the blob; return its digest then. Raises RegistryError where it breaks off."""
    with partial.open("ab", buffering=0) as file:
        arrival = await asyncio.to_thread(Arrival, file)
        if arrival.size > part.size:
            arrival.begin_anew()
        if arrival.size == part.size:
            return arrival.digest
        headers = {"Range": f"bytes={arrival.size}-"} if arrival.size else {}
        async with registry.request("GET", f"blobs/{part.digest}", ok=(200, 206), headers=headers) as answer:
            if answer.status == 200 and arrival.size:  # it does not do parts
                arrival.begin_anew()
            async with arrival.writing() as put:
                async for data in answer.content.iter_chunked(_CHUNK):
                    if arrival.size + len(data) > part.size:
                        raise InvalidImage(f"{part.digest} has more than its {part.size} bytes")
                    await put(data)
                    tell(Progress(part.digest, "pulling", arrival.size, part.size))
    if arrival.size < part.size:
        raise RegistryError(f"{part.digest} broke off after {arrival.size} of {part.size} bytes")
    return arrival.digest


async def _upload(store: ImageStore, registry: Registry, part: Descriptor, tell: Tell) -> None:
    both = "pull,push"
    async with registry.request("HEAD", f"blobs/{part.digest}", actions=both, ok=(200, 404)) as answer:
        if answer.status == 200:
            tell(Progress(part.digest, "there", part.size, part.size))
            return
    async with registry.request("POST", "blobs/uploads/", actions=both, ok=(202,)) as answer:
        location = registry.location(answer)
    location += ("&" if "?" in location else "?") + f"digest={part.digest}"

    async def chunks() -> AsyncIterator[bytes]:
        done = 0
        with store.blobs.path(part.digest).open("rb") as file:
            while data := file.read(_CHUNK):
                yield data
                done += len(data)
                tell(Progress(part.digest, "pushing", done, part.size))

    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(part.size)}
    async with registry.request("PUT", location, actions=both, ok=(201, 204), headers=headers, data=chunks):
        tell(Progress(part.digest, "done", part.size, part.size))
