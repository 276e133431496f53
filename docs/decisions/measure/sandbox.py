"""What a pod costs, for 0003 and 0008: `python docs/decisions/measure/sandbox.py`.

Times the sandbox runtime alone, without API and scheduler. Set MEASURE_PYTHON to an interpreter with torch to
compare its import inside and outside; bwrap and runc are measured when they are on PATH.
"""
# ruff: noqa: T201, ASYNC220, ASYNC221

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from figures import alternate, median, memory_mib, print_table, print_versions

from trainshed.cluster.sandbox.api import ContainerSpec, Layer, Runtime, RuntimePaths, SandboxSpec

ROUNDS = 40
PATH = ("PATH", "/usr/local/bin:/usr/bin:/bin")
OWN = "import sys; sys.path.insert(0, sys.argv[1]); import trainshed.cluster.sandbox.daemon.sandboxd"
FRESH = f"{OWN}, time; time.sleep(9)"


class Pods:
    """The runtime, and how long its calls take."""

    def __init__(self, runtime: Runtime, home: Path) -> None:
        self.runtime = runtime
        self.home = home
        self.count = 0
        self.ended = asyncio.Event()
        self.task = asyncio.create_task(self._events())

    async def _events(self) -> None:
        async for _uid, state in self.runtime.events():
            if state.finished_at is not None:
                self.ended.set()

    async def life(self, argv: tuple[str, ...] = ("true",), **fields: Any) -> dict[str, float]:
        """Run one pod to its end; return seconds of each step."""
        self.count += 1
        uid = f"m{self.count}"
        out = {}
        started = time.perf_counter()
        await self.runtime.run_sandbox(SandboxSpec(uid=uid, namespace="d", name=uid, hostname=uid))
        out["sandbox"] = time.perf_counter() - started
        self.ended.clear()
        started = time.perf_counter()
        spec = ContainerSpec(
            name="c", argv=argv, env=(PATH,), log_path=str(self.home / f"{uid}.log"), **fields
        )
        await self.runtime.start_container(uid, spec)
        out["start"] = time.perf_counter() - started
        await asyncio.wait_for(self.ended.wait(), 60)
        out["to end"] = time.perf_counter() - started
        started = time.perf_counter()
        await self.runtime.stop_sandbox(uid)
        await self.runtime.remove_sandbox(uid)
        out["remove"] = time.perf_counter() - started
        return out


async def lives(home: Path) -> None:
    runtime = Runtime(RuntimePaths.under(home))
    started = time.perf_counter()
    await runtime.start()
    first = time.perf_counter() - started
    pods = Pods(runtime, home)
    try:
        layer = home / "layer"
        (layer / "src").mkdir(parents=True)
        samples: dict[str, list[float]] = {}
        layered: list[float] = []
        for _ in range(ROUNDS):
            for key, value in (await pods.life()).items():
                samples.setdefault(key, []).append(value)
            layers = tuple(Layer(source=str(layer), path=f"/opt/layer{n}") for n in range(3))
            layered.append((await pods.life(layers=layers))["start"])
        print(f"both daemons started: {first * 1e3:.0f} ms once\n")
        rows = [[name, f"{median(v) * 1e3:.1f} ms", f"{max(v) * 1e3:.0f} ms"] for name, v in samples.items()]
        rows.append(
            ["start with three layers", f"{median(layered) * 1e3:.1f} ms", f"{max(layered) * 1e3:.0f} ms"]
        )
        print_table(["a pod that runs `true`", "median", "max"], rows)
        print()
        await memory(pods)
        await imports(pods)
    finally:
        pods.task.cancel()
        await runtime.stop_all()


async def memory(pods: Pods) -> None:
    """Print what a shim and a fresh interpreter with the same modules take."""
    for number in range(4):
        spec = SandboxSpec(uid=f"idle{number}", namespace="d", name="idle", hostname="idle")
        state = await pods.runtime.run_sandbox(spec)
    import trainshed

    source = str(Path(trainshed.__file__).parent.parent)
    rows = [["shim, forked from sandboxd", *fields(state.pid)]]
    for name, flags in (("new interpreter, -I -S", ["-I", "-S"]), ("new interpreter, site packages", [])):
        with subprocess.Popen([sys.executable, *flags, "-c", FRESH, source]) as process:
            await asyncio.sleep(1.5)
            rows.append([name, *fields(process.pid)])
            process.kill()
    print_table(["memory, MiB", "resident", "proportional", "private"], rows)
    print()


def fields(pid: int) -> list[str]:
    rollup = [memory_mib(pid, "Rss"), memory_mib(pid, "Pss")]
    rollup.append(memory_mib(pid, "Private_Dirty") + memory_mib(pid, "Private_Clean"))
    return [f"{value:.1f}" for value in rollup]


async def imports(pods: Pods) -> None:
    """Print how long `import torch` takes on the overlay, against the host's own root."""
    python = os.environ.get("MEASURE_PYTHON")
    if not python:
        return
    inside, outside = [], []
    command = (python, "-c", "import torch")
    for _ in range(7):
        inside.append((await pods.life(command))["to end"])
        started = time.perf_counter()
        subprocess.run(command, check=True)
        outside.append(time.perf_counter() - started)
    print(f"import torch: in a pod {median(inside):.2f} s, on the host {median(outside):.2f} s, "
          f"ratio of medians {median(inside) / median(outside):.2f}\n")  # fmt: skip


def spawn(*command: str) -> Callable[[], float]:
    def case() -> float:
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - started

    return case


def processes() -> None:
    import trainshed

    source = str(Path(trainshed.__file__).parent.parent)
    cases = {
        "`true`, plain process": spawn("true"),
        "`python -I -S -c pass`": spawn(sys.executable, "-I", "-S", "-c", "pass"),
        "`python -I -S`, the shim's modules": spawn(sys.executable, "-I", "-S", "-c", OWN, source),
        "`python`, site packages, the shim's modules": spawn(sys.executable, "-c", OWN, source),
    }
    if shutil.which("bwrap"):
        everything = [
            "--unshare-all",
            "--ro-bind",
            "/",
            "/",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "--tmpfs",
            "/tmp",  # noqa: S108
        ]
        cases["bubblewrap, read-only root, no network"] = spawn("bwrap", *everything, "true")
    samples = alternate(ROUNDS, cases)
    print_table(["", "median"], [[name, f"{median(v) * 1e3:.1f} ms"] for name, v in samples.items()])
    print()


def main() -> None:
    print_versions("msgspec")
    processes()
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o700)
        asyncio.run(lives(Path(home)))


if __name__ == "__main__":
    main()
