"""Images made on the spot: archives entry by entry, and a root of this machine's own shell and tools."""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from trainshed.cluster.images import oci
from trainshed.cluster.images.oci import Descriptor, ImageConfig, Manifest, RootFs, RunConfig
from trainshed.cluster.images.reference import parse
from trainshed.cluster.images.store.store import ImageStore, StoredImage

TOOLS = (
    "sh",
    "cat",
    "ls",
    "id",
    "env",
    "mkdir",
    "touch",
    "rm",
    "sleep",
    "stat",
    "echo",
    "chmod",
    "chown",
    "readlink",
    "ln",
)
PATH = "PATH=/usr/bin:/bin"
GZIP = f"{oci.OCI_LAYER}+gzip"


class Archive:
    """A tar archive under construction. Names are written as they are given."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._tar = tarfile.TarFile(fileobj=self._buffer, mode="w", format=tarfile.PAX_FORMAT)

    def file(self, name: str, data: bytes = b"", /, **fields: Any) -> Archive:
        return self.entry(name, tarfile.REGTYPE, data, **fields)

    def directory(self, name: str, **fields: Any) -> Archive:
        return self.entry(name, tarfile.DIRTYPE, **{"mode": 0o755, **fields})

    def link(self, name: str, target: str) -> Archive:
        return self.entry(name, tarfile.SYMTYPE, linkname=target)

    def hard_link(self, name: str, target: str) -> Archive:
        return self.entry(name, tarfile.LNKTYPE, linkname=target)

    def entry(self, name: str, kind: bytes, data: bytes = b"", **fields: Any) -> Archive:
        member = tarfile.TarInfo(name)
        member.type, member.size, member.mode = kind, len(data), 0o644
        for field, value in fields.items():
            setattr(member, field, value)
        self._tar.addfile(member, io.BytesIO(data))
        return self

    def bytes(self) -> bytes:
        self._tar.close()
        return self._buffer.getvalue()


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def put(
    store: ImageStore, name: str, *layers: bytes, compress: bool = True, platform: str = "", **run: Any
) -> StoredImage:
    """Store an image of plain archives, the lowest first; `run` are fields of its configuration."""
    store.paths.prepare()
    descriptors: list[Descriptor] = []
    for plain in layers:
        data = gzip.compress(plain, 1, mtime=0) if compress else plain
        descriptors.append(store.blobs.add(data, GZIP if compress else oci.OCI_LAYER))
    wanted = oci.parse_platform(platform) if platform else oci.local_platform()
    config = ImageConfig(
        architecture=wanted.architecture,
        os=wanted.os,
        config=RunConfig(**{"env": (PATH,), **run}),
        rootfs=RootFs(tuple(digest(plain) for plain in layers)),
    )
    manifest = Manifest(
        config=store.blobs.add(config.encoded(), oci.OCI_CONFIG),
        layers=tuple(descriptors),
    )
    return store.put(manifest, parse(name))


@functools.cache
def tiny_root() -> bytes:
    """Return the archive of a root with a shell and a few tools: this machine's, and what they load."""
    archive = Archive()
    for name in ("bin", "etc", "tmp", "root"):
        archive.directory(name, mode=0o1777 if name == "tmp" else 0o755)
    libraries: set[str] = set()
    for tool in TOOLS:
        found = shutil.which(tool, path="/usr/bin:/bin")
        if found is None:
            continue
        archive.file(f"bin/{tool}", Path(found).read_bytes(), mode=0o755)
        libraries |= _libraries(found)
    for library in sorted(libraries):
        archive.file(library.lstrip("/"), Path(library).read_bytes(), mode=0o755)
    archive.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\napp:x:1234:1235::/home/app:/bin/sh\n")
    archive.file("etc/group", b"root:x:0:\napp:x:1235:\nextra:x:1300:app\n")
    return archive.bytes()


def _libraries(program: str) -> set[str]:
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    return {os.path.normpath(path) for path in re.findall(r"(/\S+) \(0x", done.stdout)}
