"""Building images: what each instruction leaves in the image, what is done again, and what cannot get out."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import http.server
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.ordinary_user import python_for_everybody, run_as
from tests.cluster.sandboxes import until
from tests.fakes.images import Archive, put, tiny_root
from tests.processes import processes_with
from trainshed.cluster.images import oci
from trainshed.cluster.images.building.base import Bases
from trainshed.cluster.images.building.builder import Builder, Parts
from trainshed.cluster.images.building.context import Context, load_ignore
from trainshed.cluster.images.building.errors import BuildFailed
from trainshed.cluster.images.building.progress import Outcome
from trainshed.cluster.images.building.sandbox import BuildSandbox
from trainshed.cluster.images.compression import decompressed
from trainshed.cluster.images.dockerfile.parse import parse
from trainshed.cluster.images.dockerfile.planning import plan as plan_of
from trainshed.cluster.images.dockerfile.steps import Options
from trainshed.cluster.images.oci import Platform
from trainshed.cluster.images.reference import Reference
from trainshed.cluster.images.reference import parse as reference
from trainshed.cluster.images.store import garbage
from trainshed.cluster.images.store.store import ImageStore, StoredImage

ROOT = os.geteuid() == 0


class Recorder:
    """Keeps what a build tells."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[str, Outcome]] = []
        self.printed = ""

    def begin(self, title: str) -> RecordedTask:
        return RecordedTask(self, title)


class RecordedTask:
    def __init__(self, recorder: Recorder, title: str) -> None:
        self._recorder, self._title = recorder, title

    def output(self, data: bytes) -> None:
        self._recorder.printed += data.decode()

    def status(self, text: str) -> None:
        """Not kept."""

    def end(self, outcome: Outcome) -> None:
        self._recorder.outcomes.append((self._title, outcome))


class Site:
    """A state directory with a store that has `tiny`, and a build context."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.context = home / "context"
        self.context.mkdir(parents=True)
        self.store = ImageStore(home / "images" / "store")
        self.recorder = Recorder()
        put(self.store, "tiny", tiny_root())

    def file(self, name: str, data: str | bytes = "", mode: int = 0o644) -> Path:
        path = self.context / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        path.chmod(mode)
        return path

    async def build(
        self, text: str, *, secrets: dict[str, Path] | None = None, use_cache: bool = True, **options: object
    ) -> StoredImage:
        """Build `built:1` of a Dockerfile; `machine:*` is this machine's root."""

        async def never(name: Reference, wanted: Platform) -> StoredImage:
            raise AssertionError(f"{name} is not pulled")

        self.recorder = Recorder()
        chosen = Options(platform=oci.local_platform(), **options)  # type: ignore[arg-type]
        plan = plan_of(parse(text), chosen)
        builds = self.home / "builds"
        async with asyncio.timeout(120), BuildSandbox(builds, [str(self.home)]) as sandbox:
            parts = Parts(
                store=self.store,
                bases=Bases(self.store, {"machine:*": "machine"}, never, chosen.platform, again=False),
                context=Context(self.context, load_ignore(self.context, None)),
                sandbox=sandbox,
                progress=self.recorder,
                caches=self.home / "caches",
                secrets=secrets or {},
                use_cache=use_cache,
            )
            try:
                return await Builder(parts, plan, chosen).build([reference("built:1")])
            finally:
                self.at_end = sandbox

    def layers(self, image: StoredImage, below: int = 0) -> dict[str, tarfile.TarInfo]:
        """Return the entries of the layers above the first `below`, by name; of the same, the topmost."""
        found = {}
        for layer in image.manifest.layers[below:]:
            with self.store.blobs.path(layer.digest).open("rb") as file:
                data = b"".join(decompressed(file, oci.compression_of(layer.media_type)))
            with tarfile.open(fileobj=io.BytesIO(data)) as opened:
                found |= {member.name: member for member in opened}
        return found

    @property
    def ran(self) -> list[str]:
        """The steps that were done, not taken from the cache."""
        return [
            title.split("] ")[1].split()[0]
            for title, outcome in self.recorder.outcomes
            if outcome == "done" and "] " in title
        ]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    site = Site(tmp_path / "state")
    yield site
    assert not list((site.home / "builds").glob("*")), "a build leaves nothing"
    assert processes_with(str(site.home)) == []
    assert str(site.home) not in Path("/proc/self/mountinfo").read_text()


