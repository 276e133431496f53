"""Layers on this kernel: what becomes of their entries, and that a hostile one reaches nothing."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.fakes.images import GZIP, Archive, digest
from trainshed.cluster.images import oci
from trainshed.cluster.images.oci import Descriptor, InvalidImage
from trainshed.cluster.images.store import confined
from trainshed.cluster.images.store.store import ImageStore
from trainshed.cluster.sandbox.files import remove_tree


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ImageStore]:
    """A store that is deleted at the end: pytest cannot delete trees as deep as some here."""
    store = ImageStore(tmp_path / "store")
    store.paths.prepare()
    yield store
    remove_tree(str(store.paths.root))


def unpack(
    store: ImageStore, archive: Archive | bytes, media_type: str = GZIP, data: bytes | None = None
) -> Path:
    plain = archive if isinstance(archive, bytes) else archive.bytes()
    one = store.blobs.add(gzip.compress(plain, 1) if data is None else data, media_type)
    return store.layers.ensure(one, digest(plain))


def listing(directory: Path) -> dict[str, Any]:
    return {str(path.relative_to(directory)): path.lstat() for path in directory.rglob("*")}


def test_entries_keep_what_they_are(store: ImageStore) -> None:
    archive = Archive().directory("a", mode=0o750, mtime=5).file("a/f", b"text", mode=0o4711, mtime=1.5)
    archive.hard_link("a/same", "./a/f").link("a/l", "/nowhere").file("/absolute", b"x").file(
        "deep/er/file", b"y"
    )
    archive.entry("pipe", tarfile.FIFOTYPE, mode=0o600).entry(
        "dev/null", tarfile.CHRTYPE, devmajor=1, devminor=3
    )
    archive.file(
        "a/f",
        b"again",
        mode=0o755,
        pax_headers={"SCHILY.xattr.user.kept": "v", "SCHILY.xattr.user.overlay.opaque": "y"},
    )
    found = unpack(store, archive)
    entries = listing(found)
    assert (found / "a/f").read_text() == "again" and (found / "a/same").read_text() == "text"
    assert stat.S_IMODE(entries["a/f"].st_mode) == 0o755 and stat.S_IMODE(entries["a"].st_mode) == 0o750
    assert entries["a/same"].st_mtime == 1.5 and stat.S_IMODE(entries["a/same"].st_mode) == 0o4711
    assert entries["a"].st_mtime == 5, "a directory keeps its time although files came into it"
    assert str((found / "a/l").readlink()) == "/nowhere" and (found / "absolute").read_text() == "x"
    assert stat.S_ISFIFO(entries["pipe"].st_mode) and "dev/null" not in entries
    assert os.listxattr(found / "a/f") == ["user.kept"]


def test_whiteouts_are_overlayfs_own(store: ImageStore) -> None:
    archive = (
        Archive().file("etc/.wh.gone").file("opaque/.wh..wh..opq").file("opaque/new").file(".wh..wh.plnk")
    )
    archive.file(".wh.remade").directory("remade").directory("own").file("own/x").file(".wh.own")
    found = unpack(store, archive)
    gone = (found / "etc/gone").lstat()
    assert stat.S_ISCHR(gone.st_mode) and gone.st_rdev == 0
    for name in ("opaque", "remade", "own"):
        assert os.getxattr(found / name, "user.overlay.opaque") == b"y", name
    assert (found / "own/x").exists() and not list(found.glob(".wh*"))


TRAPS: dict[str, Archive] = {
    "dots": Archive().file("../escaped"),
    "dots within": Archive().file("a/../../escaped"),
    "link then through it": Archive().link("l", "/").file("l/escaped"),
    "relative link then through it": Archive().link("l", "../../../../../../..").file("l/escaped"),
    "link to the store": Archive().link("l", "../../blobs").file("l/sha256/escaped"),
    "link over a directory": Archive().directory("d").link("d", "/tmp").file("d/escaped"),
    "hard link out": Archive().hard_link("h", "../../../../../etc/passwd"),
    "hard link through a link": Archive().link("l", "/etc").hard_link("h", "l/passwd"),
    "hard link to the host": Archive().hard_link("h", "/etc/passwd"),
    "hard link to the root": Archive().hard_link("h", "/"),
    "whiteout of the parent": Archive().file("a/.wh..."),
    "whiteout of itself": Archive().file("a/.wh.."),
    "whiteout of nothing": Archive().file("a/.wh."),
    "long name": Archive().file("a/" * 4000 + "x"),
    "long part": Archive().file("x" * 300),
    "huge header": Archive().file("x", pax_headers={"comment": "x" * (2 << 20)}),
    "deep": Archive().file("d/" * 300 + "x"),
    "block device": Archive().entry("disk", tarfile.BLKTYPE, devmajor=8, devminor=0),
    "proc": Archive().link("p", "/proc/1/root").file("p/escaped").link("q", "/proc/self/cwd").file("q/escaped"),
    "overlay names": Archive().file("f", pax_headers={"SCHILY.xattr.trusted.overlay.redirect": "/etc"}),
    "unknown kind": Archive().entry("odd", b"Z"),
    "negative": Archive().file("x", pax_headers={"size": "-1048576"}).file("y", b"x" * 600),
    "odd numbers": Archive().file("x", pax_headers={"mtime": "nan", "uid": "99999999999999999999"}),
}  # fmt: skip


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_is_refused_or_stays_in_the_layer(store: ImageStore, trap: str, tmp_path: Path) -> None:
    """Whatever the archive says, nothing is written beside its directory and no file of the machine is had."""
    outside = [
        Path("/"),
        Path("/tmp"),
        Path("/etc"),
        tmp_path,
        store.paths.root,
        store.paths.blobs,
        store.paths.layers,
    ]
    before = {place: {path.name for path in place.iterdir()} for place in outside}
    links = Path("/etc/passwd").stat().st_nlink
    plain = TRAPS[trap].bytes()
    try:
        found = unpack(store, plain)
    except (InvalidImage, OSError):
        assert not list(store.paths.layers.iterdir()), "what is refused is not kept"
        assert not [path for path in store.paths.partial.iterdir() if path.is_dir()]
    else:
        for path, entry in listing(found).items():
            assert not stat.S_ISBLK(entry.st_mode) and (
                not stat.S_ISCHR(entry.st_mode) or entry.st_rdev == 0
            ), path
            assert not [
                name for name in os.listxattr(found / path, follow_symlinks=False) if "overlay" in name
            ]
            if stat.S_ISREG(entry.st_mode):
                assert b"root:" not in (found / path).read_bytes()
    assert Path("/etc/passwd").stat().st_nlink == links
    for place, names in before.items():
        new = {path.name for path in place.iterdir()} - names - {digest(plain)[7:]}
        assert not [name for name in new if "escaped" in name], place


def test_what_must_be_refused_is(store: ImageStore) -> None:
    for trap in (
        "dots",
        "hard link out",
        "hard link to the host",
        "whiteout of the parent",
        "huge header",
        "unknown kind",
    ):
        with pytest.raises(InvalidImage):
            unpack(store, TRAPS[trap].bytes())
    with pytest.raises(InvalidImage, match="not a tar archive"):
        unpack(store, b"x" * 2000)


def test_a_sparse_file_costs_what_is_in_it(store: ImageStore) -> None:
    """200 GiB of nothing around a block, neither read nor written."""
    block = 512
    content = b"1\n3584\n512\n".ljust(block, b"\0") + b"x" * block
    header = tarfile.TarInfo("real")
    header.size = len(content)
    header.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "sparse",
        "GNU.sparse.realsize": str(200 << 30),
    }
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as outer:
        outer.addfile(header, io.BytesIO(content))
    file = unpack(store, target.getvalue()) / "sparse"
    found = file.stat()
    assert found.st_size == 200 << 30 and found.st_blocks < 100
    with file.open("rb") as opened:
        opened.seek(block * 6)
        assert opened.read(block * 3) == b"\0" * block + b"x" * block + b"\0" * block


def test_a_layer_that_the_disk_has_no_room_for_is_refused(
    store: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bomb of zeros is a few KiB in the registry."""
    monkeypatch.setattr(confined, "_room", lambda directory: (1 << 20, 100))
    with pytest.raises(
        InvalidImage, match=r"more than 0\.000977 GiB, which is all that the disk has room for"
    ):
        unpack(store, Archive().file("bomb", bytes(1 << 20)).file("more", b"x").bytes())
    assert unpack(store, Archive().file("fits", bytes(1 << 20)).bytes())
    assert not list(store.paths.partial.glob("layer-*"))


