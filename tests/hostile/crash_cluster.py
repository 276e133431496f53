"""The whole cluster whose parts are killed, and the pods that run on it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.processes import parent_of
from trainshed.client.client import Client
from trainshed.client.config import connect, load_kubeconfig
from trainshed.client.transport import TransportError
from trainshed.cluster.control import launcher
from trainshed.cluster.control.launcher import StartFailed
from trainshed.cluster.control.processes import cluster_processes
from trainshed.cluster.paths import StatePaths
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.sdk import local

NAMESPACE = "default"
SETTLE_SECONDS = 120.0


class Violation(Exception):
    """A promise was broken."""


@dataclass
class Planned:
    """A pod that was asked for: what it must come to unless its shim is killed."""

    name: str
    lines: int
    code: int
    seconds: float
    uid: str = ""
    disturbed: bool = False
    rebooted: bool = False

    def ends(self) -> set[tuple[int, str]]:
        """Return exit codes and reasons that it may have: its own, and those of what killed it."""
        found = {(self.code, "Error" if self.code else "Completed")}
        if self.disturbed:
            found |= {(137, "Error"), (137, "ContainerStatusUnknown")}
        return found | {(255, "Unknown")} if self.rebooted else found

    def manifest(self, out: Path) -> Object:
        script = (
            f"echo {self.name} >> /out/starts-{self.name}; i=0;"
            f" while [ $i -lt {self.lines} ]; do echo line $i; i=$((i+1)); done; sleep {self.seconds}; exit {self.code}"
        )
        return {
            "metadata": {"name": self.name, "labels": {"app": "crash"}},
            "spec": pod_spec(script, out),
        }


def pod_spec(script: str, out: Path) -> Object:
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "volumes": [{"name": "out", "hostPath": {"path": str(out)}}],
        "containers": [
            {
                "name": "main",
                "image": "example.com/sh:1",
                "command": ["sh", "-c", script],
                "volumeMounts": [{"name": "out", "mountPath": "/out"}],
            }
        ],
    }


@dataclass
class Figures:
    """What was done and seen."""

    points: int = 0
    kills: int = 0
    reboots: int = 0
    pods: int = 0
    undisturbed: int = 0
    jobs: int = 0
    acknowledged: int = 0
    events: int = 0
    relists: int = 0
    ups: list[float] = field(default_factory=list)


class Cluster:
    """The cluster under attack, its processes, and a client that is made again with each control plane."""

    def __init__(self, root: Path, figures: Figures) -> None:
        self.paths = StatePaths(root / "home")
        self.figures = figures
        self.killed: set[int] = set()
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = connect(load_kubeconfig(self.paths.kubeconfig))
        return self._client

    async def up(self, interrupt: float | None = None) -> None:
        """Start it; with `interrupt`, kill what starts after that many seconds, and start it again."""
        if interrupt is not None:
            starting = asyncio.create_task(asyncio.to_thread(local.start, self.paths))
            await asyncio.sleep(interrupt)
            self.kill(self._control_planes())
            with contextlib.suppress(StartFailed):
                await starting
        began = time.monotonic()
        try:
            await asyncio.to_thread(local.start, self.paths)
        except StartFailed as error:
            raise Violation(f"the cluster does not come up: {error} ({error.hint})") from None
        self.figures.ups.append(time.monotonic() - began)
        await self.answers()

    async def answers(self) -> None:
        """Wait until the API answers."""
        await self.until("the API answers", lambda: self.client.raw_get("/readyz"))

    async def until(self, what: str, ask: Any) -> Any:
        """Return the first true result of `ask`, which may fail meanwhile. Raises Violation in the end."""
        deadline = time.monotonic() + SETTLE_SECONDS
        last: object = None
        while time.monotonic() < deadline:
            try:
                last = await ask()
                if last:
                    return last
            except (ApiError, TransportError, TimeoutError) as error:
                last = error
            await asyncio.sleep(0.1)
        raise Violation(f"waited {SETTLE_SECONDS} s until {what}; last: {last!r}")

    def processes(self) -> dict[str, list[int]]:
        """Return the pids by role."""
        found: dict[str, list[int]] = {}
        for process in cluster_processes(self.paths, launcher.running(self.paths)):
            found.setdefault(process.role, []).append(process.pid)
        found["control plane"] = self._control_planes()
        return found

    def _control_planes(self) -> list[int]:
        found = []
        for directory in Path("/proc").iterdir():
            if directory.name.isdigit():
                with contextlib.suppress(OSError):
                    command = (directory / "cmdline").read_bytes().split(b"\0")
                    if b"trainshed.cli.serve" in command and str(self.paths.root).encode() in command:
                        found.append(int(directory.name))
        return found

    def kill(self, pids: list[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.killed.add(pid)
                self.figures.kills += 1

    def reboot(self) -> None:
        """End every process and forget what only a running system has."""
        for _ in range(3):  # a daemon may start another while we look
            self.kill([pid for pids in self.processes().values() for pid in pids])
            time.sleep(0.05)
        shutil.rmtree(self.paths.run)
        for path in self.paths.pods.glob("*/sandbox/sandbox.json"):  # of another run of the machine
            path.write_text(json.dumps({**json.loads(path.read_bytes()), "boot": "earlier"}))
        self.figures.reboots += 1

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()


def shim_of(pid: int) -> int:
    """Return the shim that a process is a child of; -pid where its parent is none, which others may have, too."""
    parent = parent_of(pid)
    try:
        shim = parent and Path(f"/proc/{parent}/comm").read_text().startswith("trainshed-shim")
    except OSError:
        return -pid
    return parent if parent and shim else -pid
