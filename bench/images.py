"""Images: a warm build of the walk-through's Dockerfile, a pull of 1 GB from a local registry, a start of `true`.

    [TMPDIR=/dev/shm] .venv/bin/python -m bench.images [--quick]

Everything lies below TMPDIR: in memory the disk is left out, of which a pull of 1 GB takes three times as much in all.

Beside them, alternating, Debian's `buildah build`, `podman pull` and `podman run` where these are installed
(apt-get install --no-install-recommends buildah podman runc skopeo docker-registry), on an image that both have.

A pull's ceilings stand beside it: what the registry gives to `curl`, which keeps nothing, and what a core digests.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.fakes.debian_registry import debian_registry
from tests.fakes.images import Archive, put, tiny_root

from bench.cluster import TRAINSHED
from bench.measure import Figure, circumstances, table
from trainshed.cluster.images.store.store import ImageStore
from trainshed.cluster.sandbox.api import ContainerSpec, Runtime, RuntimePaths, SandboxSpec

ROOT = Path(__file__).parent.parent
REPETITIONS = 5
COMMAND_SECONDS = 120.0
"""What takes longer, ours or another's, ends the run: it says which."""
BLOBS = 4
"""Layers of the image that is pulled: as many as are fetched at once."""
WALK_THROUGH = """\
FROM {base}
RUN mkdir -p /opt/mnist
RUN mkdir -p /opt/mnist/models
WORKDIR /opt/mnist/src
ADD mnist_training.py /opt/mnist/src/mnist_training.py
RUN chgrp -R 0 /opt/mnist && chmod -R g+rwX /opt/mnist
ENTRYPOINT ["python3", "/opt/mnist/src/mnist_training.py"]
"""
"""As its text has it, but for what needs a network: apt's and pip's lines. Each is a step, and cached the same way."""
TINY = "localhost/bench/tiny:1"
PODMAN_RUN = (
    *("--runtime", "runc" if shutil.which("runc") else "crun", "--cgroup-manager=cgroupfs"),
    *("run", "--rm", "--network=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000"),
    *(TINY, "/bin/true"),
)
"""No limits above those of whoever runs it, which containers in containers may not raise."""