WHOLE = """
ARG WHO=nobody
FROM tiny AS base
RUN mkdir /data && echo one > /data/a && ln /data/a /data/b && ln -s a /data/c && rm /bin/readlink && echo printed
FROM base
ARG WHO
ENV GREETING="hello $WHO"
WORKDIR /src/app
COPY --chown=app:extra --chmod=640 *.py sub ./
COPY renamed.txt /etc/new-name
ADD files.tar.gz /unpacked/
COPY <<greeting.txt /
$GREETING
greeting.txt
RUN rm -r /data && mkdir /data && echo "$GREETING" > /data/said && id > /data/id
COPY --from=base /data /old
USER app
RUN <<EOF
#!/bin/sh
id -u
cat /greeting.txt /data/said
ls /data /old /src/app
EOF
ENTRYPOINT ["cat"]
CMD ["/greeting.txt"]
"""


async def test_a_whole_image(site: Site) -> None:
    for name in ("one.py", "two.py", "left.out", "sub/inner.txt", "sub/skipped.log", "renamed.txt"):
        site.file(name, name)
    (site.context / "sub/link").symlink_to("/etc/passwd")
    site.file(".dockerignore", "**/*.log\n")
    site.file("files.tar.gz", Archive().file("deep/x", b"x", uid=3, gid=4).bytes())
    image = await site.build(WHOLE, arguments={"WHO": "you"})
    printed = site.recorder.printed.split("\n")
    user = "1234" if ROOT else "0"
    assert printed[:4] == ["printed", user, "hello you", "hello you"]
    assert printed[4:] == [
        "/data:",
        "id",
        "said",
        "",
        "/old:",
        "a",
        "b",
        "c",
        "",
        "/src/app:",
        "inner.txt",
        "link",
        "one.py",
        "two.py",
        "",
    ]
    entries = site.layers(image, 1)
    assert "bin/.wh.readlink" in entries and "data/.wh..wh..opq" in entries
    assert entries["data/b"].islnk() and entries["data/c"].issym()
    one, link, inner = (entries[f"src/app/{name}"] for name in ("one.py", "link", "inner.txt"))
    assert (one.mode, inner.mode, link.linkname) == (0o640, 0o640, "/etc/passwd")
    if ROOT:
        assert (one.uid, one.gid, entries["unpacked/deep/x"].uid) == (1234, 1300, 3)
    assert not [
        name for name in entries if name.startswith(("dev", "proc", "sys", "etc/resolv.conf", "etc/hosts"))
    ]
    assert "etc/new-name" in entries and "src/app/skipped.log" not in entries
    config = image.config.run
    assert (config.entrypoint, config.cmd, config.user, config.working_dir) == (
        ("cat",),
        ("/greeting.txt",),
        "app",
        "/src/app",
    )
    assert config.env == ("PATH=/usr/bin:/bin", "GREETING=hello you")
    assert sum(not step.empty_layer for step in image.config.history) == len(image.manifest.layers) - 1
    # The same again: nothing runs, and it is the same image. A file that changes matters from where it is copied.
    assert (await site.build(WHOLE, arguments={"WHO": "you"})).id == image.id
    assert site.ran == []
    os.utime(site.context / "one.py", (1, 1))
    assert (await site.build(WHOLE, arguments={"WHO": "you"})).id == image.id
    site.file("one.py", "changed")
    assert (await site.build(WHOLE, arguments={"WHO": "you"})).id != image.id
    assert "RUN" in site.ran and site.ran[0] == "COPY" and "mkdir /data" in WHOLE
    # Without the cache everything is done again.
    await site.build(WHOLE, arguments={"WHO": "you"}, target="base", use_cache=False)
    assert site.ran == ["RUN"]