def test_a_layer_of_more_files_than_the_disk_has_room_for_is_refused(
    store: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty files take no bytes, and all of the disk's files."""
    monkeypatch.setattr(confined, "_room", lambda directory: (1 << 20, 3))
    assert unpack(store, Archive().file("a").file("b").file("c"))
    with pytest.raises(InvalidImage, match="more than 3 entries, which is all that the disk has room for"):
        unpack(store, Archive().file("a").file("b").file("c").file("d"))
    assert not list(store.paths.partial.glob("layer-*"))


def test_what_unpacking_needs_does_not_grow_with_the_entries(store: ImageStore) -> None:
    """An archive's reader keeps all that it has read unless told not to: here more than unpacking may have."""
    archive = Archive()
    wide = {"comment": "\U0001f600" + "x" * 900_000}  # four bytes in memory for each character
    for number in range(320):
        archive.file(f"f{number}", pax_headers=wide)
    assert len(list(unpack(store, archive).iterdir())) == 320


def test_a_layer_that_is_another(store: ImageStore) -> None:
    plain = Archive().file("x").bytes()
    one = store.blobs.add(gzip.compress(plain), GZIP)
    with pytest.raises(InvalidImage, match="the configuration says"):
        store.layers.ensure(one, digest(b"other"))
    with pytest.raises(InvalidImage, match="ends before its gzip does"):
        unpack(store, plain, data=gzip.compress(plain)[:-10])
    with pytest.raises(InvalidImage, match="not gzip"):
        unpack(store, plain, data=b"no gzip at all")
    assert not list(store.paths.layers.iterdir())


@pytest.mark.parametrize("kind", ["plain", "gzip", "gzip members", "zstd", "zstd frames"])
def test_every_compression_gives_the_same_layer(store: ImageStore, kind: str) -> None:
    plain = Archive().file("big", os.urandom(100) * 30_000).bytes()
    half = len(plain) // 2
    data, media_type = {
        "plain": (plain, oci.OCI_LAYER),
        "gzip": (gzip.compress(plain), GZIP),
        "gzip members": (gzip.compress(plain[:half]) + gzip.compress(plain[half:]) + b"\0" * 512, GZIP),
        "zstd": (zstandard.compress(plain), f"{oci.OCI_LAYER}+zstd"),
        "zstd frames": (
            zstandard.compress(plain[:half]) + zstandard.compress(plain[half:]),
            f"{oci.OCI_LAYER}+zstd",
        ),
    }[kind]
    assert (unpack(store, plain, media_type, data) / "big").stat().st_size == 3_000_000


def test_two_at_once_unpack_it_once(store: ImageStore) -> None:
    plain = Archive().file("x", b"y" * 1_000_000).bytes()
    one = store.blobs.add(gzip.compress(plain), GZIP)
    inodes: list[int] = []
    threads = [
        threading.Thread(target=lambda: inodes.append(store.layers.ensure(one, digest(plain)).stat().st_ino))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(inodes) == 3 and len(set(inodes)) == 1
    assert not [path for path in store.paths.partial.iterdir() if path.is_dir()]


def test_bytes_are_what_their_digest_says(store: ImageStore) -> None:
    expected = Descriptor(GZIP, digest(b"right"), 5)
    for wrong in (b"wrong", b"righ", b"right and more"):
        with pytest.raises(InvalidImage):
            store.blobs.add_stream(expected, [wrong])
    assert not store.blobs.has(expected) and not list(store.paths.partial.iterdir())
    store.blobs.add_stream(expected, [b"ri", b"ght"])
    assert store.blobs.read(expected.digest) == b"right"
    store.blobs.path(expected.digest).write_bytes(b"other")
    with pytest.raises(InvalidImage, match="not what its digest says"):
        store.blobs.read(expected.digest)
