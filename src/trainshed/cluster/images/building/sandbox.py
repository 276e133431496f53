"""Where RUN runs: a sandbox like a pod's, with daemons that live as long as the build.

    builds/<id>/lock      held by the build
    builds/<id>/run …     its daemons, sandboxes and logs

What a build that was killed has left is cleared away by the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import msgspec

from trainshed.cluster.images.building.errors import StepError
from trainshed.cluster.images.store import confined
from trainshed.cluster.sandbox import files
from trainshed.cluster.sandbox.addresses import PROXY_URL
from trainshed.cluster.sandbox.api import (
    ContainerSpec,
    Layer,
    Mount,
    Runtime,
    RuntimePaths,
    SandboxSpec,
    StartError,
)

STUBS = ("/etc", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
"""Files of every sandbox, for which an image without them gets empty ones."""
_POLL_SECONDS = 0.03
_NAME = "run"
_LOCK = "lock"
_NO_PROXY = "localhost,127.0.0.1"


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What to run on which root: unpacked layers, the topmost first, over this machine's root with `machine`."""

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    cwd: str
    user: str
    lowers: tuple[str, ...]
    machine: bool
    mounts: tuple[Mount, ...] = ()


class BuildSandbox:
    """Runs commands one after the other. Daemons start with the first."""

    def __init__(self, builds: Path, masked: Sequence[str]) -> None:
        self._builds = builds
        self._masked = tuple(masked)
        self._place: Path | None = None
        self._lock = -1
        self._runtime: Runtime | None = None
        self._count = 0

    async def __aenter__(self) -> BuildSandbox:
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._place is not None:
            try:
                if self._runtime is not None:
                    await self._runtime.stop_all()
            finally:
                await asyncio.to_thread(confined.remove, self._builds, self._place.name)
                os.close(self._lock)

    def place(self) -> Path:
        """Return the directory of this build, made when it is first asked for."""
        if self._place is None:
            self._builds.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._place = Path(tempfile.mkdtemp(dir=self._builds, prefix="b"))
            self._lock = files.lock(str(self._place / _LOCK))
        return self._place

    async def clear(self) -> None:
        """Delete what builds that were killed have left, and end what of them still runs."""
        try:
            left = [each for each in self._builds.iterdir() if each.is_dir()]
        except FileNotFoundError:
            return
        for place in left:
            try:
                lock = files.lock(str(place / _LOCK))
            except (BlockingIOError, FileNotFoundError):
                continue
            try:
                if (place / "run").is_dir():
                    await Runtime(RuntimePaths.under(place)).stop_all()
                await asyncio.to_thread(confined.remove, self._builds, place.name)
            finally:
                os.close(lock)

    @contextlib.asynccontextmanager
    async def run(self, command: Command, output: Callable[[bytes], None]) -> AsyncIterator[tuple[int, Path]]:
        """Run a command to its end; yield its exit code and the directory in which `pack` finds what it wrote.

        Raises:
            StepError: it cannot be started.
            RuntimeUnavailable: no sandboxes can be made on this machine.
        """
        place = self.place()
        runtime = await self._started(place)
        self._count += 1
        uid = f"r{self._count}"
        await runtime.run_sandbox(SandboxSpec(uid=uid, namespace="build", name=uid, hostname="build"))
        log = place / f"{uid}.log"
        try:
            code = await self._run(runtime, uid, command, log, output)
            await runtime.stop_sandbox(uid)
            yield code, runtime.paths.pods / uid / "containers" / _NAME / "0"
        finally:
            await runtime.remove_sandbox(uid)
            log.unlink(missing_ok=True)

    async def _run(
        self, runtime: Runtime, uid: str, command: Command, log: Path, output: Callable[[bytes], None]
    ) -> int:
        proxy = {} if runtime.has_route else _proxy()
        spec = ContainerSpec(
            name=_NAME,
            argv=command.argv,
            log_path=str(log),
            env=tuple({**proxy, **dict(command.env)}.items()),
            cwd=command.cwd,
            mounts=command.mounts,
            layers=tuple(Layer(lower, "/") for lower in command.lowers) if command.machine else (),
            root=() if command.machine else command.lowers,
            user=command.user,
            masked=self._masked if command.machine else (),
            note_writes=True,
            termination_message_path="",
        )
        ended = asyncio.create_task(_end(runtime, uid))
        tail = _Tail(log)
        try:
            await runtime.start_container(uid, spec)
            while not ended.done():
                tail.read(output)
                await asyncio.wait([ended], timeout=_POLL_SECONDS)
            tail.read(output)
            return ended.result()
        except StartError as error:
            raise StepError(error.message) from error
        finally:
            ended.cancel()
            tail.close()

    async def _started(self, place: Path) -> Runtime:
        if self._runtime is None:
            self._runtime = Runtime(RuntimePaths.under(place))
            await self._runtime.start()
        return self._runtime


async def _end(runtime: Runtime, uid: str) -> int:
    async for ended, state in runtime.events():
        if ended == uid:
            return 1 if state.exit_code is None else state.exit_code
    raise AssertionError("events end never")


def _proxy() -> dict[str, str]:
    found = {"HTTP_PROXY": PROXY_URL, "HTTPS_PROXY": PROXY_URL, "NO_PROXY": _NO_PROXY}
    return found | {name.lower(): value for name, value in found.items()}


class _Tail:
    """Follows a log in CRI format: `<time> <stream> <P|F> <text>` a line, where P is a line's beginning only.

    When it is rotated faster than it is read, what is in between is not shown.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self._rest = b""

    def read(self, output: Callable[[bytes], None]) -> None:
        """Give what has come since to `output`."""
        while True:
            if self._fd < 0:
                try:
                    self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
                except FileNotFoundError:
                    return
            self._drain(output)
            try:
                if Path(self._path).stat().st_ino == os.fstat(self._fd).st_ino:
                    return
            except FileNotFoundError:
                return
            self._drain(output)
            self.close()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _drain(self, output: Callable[[bytes], None]) -> None:
        while data := os.read(self._fd, 1 << 20):
            *lines, self._rest = (self._rest + data).split(b"\n")
            text = b"".join(map(_text, lines))
            if text:
                output(text)


def _text(line: bytes) -> bytes:
    parts = line.split(b" ", 3)
    if len(parts) < 4:
        return b""
    return parts[3] if parts[2] == b"P" else parts[3] + b"\n"
