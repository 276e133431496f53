"""Containers whose root is an image: what they see, who they are, and that nothing of the machine is in reach."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.cluster.ordinary_user import python_for_everybody, run_as
from tests.cluster.sandboxes import Sandboxes, log_text
from tests.fakes.images import Archive, put, tiny_root
from trainshed.cluster.images.store import archive
from trainshed.cluster.images.store.store import ImageStore
from trainshed.cluster.sandbox.api import Mount, StartError

ENV = (("PATH", "/usr/bin:/bin"),)
UID = 54324


@pytest.fixture
def store(boxes: Sandboxes) -> ImageStore:
    return ImageStore(boxes.home / "images" / "store")


def lowers(store: ImageStore, *layers: bytes) -> tuple[str, ...]:
    return tuple(map(str, store.lowers(put(store, "tiny", tiny_root(), *layers))))


async def test_the_root_is_the_image_and_nothing_of_the_machine(boxes: Sandboxes, store: ImageStore) -> None:
    changes = (
        Archive().file("etc/added", b"new").file("etc/.wh.group").file("root/.wh..wh..opq").file("root/mine")
    )
    root = lowers(store, Archive().file("root/old").bytes(), changes.bytes())
    script = (
        "ls -a /; ls /etc /root; cat /etc/added; echo; touch /etc/x /bin/y && echo written; ls /.host 2>&1"
    )
    state, output = await boxes.run("p", "sh", "-c", script, root=root, env=ENV)
    assert state.exit_code == 0 or "No such file" in output
    words = output.split()
    assert {"bin", "dev", "etc", "proc", "root", "sys", "tmp", "lib64"} >= set(
        words[2 : words.index("/etc:")]
    ) - {"lib"}
    assert (
        "group" not in words
        and {"mine", "new", "written", "hostname", "resolv.conf"} <= set(words)
        and "old" not in words
    )
    again, output = await boxes.run("q", "sh", "-c", "ls /etc", root=root, env=ENV)
    assert again.exit_code == 0 and "x" not in output.split(), "what a pod writes stays in the pod"


async def test_a_volume_of_the_image_has_its_content_and_can_be_written_to(
    boxes: Sandboxes, store: ImageStore
) -> None:
    """Also with a root that cannot; through links of the image, which lead nowhere else; anew for each container."""
    layer = Archive().file("data/seed", b"seeded").link("linked", "/data").link("out", "../../../../evil")
    root = lowers(store, layer.bytes())
    script = (
        "cat /data/seed; echo; touch /data/mine /fresh/mine && ls /data; touch /etc/x 2>&1; "
        "echo changed > /data/seed; cat /linked/seed"
    )
    fields = {"root": root, "env": ENV, "read_only_root": True, "volumes": ("/data", "/out", "/fresh")}
    _, output = await boxes.run("p", "sh", "-c", script, **fields)
    assert output.split()[:3] == ["seeded", "mine", "seed"], output
    assert "Read-only file system" in output and output.endswith("changed\n")
    assert not Path("/evil").exists()
    _, again = await boxes.run("q", "sh", "-c", "cat /data/seed; ls /fresh", **fields)
    assert again == "seeded", "what one container wrote is not in another's"


async def test_an_image_is_a_volume(boxes: Sandboxes, store: ImageStore) -> None:
    upper = (
        Archive().file("model/w", b"new").file("model/.wh.gone").file("run.sh", b"#!/bin/sh\n", mode=0o755)
    )
    layers = (Archive().file("model/w", b"old").file("model/gone", b"x").bytes(), upper.bytes())
    image = store.lowers(put(store, "me/model", *layers))
    whole = Mount("me/model", "/whole", True, lowers=tuple(map(str, image)))
    part = Mount("me/model", "/part", True, "model", lowers=tuple(map(str, image)))
    script = "cat /whole/model/w; ls /part; touch /part/x 2>&1; /whole/run.sh 2>&1"
    for uid, root in (("p", lowers(store)), ("q", ())):
        _, output = await boxes.run(uid, "sh", "-c", script, root=root, env=ENV, mounts=(whole, part))
        assert output.startswith("neww\n") and "Read-only file system" in output, output
        assert "ermission denied" in output, "programs of a volume are not run"
    await boxes.pod("r")
    lost = Mount("me/model", "/part", True, "nothing/here", lowers=tuple(map(str, image)))
    with pytest.raises(StartError, match=r"cannot mount subPath 'nothing/here' of me/model: .*no such file"):
        await boxes.start("r", "true", root=lowers(store), env=ENV, mounts=(lost,))


@pytest.mark.parametrize(
    ("user", "fields", "expected"),
    [
        ("", {}, "uid=0(root) gid=0(root) groups=0(root) /root"),
        ("app", {}, "uid=1234(app) gid=1235(app) groups=1235(app),1300(extra) /home/app"),
        ("1234:1300", {}, "uid=1234(app) gid=1300(extra) groups=1300(extra) /home/app"),
        ("77", {}, "uid=77 gid=0(root) groups=0(root) /"),
        ("app", {"uid": 0}, "uid=0(root) gid=0(root) groups=0(root) /root"),
        ("app", {"gid": 5}, "uid=1234(app) gid=5 groups=5,1300(extra) /home/app"),
        (
            "app",
            {"strict_groups": True, "supplemental_gids": (7,)},
            "uid=1234(app) gid=1235(app) groups=1235(app),7 /home/app",
        ),
    ],
)
async def test_who_it_runs_as(
    boxes: Sandboxes, store: ImageStore, user: str, fields: dict, expected: str
) -> None:
    if os.geteuid() != 0:
        pytest.skip("without further ids there is one user only")
    state, output = await boxes.run(
        "p", "sh", "-c", "id; echo $HOME", root=lowers(store), env=ENV, user=user, **fields
    )
    assert (state.exit_code, " ".join(output.split())) == (0, expected)
    uid, gid, *groups = (int(number) for number in re.findall(r"[=,](\d+)", expected))
    assert state.user == (uid, gid, *sorted(groups)), "as its status says"


async def test_an_exec_is_the_same_user_in_the_same_root(boxes: Sandboxes, store: ImageStore) -> None:
    await boxes.pod("p")
    await boxes.start("p", "sleep", "60", root=lowers(store), env=ENV, user="app")
    code, output = await boxes.exec("p", "sh", "-c", "id -u; echo $HOME; cat /etc/passwd")
    assert code == 0 and output.decode().split()[:2] == ["1234" if os.geteuid() == 0 else "0", "/home/app"]


async def test_an_unknown_user_is_said(boxes: Sandboxes, store: ImageStore) -> None:
    await boxes.pod("p")
    with pytest.raises(
        StartError, match="unable to find user nobody-here: no matching entries in passwd file"
    ):
        await boxes.start("p", "id", root=lowers(store), env=ENV, user="nobody-here")


USER = """
import asyncio, sys
from pathlib import Path
from trainshed.cluster.images import oci
from trainshed.cluster.images.store import archive
from trainshed.cluster.images.store import archive
from trainshed.cluster.images.store.store import ImageStore
from trainshed.cluster.sandbox.api import ContainerSpec, Runtime, RuntimePaths, SandboxSpec

