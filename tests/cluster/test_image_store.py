"""The store as a whole: names, archives in and out, what is deleted, and the commands on it."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from tests.fakes.images import Archive, digest, put
from trainshed.cli.main import app
from trainshed.cluster.images import oci
from trainshed.cluster.images.oci import InvalidImage
from trainshed.cluster.images.reference import InvalidReference, parse
from trainshed.cluster.images.store import archive, garbage, notes
from trainshed.cluster.images.store.space import Space
from trainshed.cluster.images.store.store import ImageStore, UnknownImage
from trainshed.cluster.images.store.usage import usage_of
from trainshed.cluster.node.imagekeeper import ImageKeeper
from trainshed.kube.meta.plan import Event

LOCAL = oci.local_platform()
NOW = 2_000_000_000.0
ONE = Archive().file("one", b"1").bytes()
BAD_INDEX = b'{"manifests": [{"mediaType": "x", "digest": "..", "size": 1}]}'
TWO = Archive().file("two", b"2").bytes()


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "store")


def saved(store: ImageStore, *names: str) -> io.BytesIO:
    target = io.BytesIO()
    archive.save(store, [(store.get(name), [parse(name)]) for name in names], target)
    target.seek(0)
    return target


def names_in(file: Path) -> set[str]:
    with tarfile.open(file) as opened:
        return set(opened.getnames())


def test_names_and_ids_find_an_image(store: ImageStore) -> None:
    image = put(store, "me/app:1", ONE)
    assert store.tag("me/app:1", "localhost:5000/app").familiar == "localhost:5000/app:latest"
    for name in (
        "me/app:1",
        "docker.io/me/app:1",
        "localhost:5000/app",
        image.id,
        image.id[7:19],
        image.descriptor.digest,
    ):
        assert store.get(name).id == image.id, name
    assert store.find(parse(f"me/app@{image.descriptor.digest}")) == image
    for name in ("me/app", "me/other:1", "00000000"):
        with pytest.raises(UnknownImage):
            store.get(name)
    with pytest.raises(InvalidReference, match="not by a digest"):
        store.tag("me/app:1", f"x@{image.id}")
    layout = json.loads((store.paths.root / "index.json").read_text())
    assert [one["annotations"]["org.opencontainers.image.ref.name"] for one in layout["manifests"]] == [
        "docker.io/me/app:1",
        "localhost:5000/app:latest",
    ]


def test_what_was_saved_is_loaded_the_same(store: ImageStore, tmp_path: Path) -> None:
    put(store, "me/app:1", ONE, TWO, entrypoint=("x",))
    put(store, "me/other:1", ONE)
    for compressed in (False, True):
        other = ImageStore(tmp_path / f"other-{compressed}")
        source = saved(store, "me/app:1", "me/other:1")
        if compressed:
            source = io.BytesIO(gzip.compress(source.getvalue()))
        loaded = archive.load(other, source, LOCAL)
        assert sorted(str(name) for _, names in loaded for name in names) == [
            "docker.io/me/app:1",
            "docker.io/me/other:1",
        ]
        assert other.get("me/app:1") == store.get("me/app:1")
        assert (other.lowers(other.get("me/app:1"))[0] / "two").read_text() == "2"


def test_an_archive_of_an_older_docker(store: ImageStore) -> None:
    """`docker save` before 25: layers are plain archives in directories; one that two images have is a link."""
    config = json.dumps(
        {"architecture": LOCAL.architecture, "os": "linux", "config": {"Cmd": ["run"], "Env": None},
         "rootfs": {"type": "layers", "diff_ids": [digest(ONE), digest(TWO)]}}
    ).encode()  # fmt: skip
    manifest = [
        {"Config": "abc.json", "RepoTags": ["me/old:1"], "Layers": ["one/layer.tar", "two/layer.tar"]}
    ]
    outer = (
        Archive()
        .file("abc.json", config)
        .file("real/layer.tar", ONE)
        .link("one/layer.tar", "../real/layer.tar")
    )
    outer.file("two/layer.tar", TWO).file("manifest.json", json.dumps(manifest).encode())
    ((image, names),) = archive.load(store, io.BytesIO(outer.bytes()), LOCAL)
    assert [name.familiar for name in names] == ["me/old:1"] and image.config.run.cmd == ("run",)
    assert [path.name for path in store.lowers(image)] == [digest(TWO)[7:], digest(ONE)[7:]]


def test_an_index_in_a_layout_leads_to_this_platform(store: ImageStore, tmp_path: Path) -> None:
    other = ImageStore(tmp_path / "other")
    mine = put(other, "me/app:1", ONE)
    foreign = put(other, "me/foreign:1", TWO, platform="linux/s390x")
    plain = [
        {"mediaType": one.descriptor.media_type, "digest": one.descriptor.digest, "size": one.descriptor.size,
         "platform": {"os": "linux", "architecture": one.config.architecture}}
        for one in (foreign, mine)
    ]  # fmt: skip
    index = json.dumps({"schemaVersion": 2, "mediaType": oci.OCI_INDEX, "manifests": plain}).encode()
    outer = Archive()
    for image in (mine, foreign):
        for part in (image.descriptor, image.manifest.config, *image.manifest.layers):
            outer.file(f"blobs/sha256/{part.digest[7:]}", other.blobs.path(part.digest).read_bytes())
    outer.file(f"blobs/sha256/{digest(index)[7:]}", index)
    top = {"schemaVersion": 2, "manifests": [
        {"mediaType": oci.OCI_INDEX, "digest": digest(index), "size": len(index),
         "annotations": {"io.containerd.image.name": "docker.io/me/app:2"}}]}  # fmt: skip
    outer.file("index.json", json.dumps(top).encode())
    data = outer.bytes()
    ((image, _),) = archive.load(store, io.BytesIO(data), LOCAL)
    assert image.id == mine.id == store.get("me/app:2").id
    ((image, _),) = archive.load(store, io.BytesIO(data), oci.parse_platform("linux/s390x"))
    assert image.id == foreign.id
    with pytest.raises(InvalidImage, match="it is for linux/s390x, linux/"):
        archive.load(store, io.BytesIO(data), oci.parse_platform("linux/ppc64le"))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not an archive"),
        (b"text" * 500, "not an archive"),
        (Archive().file("x").bytes(), "neither index.json nor manifest.json"),
        (Archive().file("manifest.json", b"[{}]").bytes(), "malformed"),
        (Archive().file("manifest.json", b'[{"Config": "../../etc/passwd", "Layers": []}]').bytes(), "no file"),
        (Archive().file("index.json", BAD_INDEX).bytes(), "no sha256"),
    ],
)  # fmt: skip
def test_archives_that_are_refused(store: ImageStore, data: bytes, said: str) -> None:
    with pytest.raises(InvalidImage, match=said):
        archive.load(store, io.BytesIO(data), LOCAL)
    assert not store.all()


def test_a_blob_that_is_another_leaves_no_image(store: ImageStore, tmp_path: Path) -> None:
    other = ImageStore(tmp_path / "other")
    image = put(other, "me/app:1", ONE)
    layer = other.blobs.path(image.manifest.layers[0].digest)
    layer.write_bytes(layer.read_bytes()[:-1] + b"x")
    with pytest.raises(InvalidImage, match="was expected"):
        archive.load(store, saved(other, "me/app:1"), LOCAL)
    assert not store.all()


def test_what_nothing_refers_to_is_deleted_and_nothing_else(store: ImageStore, tmp_path: Path) -> None:
    pods = tmp_path / "pods"
    first, second = put(store, "me/app:1", ONE, TWO), put(store, "me/app:2", ONE)
    third = put(store, "me/run:1", TWO)
    for image in (first, second, third):
        store.lowers(image)
    notes.note(pods / "uid", store.lowers(third))
    store.names.remove("docker.io/me/app:1", "docker.io/me/run:1")
    with store.paths.in_use(), pytest.raises(garbage.Busy):
        garbage.collect(store, pods)
    freed = garbage.collect(store, pods)
    # A pod runs on TWO unpacked; ONE has a name.
    assert freed.layers == 0 and freed.blobs == 5
    assert {path.name for path in store.paths.layers.iterdir()} == {digest(ONE)[7:], digest(TWO)[7:]}
    assert store.get("me/app:2").id == second.id
    (pods / "uid" / notes.NOTE).unlink()
    assert garbage.collect(store, pods).layers == 1
    store.names.remove("docker.io/me/app:2")
    garbage.collect(store, pods)
    assert not list(store.paths.blobs.iterdir()) and not list(store.paths.layers.iterdir())


def aged(store: ImageStore, **seconds: float) -> None:
    """Let images have been used so long before `NOW`; by the tag of `me/app`."""
    for tag, ago in seconds.items():
        image = store.get(f"me/app:{tag}")
        store.touch(image)
        os.utime(store.paths.used / image.descriptor.digest[7:], (NOW - ago, NOW - ago))


def pulled(store: ImageStore, tag: str, *layers: bytes) -> None:
    image = put(store, f"me/app:{tag}", *layers)
    store.names.set(parse(f"me/app:{tag}"), image.descriptor, pulled=True)
    store.lowers(image)


def left(store: ImageStore) -> set[str]:
    return {name.tag for name in store.all()}


def test_the_least_recently_used_that_can_be_had_again_go_first(store: ImageStore, tmp_path: Path) -> None:
    pods = tmp_path / "pods"
    bulk = {name: Archive().file(name, os.urandom(1 << 20)).bytes() for name in "abcde"}
    for tag in "abcde":
        pulled(store, tag, bulk[tag])
    put(store, "me/app:built", Archive().file("f", os.urandom(1 << 20)).bytes())
    store.names.pin("docker.io/me/app:b", True)
    notes.note(pods / "uid", store.lowers(store.get("me/app:a")))
    aged(store, a=9000, b=8000, c=7000, d=6000, e=60, built=9999)
    usage = usage_of(store, pods)
    assert usage.bytes > 11 << 20 and (4 << 20) < usage.reclaimable < usage.bytes
    nothing = garbage.shrink(store, pods, Space(bytes=usage.bytes * 2), NOW)
    assert nothing == garbage.Shrunk() and len(left(store)) == 6
    # One image has to go: c, since a runs, b is pinned, and what was built here is nowhere else.
    space = Space(bytes=usage.bytes, low=90, high=95)
    shrunk = garbage.shrink(store, pods, space, NOW)
    assert shrunk.images == ("docker.io/me/app:c",) and shrunk.bytes >= shrunk.wanted > 0
    assert left(store) == {"a", "b", "d", "e", "built"}
    assert usage_of(store, pods).bytes == usage.bytes - shrunk.bytes
    shrunk = garbage.shrink(store, pods, Space(bytes=1), NOW)
    assert shrunk.too_little and left(store) == {"a", "b", "e", "built"}  # e was used a minute ago
    with store.paths.in_use(), pytest.raises(garbage.Busy):
        garbage.shrink(store, pods, Space(bytes=1), NOW)


async def test_the_keeper_says_what_a_kubelet_says(store: ImageStore, tmp_path: Path) -> None:
    told: list[Event] = []
    space = tmp_path / "space.json"
    keeper = ImageKeeper(store, tmp_path / "pods", space, told.append, lambda: NOW)
    pulled(store, "a", ONE)
    put(store, "me/app:built", TWO)
    aged(store, a=9000)
    assert await keeper.look() and not told and left(store) == {"a", "built"}
    space.write_bytes(msgspec.json.encode(Space(bytes=100)))
    assert await keeper.look() and left(store) == {"built"}
    (event,) = told
    assert event.reason == "FreeDiskSpaceFailed"
    assert event.message.startswith("Failed to garbage collect required amount of images. Attempted to free ")
    assert await keeper.look()
    assert [each.reason for each in told[1:]] == ["FreeDiskSpaceFailed", "ImageGCFailed"]
    pulled(store, "a", ONE)
    aged(store, a=9000)
    with store.paths.in_use():
        assert not await keeper.look()  # somebody pulls or builds: later
        assert await keeper.reclaim(1) == 0
    assert await keeper.reclaim(1) > 0 and left(store) == {"built"}


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINSHED_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    run = CliRunner().invoke
    store = ImageStore(tmp_path / "home" / "images" / "store")
    (tmp_path / "home").mkdir(mode=0o700)
    image = put(store, "me/app:1", ONE, cmd=("x",))

    def lines(*arguments: str, code: int = 0) -> list[str]:
        done = run(app, ["image", *arguments])
        assert done.exit_code == code, (arguments, done.output, done.exception)
        return done.output.splitlines()

    head, row, used = lines("ls")
    assert row.endswith("made here") and used.endswith(" are theirs") and " on disk; " in used
    assert head.split()[:4] == ["REPOSITORY", "TAG", "IMAGE", "ID"] and row.split()[:3] == [
        "me/app",
        "1",
        image.id[7:19],
    ]
    assert json.loads("".join(lines("ls", "-o", "json")))[0]["digest"] == image.descriptor.digest
    assert lines("tag", "me/app:1", "other") == ["me/app:1 is also other:latest"]
    assert json.loads("".join(lines("inspect", "other")))[0]["names"] == ["other:latest", "me/app:1"]
    file = tmp_path / "image.tar"
    lines("save", "other", "me/app:1", "-o", str(file))
    assert {"oci-layout", "index.json", "manifest.json"} <= names_in(file)
    assert lines("rm", "other")[0] == "untagged: other:latest" and store.get("me/app:1")
    assert lines("rm", image.id[7:19])[0] == "untagged: me/app:1" and not store.names.all()
    assert not list(store.paths.blobs.iterdir())
    assert sorted(lines("load", "-i", str(file))) == ["loaded me/app:1", "loaded other:latest"]
    assert lines("history", "other")[0].split() == ["CREATED", "CREATED", "BY", "SIZE", "COMMENT"]
    assert "no image nope in the store" in lines("inspect", "nope", code=1)[0]
    assert "invalid reference format" in lines("tag", "other", "Not:A:Name", code=1)[0]
    gone, nowhere = str(tmp_path / "no.tar"), str(tmp_path / "no" / "x.tar")
    assert lines("load", "-i", gone, code=1) == [f"error: {gone}: No such file or directory"]
    assert lines("save", "other", "-o", nowhere, code=1) == [f"error: {nowhere}: No such file or directory"]
    assert lines("save", "other", "-o", str(tmp_path), code=1) == [f"error: {tmp_path}: Is a directory"]
    monkeypatch.delenv("COLUMNS")
    store.tag("other", f"registry.example.com/{'long/' * 12}name:1")
    assert f"registry.example.com/{'long/' * 12}name " in "".join(lines("ls")), "whole, in a pipe"
    lines("rm", f"registry.example.com/{'long/' * 12}name:1")
    monkeypatch.setenv("COLUMNS", "200")
    assert "is no platform" in lines("load", "-i", str(file), "--platform", "odd", code=1)[0]
    pulled(store, "old", Archive().file("old", b"old").bytes())
    aged(store, old=NOW - 10)
    assert lines("pin", "me/app:old") == ["me/app:old is pinned"]
    assert [one["kept"] for one in json.loads("".join(lines("ls", "-o", "json")))] == [
        "made here",
        "made here",
        "pinned",
    ]
    assert lines("prune", "--keep-storage", "1") == ["freed 0B"]
    lines("pin", "--off", "me/app:old")
    assert lines("prune", "--keep-storage", "1")[0] == "untagged: me/app:old"
    assert left(store) == {"1", "latest"}
    assert "write it as 40Gi" in "".join(lines("prune", "--keep-storage", "much", code=1))
    assert "add --yes" in "".join(lines("prune", "--all", code=1))
    lines("prune", "--all", "--yes")
    wrong = run(app, ["up", "--image-gc-high-threshold", "70"])
    assert wrong.exit_code == 1 and "--image-gc-low-threshold 80 must be less" in wrong.output
    assert not store.names.all()