async def test_mounts_are_seen_and_never_packed(site: Site, tmp_path: Path) -> None:
    site.file("src/input", "from the context")
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    text = (
        "FROM tiny AS other\nRUN echo of-a-stage > /made\nFROM tiny\n"
        "RUN --mount=type=cache,target=/var/cache/x --mount=type=secret,id=key --mount=type=secret,id=key,env=KEY "
        "--mount=type=bind,source=src,target=/mnt/src --mount=type=bind,from=other,source=/made,target=/mnt/made "
        "--mount=type=tmpfs,target=/scratch --mount=type=secret,id=unknown "
        "cat /mnt/src/input /mnt/made /run/secrets/key && echo $KEY && cat /var/cache/x/* ; "
        "echo kept >> /var/cache/x/file; "
        "touch /scratch/x; (echo no > /mnt/src/input) 2>&1 || echo done > /result\n"
        "USER app\nRUN --mount=type=secret,id=key,target=/own,mode=0400,uid=1234 echo; echo mine: && cat /own\n"
    )
    image = await site.build(text, secrets={"key": secret})
    assert site.recorder.printed.startswith("from the contextof-a-stage\nhunter2hunter2\n")
    assert site.recorder.printed.endswith("\nmine:\nhunter2"), site.recorder.printed
    assert site.recorder.outcomes[-2][0].startswith("[stage-1 3/3] RUN --mount"), "as BuildKit calls it"
    assert "Read-only" in site.recorder.printed and "kept" not in site.recorder.printed
    assert sorted(name for name, entry in site.layers(image, 1).items() if not entry.isdir()) == ["result"]
    stored = b"".join(path.read_bytes() for path in site.store.paths.blobs.iterdir())
    assert b"hunter2" not in stored and (site.context / "src/input").read_text() == "from the context"
    await site.build(text, secrets={"key": secret}, use_cache=False)
    assert "kept" in site.recorder.printed, "a cache stays"


async def test_files_of_this_machines_root_are_not_in_the_image(site: Site) -> None:
    site.file("mine", "mine")
    text = (
        "FROM machine:1\nRUN mkdir -p /opt/built /workspace && echo 1 > /opt/built/x && echo 2 > /workspace/y && "
        "touch /tmp/gone && rm /etc/passwd; python3 -c 'import msgspec'\n"
        "WORKDIR /workspace/deep\nCOPY mine .\n"
        "RUN cat /opt/built/x ../y mine && test ! -e /etc/passwd && test -e /etc/group\n"
    )
    image = await site.build(text)
    assert site.recorder.printed == "1\n2\nmine"
    assert image.over_machine and image.config.run.env is None
    names = {name for name, entry in site.layers(image).items() if not entry.isdir()}
    assert {"opt/built/x", "workspace/y", "workspace/deep/mine", "etc/.wh.passwd"} <= names
    assert not [name for name in names if name.startswith(("tmp/", "usr/", "run/", "bin"))]
    # What is built on it stands on the machine, too; an alias is for FROM, not for what is named otherwise.
    again = await site.build("FROM built:1\nRUN cat /opt/built/x > /z")
    assert again.over_machine and site.recorder.outcomes[-1][1] == "done"


@pytest.mark.parametrize(
    ("text", "line", "message", "tail"),
    [
        (
            "FROM tiny\nRUN echo before \\\n && echo why >&2; exit 7\n",
            2,
            "non-zero code: 7",
            ["before", "why"],
        ),
        ('FROM tiny\nRUN ["nosuch"]\n', 2, 'exec: "nosuch": executable file not found', []),
        ("FROM tiny\nUSER ghost\nRUN true\n", 3, "unable to find user ghost", []),
        ("FROM tiny\nCOPY nosuch /\n", 2, "nosuch: not found", []),
        ("FROM tiny\nCOPY *.none /\n", 2, "*.none: nothing in the build context fits", []),
        ("FROM tiny\nCOPY left.out /\n", 2, ".dockerignore excludes it", []),
        ("FROM tiny\nCOPY some.log /\n", 2, ".dockerignore excludes it", []),
        ("FROM tiny\nCOPY --chown=ghost file /\n", 2, "unable to find user ghost", []),
        ("FROM tiny\nCOPY file /etc/passwd/x\n", 2, "not a directory", []),
        ("FROM tiny\nCOPY dir /etc/passwd\n", 2, "not a directory", []),
        ("FROM tiny\nCOPY tree/ /\n", 2, "which is a directory", []),
        ("FROM tiny AS a\nFROM tiny\nCOPY --from=a /nosuch /\n", 3, "nosuch: not found", []),
        ("FROM tiny\nRUN --mount=type=secret,id=key,required true\n", 2, "secret key: not found", []),
        ("FROM tiny\nADD http://127.0.0.1:1/x /\n", 2, "Connection refused", []),
        ("FROM triggers\n", 1, "ONBUILD triggers", []),
    ],
)
async def test_a_step_that_fails_says_where_and_why(
    site: Site, text: str, line: int, message: str, tail: list[str]
) -> None:
    for name in ("file", "left.out", "dir/x", "tree/etc"):
        site.file(name)
    site.file(".dockerignore", "left.out\n*.log\n!kept.log\n")
    site.file("some.log")
    image = put(site.store, "triggers", tiny_root())
    raw = json.loads(image.config.encoded())
    raw["config"]["OnBuild"] = ["RUN x"]
    config = site.store.blobs.add(json.dumps(raw).encode(), oci.OCI_CONFIG)
    site.store.put(oci.Manifest(config, image.manifest.layers), reference("triggers"))
    with pytest.raises(BuildFailed) as caught:
        await site.build(text)
    assert (caught.value.line, list(caught.value.tail)) == (line, tail) and message in caught.value.message
    assert site.store.find(reference("built:1")) is None