class Site:
    """A state directory of ours, and one of podman's, below `home`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.state = home / "state"
        self.state.mkdir(mode=0o700)
        self.store = ImageStore(self.state / "images" / "store")
        self.podman = [
            "--root", str(home / "podman"), "--runroot", str(home / "podman-run"), "--storage-driver", "overlay",
        ]  # fmt: skip

    def trainshed(self, *arguments: str) -> None:
        """Run a command of ours."""
        environment = {**os.environ, "TRAINSHED_HOME": str(self.state)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installation has its byte code
        _run([TRAINSHED, *arguments], environment)

    def other(self, program: str, *arguments: str) -> None:
        """Run podman or buildah."""
        _run([program, *self.podman, *arguments], {**os.environ, "BUILDAH_ISOLATION": "chroot"})


def measure(repetitions: int, megabytes: int) -> list[Figure]:
    """Return the figures; those that compare are left out where the others are not installed."""
    home = Path(tempfile.mkdtemp(prefix="ts-bench-"))
    try:
        site = Site(home)
        figures = [*_build(site, repetitions)]
        _say(figures)
        figures += (pulls := _pull(site, repetitions, megabytes))
        _say(pulls)
        return [*figures, *asyncio.run(_start(site, repetitions))]
    finally:
        subprocess.run(["umount", "-l", str(home / "podman" / "overlay")], check=False, capture_output=True)
        shutil.rmtree(home, ignore_errors=True)


def _say(figures: Sequence[Figure]) -> None:
    """Print what is known by now: the whole takes minutes."""
    for figure in figures:
        print(f"{figure.name}: {figure.value:.3g} {figure.unit}", file=sys.stderr, flush=True)


def _build(site: Site, repetitions: int) -> list[Figure]:
    work = site.home / "work"
    work.mkdir()
    (work / "mnist_training.py").write_text("print('trained')\n")
    (work / "images.yaml").write_text('bases:\n  "pytorch/pytorch:*": machine\n')
    (work / "Dockerfile").write_text(WALK_THROUGH.format(base="pytorch/pytorch:1.0-cuda10.0-cudnn7-runtime"))
    (work / "Dockerfile.tiny").write_text(WALK_THROUGH.format(base=TINY))
    _make_base(site)

    def on_machine() -> None:
        site.trainshed("image", "build", "-q", "-t", "walkthrough:1", str(work))

    def on_tiny() -> None:
        site.trainshed("image", "build", "-q", "-t", "tiny:2", "-f", str(work / "Dockerfile.tiny"), str(work))

    on_machine()
    figures = [Figure("warm build of the walk-through", "s", _times(on_machine, repetitions), 1.0)]
    if shutil.which("buildah") is None:
        return figures
    archive = site.home / "tiny.tar"
    site.trainshed("image", "save", TINY, "-o", str(archive))
    site.other("buildah", "pull", "-q", f"docker-archive:{archive}")

    def theirs() -> None:
        site.other("buildah", "build", "-q", "--layers", "--pull-never", "-t", "tiny:2",
                   "-f", str(work / "Dockerfile.tiny"), str(work))  # fmt: skip

    on_tiny()
    theirs()
    return [
        *figures,
        *_beside("the same build on a small image", "buildah build", on_tiny, theirs, repetitions),
    ]


def _make_base(site: Site) -> None:
    """Build an image with a shell and a few tools of this machine, which others can read, too."""
    base = site.home / "base"
    with tarfile.open(fileobj=io.BytesIO(tiny_root())) as archive:
        archive.extractall(base / "root", filter="tar")
    for tool in ("chgrp", "chmod", "true"):
        shutil.copy2(f"/bin/{tool}", base / "root" / "bin" / tool)
    (base / "Dockerfile").write_text("FROM scratch\nCOPY root/ /\nENV PATH=/usr/bin:/bin\n")
    site.trainshed("image", "build", "-q", "-t", TINY, str(base))


def _pull(site: Site, repetitions: int, megabytes: int) -> list[Figure]:
    if shutil.which("docker-registry") is None and shutil.which("registry") is None:
        return []
    with debian_registry(site.home) as address:
        name = f"{address}/bench/large:1"
        layers = [
            Archive().file(f"blob{number}", os.urandom(megabytes * 1_000_000 // BLOBS)).bytes()
            for number in range(BLOBS)
        ]
        size = sum(map(len, layers)) / 1e6
        put(site.store, name, *layers, compress=False)
        site.trainshed("image", "push", name)

        def ours() -> None:
            site.trainshed("image", "rm", name)
            before = time.perf_counter()
            site.trainshed("image", "pull", name)
            speeds.append(size / (time.perf_counter() - before))

        def theirs() -> None:
            subprocess.run(["podman", *site.podman, "rmi", "-f", name], capture_output=True, check=False)
            before = time.perf_counter()
            site.other("podman", "pull", "-q", "--tls-verify=false", name)
            others.append(size / (time.perf_counter() - before))

        def copied() -> None:
            target = site.home / "skopeo"
            before = time.perf_counter()
            source = ("--src-tls-verify=false", f"docker://{name}")
            _run(["skopeo", "copy", "-q", *source, f"dir:{target}"], {**os.environ})
            copies.append(size / (time.perf_counter() - before))
            shutil.rmtree(target)

        def bare() -> None:
            blobs = [f"http://{address}/v2/bench/large/blobs/{part.digest}" for part in parts]
            each = [argument for blob in blobs for argument in ("-o", "/dev/null", blob)]
            before = time.perf_counter()
            _run(["curl", "-sf", "--parallel", "--parallel-max", str(BLOBS), *each], {**os.environ})
            ceiling.append(size / (time.perf_counter() - before))

        parts = site.store.get(name).manifest.layers
        speeds: list[float] = []
        others: list[float] = []
        copies: list[float] = []
        ceiling: list[float] = []
        for _ in range(repetitions):
            ours()
            if shutil.which("podman") is not None:
                theirs()
            if shutil.which("skopeo") is not None:
                copied()
            if shutil.which("curl") is not None:
                bare()
    figures = [
        Figure(f"pull of {size:.0f} MB from a local registry", "MB/s", speeds, 300, higher_is_better=True)
    ]
    if others:
        ratios = [mine / other for mine, other in zip(speeds, others, strict=True)]
        figures.append(Figure("the same, beside podman pull", "times", ratios, 1.0, higher_is_better=True))
        figures.append(Figure("podman pull, for comparison", "MB/s", others, 0, higher_is_better=True))
    if copies:
        ratios = [mine / other for mine, other in zip(speeds, copies, strict=True)]
        figures.append(Figure("the same, beside skopeo copy", "times", ratios, 1.0, higher_is_better=True))
        figures.append(Figure("skopeo copy, for comparison", "MB/s", copies, 0, higher_is_better=True))
    if ceiling:
        figures.append(Figure("the registry alone, by curl", "MB/s", ceiling, 0, higher_is_better=True))
    digests = [_digested(megabytes) for _ in range(repetitions)]
    return [*figures, Figure("SHA-256 alone", "MB/s", digests, 0, higher_is_better=True)]


def _digested(megabytes: int) -> float:
    """Return how many MB a core digests in a second."""
    digest, piece = hashlib.sha256(), bytes(1_000_000)
    before = time.perf_counter()
    for _ in range(megabytes):
        digest.update(piece)
    return megabytes / (time.perf_counter() - before)


async def _start(site: Site, repetitions: int) -> list[Figure]:
    runtime = Runtime(RuntimePaths.under(site.state))
    await runtime.start()
    image = site.store.lowers(site.store.get(TINY))
    ours: list[float] = []
    others: list[float] = []
    try:
        ends = aiter(runtime.events())
        for number in range(repetitions * 3):
            uid = f"bench-{number}"
            before = time.perf_counter()
            await runtime.run_sandbox(SandboxSpec(uid=uid, namespace="bench", name=uid, hostname=uid))
            container = ContainerSpec(
                name="c", argv=("/bin/true",), root=tuple(map(str, image)), log_path=str(site.home / "log")
            )
            await runtime.start_container(uid, container)
            async with asyncio.timeout(COMMAND_SECONDS):
                await anext(ends)
            ours.append(time.perf_counter() - before)
            await runtime.stop_sandbox(uid)
            await runtime.remove_sandbox(uid)
            if shutil.which("podman") is not None:
                others += await asyncio.to_thread(_times, lambda: site.other("podman", *PODMAN_RUN), 1)
    finally:
        await runtime.stop_all()
    milliseconds = [each * 1000 for each in ours]
    figures = [Figure("pod and container that run `true` in an image", "ms", milliseconds, 100)]
    return [*figures, *_compared("the same, beside podman run", "podman run", ours, others)]


def _beside(
    name: str, other: str, ours: Callable[[], None], theirs: Callable[[], None], repetitions: int
) -> list[Figure]:
    """Return times of two that do the same, taken alternately, and how often the second takes as long as the first."""
    mine: list[float] = []
    others: list[float] = []
    for _ in range(repetitions):
        mine += _times(ours, 1)
        others += _times(theirs, 1)
    return [Figure(name, "s", mine, 1.0), *_compared(f"the same, beside {other}", other, mine, others)]


def _compared(name: str, other: str, mine: Sequence[float], others: Sequence[float]) -> list[Figure]:
    if not others:
        return []
    ratios = [one / two for one, two in zip(mine, others, strict=True)]
    return [Figure(name, "times as long", ratios, 1.0), Figure(f"{other}, for comparison", "s", others, 60)]


def _times(work: Callable[[], None], repetitions: int) -> list[float]:
    times = []
    for _ in range(repetitions):
        before = time.perf_counter()
        work()
        times.append(time.perf_counter() - before)
    return times


def _run(command: Sequence[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        timeout=COMMAND_SECONDS,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-500:]}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few repetitions of less: to see that it works")
    args = parser.parse_args()
    figures = measure(2 if args.quick else REPETITIONS, 200 if args.quick else 1000)
    load = os.getloadavg()[0]
    print(f"{circumstances(ROOT)}, load {load:.1f}\n\n{table(figures)}")


if __name__ == "__main__":
    main()