home = Path(sys.argv[1])
store = ImageStore(home / "store")
with open(sys.argv[2], "rb") as file:
    ((image, _),) = archive.load(store, file, oci.local_platform())
root = tuple(map(str, store.lowers(image)))

async def main():
    runtime = Runtime(RuntimePaths.under(home))
    await runtime.start()
    try:
        await runtime.run_sandbox(SandboxSpec(uid="p", namespace="d", name="p", hostname="p"))
        await runtime.start_container("p", ContainerSpec(
            name="c", argv=("sh", "-c", "id -u; cat /etc/mine; echo $HOME; rm /etc/mine && touch /bin/x && echo wrote"),
            env=(("PATH", "/usr/bin:/bin"),), root=root, user="app", log_path=str(home / "printed"), cwd="/new/work"))
        async with asyncio.timeout(20):
            async for _ in runtime.events():
                break
    finally:
        await runtime.stop_all()

asyncio.run(main())
"""


def test_an_ordinary_user_runs_images(for_everybody: Path, tmp_path: Path) -> None:
    """Without further ids: every file is the caller's, and the image's user is a number that stands for the caller."""
    if os.geteuid() != 0:
        pytest.skip("another user is needed")
    store = ImageStore(tmp_path / "store")
    image = put(
        store,
        "me/app:1",
        tiny_root(),
        Archive().file("etc/mine", b"of the image\n", uid=7, mode=0o600).bytes(),
    )
    file = for_everybody / "image.tar"
    with file.open("wb") as target:
        archive.save(store, [(image, store.names_of(image.descriptor))], target)
    file.chmod(0o644)
    home = for_everybody / "home"
    home.mkdir(mode=0o700)
    os.chown(home, UID, UID)
    done = run_as(UID, python_for_everybody(UID), "-c", USER, str(home), str(file))
    assert done.returncode == 0, done.stderr
    assert log_text(home / "printed").splitlines() == ["1234", "of the image", "/home/app", "wrote"]


@pytest.mark.parametrize("target", ["/", "/.host", "/.host/tmp", "../../../..", "/proc/1/root"])
async def test_links_of_an_image_lead_nowhere(
    boxes: Sandboxes, store: ImageStore, tmp_path: Path, target: str
) -> None:
    """Where mounts, the working directory and the pseudo file systems are to be, the image has links out."""
    links = Archive()
    for name in ("dev", "proc", "sys", "mnt", "work"):
        links.link(name, target)
    links.file("etc/.wh.hosts").link("etc/hosts", f"{target}/etc/hosts").link(
        "etc/passwd", f"{target}/etc/shadow"
    )
    volume = tmp_path / "volume"
    volume.mkdir()
    before = sorted(Path("/").iterdir())
    mark = f"escaped-{os.getpid()}"
    mounts = (Mount(str(volume), f"/mnt/{mark}"), Mount(str(volume), f"/work/tmp/{mark}"))
    await boxes.pod("p")
    try:
        await boxes.start(
            "p", "sh", "-c", "ls /; cat /etc/shadow; sleep 0", root=lowers(store, links.bytes()), env=ENV,
            mounts=mounts, cwd=f"/work/{mark}",
        )  # fmt: skip
    except StartError:
        pass  # refused is as good
    else:
        await boxes.end("p")
        assert "root:" not in boxes.output("p")
    assert sorted(Path("/").iterdir()) == before
    assert not [place for place in ("/", "/tmp", "/etc", "/root") if (Path(place) / mark).exists()]