async def test_a_context_cannot_reach_out(site: Site, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("secret")
    site.file("inside", "inside")
    for name, target in {
        "absolute": str(tmp_path / "outside"),
        "up": "../../outside",
        "directory": str(tmp_path),
        "loop": "loop",
        "good": "inside",
    }.items():
        (site.context / name).symlink_to(target)
    os.mkfifo(site.context / "pipe")
    site.file("bad/.wh.inside")
    deep = site.context / "deep"
    deep.mkdir()
    (deep / "socket-dir").symlink_to("/")
    for source in (
        "../outside",
        "../../outside",
        "absolute",
        "up",
        "directory/outside",
        "loop",
        "deep/socket-dir/etc/passwd",
    ):
        with pytest.raises(BuildFailed, match=r"not found|too many levels"):
            await site.build(f"FROM scratch\nCOPY {source} /\n")
    for source, message in {"pipe": "neither file", "bad": r"begin with \.wh\."}.items():
        with pytest.raises(BuildFailed, match=message):
            await site.build(f"FROM scratch\nCOPY {source} /x/\n")
    image = await site.build("FROM scratch\nCOPY good deep /x/\n")
    entries = site.layers(image)
    assert entries["x/good"].isreg() and entries["x/socket-dir"].linkname == "/"


async def test_an_image_and_an_archive_cannot_reach_out(site: Site, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    links = Archive().directory(str(outside)[1:]).link("abs", str(outside)).link("dangling", "nowhere")
    links.link("up", "../../../../../.." + str(outside))
    put(site.store, "links", tiny_root(), links.bytes())
    site.file("f", "f")
    image = await site.build("FROM links\nCOPY f /abs/f\nCOPY f /up/\nWORKDIR /abs/w\nADD f /abs/g\n")
    assert not list(outside.iterdir())
    assert {f"{str(outside)[1:]}/{name}" for name in ("f", "g")} <= set(site.layers(image, 2))
    with pytest.raises(BuildFailed, match="leads nowhere"):
        await site.build("FROM links\nCOPY f /dangling/f\n")
    for trap in (
        Archive().file("../f"),
        Archive().hard_link("h", "../../etc/passwd"),
        Archive().file(".wh.f"),
    ):
        site.file("trap.tar", trap.bytes())
        with pytest.raises(BuildFailed, match=r"leads out|begin with"):
            await site.build("FROM tiny\nADD trap.tar /a/\n")
    site.file(
        "trap.tar",
        Archive()
        .entry("null", tarfile.CHRTYPE, devmajor=1, devminor=3)
        .link("l", str(outside))
        .file("l/x")
        .bytes(),
    )
    image = await site.build("FROM links\nADD trap.tar /a/\n")
    assert not list(outside.iterdir()) and "a/null" not in site.layers(image, 2)
    with pytest.raises(BuildFailed, match="not found"):
        await site.build("FROM links AS l\nRUN ln -s /nosuch /there\nFROM tiny\nCOPY --from=l /there /x\n")


async def test_a_collection_keeps_what_builds_want_until_it_is_to_go(site: Site) -> None:
    text = "FROM tiny\nRUN echo x > /x\nWORKDIR /w\n"
    first = await site.build(text)
    site.store.names.remove(*map(str, site.store.names_of(first.descriptor)))
    garbage.collect(site.store, site.home / "pods", site.store.remembered())
    await site.build(text)
    assert site.ran == [], "kept for builds"
    site.store.forget(everything=False)
    await site.build(text)
    assert site.ran == [], "an image has the layers"
    site.store.names.remove("docker.io/library/built:1")
    garbage.collect(site.store, site.home / "pods")
    site.store.forget(everything=False)
    assert not list(site.store.paths.cache.iterdir())
    await site.build(text)
    assert site.ran == ["RUN", "WORKDIR"]


async def test_an_address_is_fetched_and_compared(site: Site, tmp_path: Path) -> None:
    served = tmp_path / "served"
    served.mkdir()
    (served / "data.bin").write_bytes(b"data")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(served))
    digest = hashlib.sha256(b"data").hexdigest()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            address = f"http://127.0.0.1:{server.server_port}/data.bin"
            text = f"FROM scratch\nADD --checksum=sha256:{digest} {address} /d/\nADD {address} /renamed\n"
            top = address.removesuffix("data.bin")
            image = await site.build(f"{text}ADD {top} /listing.html\n")
            assert {"d/data.bin", "renamed", "listing.html"} <= set(site.layers(image))
            await site.build(text)
            assert site.ran == []
            with pytest.raises(BuildFailed, match="what came is sha256:"):
                await site.build(f"FROM scratch\nADD --checksum=sha256:{'0' * 64} {address} /d/\n")
            with pytest.raises(BuildFailed, match="404"):
                await site.build(f"FROM scratch\nADD {address}.none /d/\n")
            with pytest.raises(BuildFailed, match=r"/: names no file; .* end with a name"):
                await site.build(f"FROM scratch\nADD {top} /d/\n")
        finally:
            server.shutdown()


USER = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from tests.cluster.test_image_build import Site
from trainshed.cluster.images.oci import local_platform
site = Site(Path(sys.argv[1]))
site.file("f", "f")
image = asyncio.run(site.build(
    "FROM tiny\\nRUN id -u && rm /etc/group && mkdir /d && echo x > /d/x\\n"
    "COPY --chown=app f /d/\\nRUN cat /d/x /d/f\\nCOPY --chown=4000:4001 f /new/\\nUSER app\\nWORKDIR /of/app"))
print(site.recorder.printed, sorted(site.layers(image, 1)), list((site.home / "builds").iterdir()))
"""


def test_an_ordinary_user_builds(for_everybody: Path) -> None:
    if not ROOT:
        pytest.skip("takes root to become somebody else")
    uid = 54326
    home = for_everybody / "home"
    home.mkdir()
    os.chown(home, uid, uid)
    repository = Path(__file__).parents[2]
    done = run_as(uid, python_for_everybody(uid), "-c", USER, str(home / "state"), "", str(repository))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["0", "x"], done.stdout
    assert all(each in done.stdout for each in ("'etc/.wh.group'", "'new/f'", "'of/app'")), done.stdout
    assert done.stdout.rstrip().endswith("[]")


KILLED = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.cluster.test_image_build import Site
site = Site(Path(sys.argv[1]))
asyncio.run(site.build("FROM tiny\\nRUN touch /began; sleep 98765"))
"""


async def test_what_a_killed_build_leaves_is_cleared_by_the_next(tmp_path: Path) -> None:
    home = tmp_path / "state"
    repository = Path(__file__).parents[2]
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(home), str(repository)])
    try:

        async def runs() -> bool:
            return bool(processes_with("sleep\x0098765"))

        await until("the command to run", runs)
    finally:
        process.kill()
        process.wait()
    assert list((home / "builds").iterdir())
    (home / "context").rmdir()
    site = Site(home)
    await site.build("FROM scratch\nWORKDIR /x\n")
    assert not list((home / "builds").iterdir()) and processes_with(str(home)) == []
