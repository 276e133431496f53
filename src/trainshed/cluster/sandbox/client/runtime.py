"""`Runtime`: the control plane's side of the sandbox runtime.

It keeps no state that matters: every answer comes from a shim's socket or, where that is gone, from the
files it left. So a new `Runtime` in a new process goes on where a killed one stopped.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import fcntl
import json
import logging
import os
import signal as signals
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from trainshed.cluster.sandbox import bootstrap, files, wire
from trainshed.cluster.sandbox.client import doctor, launch, recovery
from trainshed.cluster.sandbox.client.connection import Connection, NobodyListens, connected
from trainshed.cluster.sandbox.client.sessions import AttachSession, ExecSession, PodStream
from trainshed.cluster.sandbox.linux.rootfs import FRESH
from trainshed.cluster.sandbox.model import (
    ContainerSpec,
    ContainerState,
    DnsRecords,
    Layer,
    RuntimeLost,
    RuntimePaths,
    RuntimeUnavailable,
    SandboxNotFound,
    SandboxSpec,
    SandboxState,
    StartError,
    Usage,
)

log = logging.getLogger(__name__)
_STOP_TIMEOUT = 15.0
_SETTLE_POLL = 0.02  # a shim closes its sockets some time before it lets go of its lock
_SETTLE_POLLS = 50


class Runtime:
    """Runs pods as sandboxes on this machine. All methods may be called concurrently."""

    def __init__(self, paths: RuntimePaths) -> None:
        self.paths = paths
        self._events: asyncio.Queue[tuple[str, ContainerState]] = asyncio.Queue()
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._environment = python_layers()
        self.has_route = False
        """Whether pods reach the outside directly; else through the proxy at `addresses.PROXY_URL` only."""

    # Daemons.

    async def start(self) -> None:
        """Connect to the daemons, starting those that do not run. Raises RuntimeUnavailable."""
        if sys.platform != "linux":
            raise RuntimeUnavailable(
                f"sandboxes are made of Linux namespaces, which {sys.platform} does not have",
                "run Trainshed on Linux, or in a Linux virtual machine",
            )
        for path in (self.paths.run, self.paths.pods, self.paths.log):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.chmod(0o700)
        with (self.paths.run / "start.lock").open("w") as lock:
            await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
            await self._ensure_sandboxd()
            await self._ensure_netd()
        for state in await self.list():
            if state.alive:
                self._watch(state.uid)

    async def _ensure_sandboxd(self) -> None:
        with contextlib.suppress(RuntimeLost):
            async with connected(self._sandboxd, timeout=5) as connection:
                answer, _ = await connection.ask({"op": "ping"})
                if answer["protocol"] != wire.PROTOCOL:
                    log.warning("sandboxd is of another version of Trainshed; `trainshed down` ends it")
                return
        survivors = [state.name for state in await self.list() if state.alive]
        arguments = [str(self.paths.run), str(self.paths.pods)]
        answer = await launch.launch(launch.SANDBOXD, arguments, self.paths.log / "sandboxd.log")
        if "step" in answer:
            raise doctor.unavailable(answer["step"], answer["detail"])
        if answer["adopted"]:
            log.warning("sandboxd had died and was started again; pods that live: %s", survivors or "none")

    async def _ensure_netd(self) -> None:
        try:
            async with connected(self._netd, timeout=5) as connection:
                answer, _ = await connection.ask({"op": "ping"})
        except RuntimeLost:
            arguments = [str(self.paths.run), str(self.paths.pods)]
            started = await launch.launch(launch.NETD, arguments, self.paths.log / "netd.log")
            if "failure" in started:
                raise RuntimeLost(f"netd did not start: {started['failure']}") from None
            async with connected(self._netd, timeout=5) as connection:
                answer, _ = await connection.ask({"op": "ping"})
        self.has_route = bool(answer["route"])

    @property
    def _sandboxd(self) -> str:
        return str(self.paths.run / "sandboxd.sock")

    @property
    def _netd(self) -> str:
        return str(self.paths.run / "netd.sock")

    def _shim(self, uid: str) -> str:
        return str(self.paths.pods / uid / "sandbox" / "shim.sock")

    async def close(self) -> None:
        """Let go of the sandboxes: they run on."""
        tasks = builtins.list(self._watches.values())
        self._watches = {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def stop_all(self) -> None:
        """End every shim and daemon: nothing runs and nothing is mounted afterwards."""
        states = await self.list()
        await asyncio.gather(*(self.stop_sandbox(state.uid) for state in states))
        await self.close()
        for path in (self._netd, self._sandboxd):
            with contextlib.suppress(RuntimeLost):
                async with connected(path, timeout=_STOP_TIMEOUT) as connection:
                    pidfd = _open_process(connection.peer_pid)
                    await connection.send({"op": "shutdown"})
                    await _ended(pidfd, connection.peer_pid)

    # Network.

    async def cluster_listener(self, ip: str, port: int) -> socket.socket:
        """Return a listening TCP socket inside the cluster network; the same one after a restart."""
        async with connected(self._netd, timeout=10) as connection:
            _, descriptors = await connection.ask({"op": "listen", "ip": ip, "port": port})
        return socket.socket(fileno=descriptors[0])

    async def set_records(self, records: DnsRecords) -> None:
        """Replace the cluster zone of the DNS server; also kept in a file for its next start."""
        async with connected(self._netd, timeout=10) as connection:
            await connection.ask({"op": "records", "records": msgspec.to_builtins(records)})

    # Pods.

    async def run_sandbox(self, spec: SandboxSpec) -> SandboxState:
        """Return the new sandbox of a pod; the existing one when it is alive."""
        with contextlib.suppress(NobodyListens):
            state = await self._ask_state(spec.uid)
            self._watch(spec.uid)
            return state
        recovery.settle(self.paths, spec.uid)
        async with connected(self._sandboxd) as connection:
            answer, _ = await connection.ask({"op": "run", "spec": msgspec.to_builtins(spec)})
        self._watch(spec.uid)
        return msgspec.convert(answer["state"], SandboxState)

    async def start_container(self, uid: str, spec: ContainerSpec) -> ContainerState:
        """Start one attempt; a running or ended one is returned as it is. Raises StartError."""
        layered = msgspec.structs.replace(spec, layers=(*spec.layers, *self._environment))
        async with self._pod(uid) as connection:
            answer, _ = await connection.ask({"op": "start", "spec": msgspec.to_builtins(layered)})
        if "error" in answer:
            raise StartError(answer["error"]["exit_code"], answer["error"]["message"])
        return msgspec.convert(answer["started"], ContainerState)

    async def signal_container(self, uid: str, name: str, signal: int) -> None:
        """Signal process 1 of the newest attempt. Raises SandboxNotFound when it does not run."""
        async with self._pod(uid) as connection:
            await connection.ask({"op": "signal", "name": name, "signal": int(signal)})

    async def stop_sandbox(self, uid: str) -> None:
        """Kill what is left, end the shim, release the IP. Nothing happens when it is stopped already."""
        try:
            connection = Connection(self._shim(uid))
        except NobodyListens:
            recovery.settle(self.paths, uid)
            return
        try:
            pidfd = _open_process(connection.peer_pid)
            await connection.send({"op": "stop"})
            await _ended(pidfd, connection.peer_pid)
        except RuntimeLost:
            pass  # it ended meanwhile
        finally:
            connection.close()
        recovery.settle(self.paths, uid)

    async def remove_sandbox(self, uid: str) -> None:
        """Stop, then delete the runtime's files of the pod."""
        await self.stop_sandbox(uid)
        watch = self._watches.pop(uid, None)
        if watch is not None:
            watch.cancel()
        try:
            async with connected(self._sandboxd, timeout=300) as connection:
                await connection.ask({"op": "remove", "uid": uid})
        except NobodyListens:
            await asyncio.to_thread(recovery.remove, self.paths, uid)

    async def remove_tree(self, path: Path) -> None:
        """Delete a directory that pods wrote to, whatever modes and owners they gave what is in it.

        Raises:
            OSError: something cannot be deleted.
            RuntimeLost: it belongs to a user whom only the sandboxes' user namespace has, and no daemon runs there.
        """
        try:
            await asyncio.to_thread(files.remove_tree, str(path))
        except PermissionError:
            async with connected(self._sandboxd, timeout=300) as connection:
                await connection.ask({"op": "remove_tree", "path": str(path)})

    async def list(self) -> builtins.list[SandboxState]:
        """Return every sandbox that is alive or left over on disk."""
        try:
            uids = sorted(entry.name for entry in self.paths.pods.iterdir() if (entry / "sandbox").is_dir())
        except FileNotFoundError:
            return []
        return builtins.list(await asyncio.gather(*(self._state(uid) for uid in uids)))

    async def _state(self, uid: str) -> SandboxState:
        for _ in range(_SETTLE_POLLS):
            try:
                return await self._ask_state(uid)
            except NobodyListens:
                if recovery.settle(self.paths, uid):
                    break
                await asyncio.sleep(_SETTLE_POLL)  # the shim is ending, or a new one is starting
        return recovery.read(self.paths, uid)

    async def _ask_state(self, uid: str) -> SandboxState:
        async with connected(self._shim(uid), timeout=10) as connection:
            answer, _ = await connection.ask({"op": "state"})
        return msgspec.convert(answer["state"], SandboxState)

    @contextlib.asynccontextmanager
    async def _pod(self, uid: str) -> AsyncIterator[Connection]:
        try:
            async with connected(self._shim(uid)) as connection:
                yield connection
        except NobodyListens as error:
            raise SandboxNotFound(f"pod {uid} does not run") from error

    def _connect_pod(self, uid: str) -> Connection:
        try:
            return Connection(self._shim(uid))
        except NobodyListens as error:
            raise SandboxNotFound(f"pod {uid} does not run") from error

    # Ends of containers.

    def _watch(self, uid: str) -> None:
        if uid not in self._watches:
            self._watches[uid] = asyncio.create_task(self._follow(uid))

    async def _follow(self, uid: str) -> None:
        """Queue the ends of a pod's containers, and of all that run when its shim is gone."""
        told = {
            (state.name, state.attempt)
            for state in recovery.read(self.paths, uid).containers
            if state.finished_at is not None
        }
        while True:
            try:
                connection = Connection(self._shim(uid))
            except RuntimeLost:
                if recovery.settle(self.paths, uid):
                    break
                await asyncio.sleep(_SETTLE_POLL)  # the shim is ending, or a new one is starting
                continue
            await self._listen(uid, connection, told)
        # Nothing awaits from here on: a pod that is made again is watched again.
        self._watches.pop(uid, None)
        for state in recovery.read(self.paths, uid).containers:
            if (state.name, state.attempt) not in told and state.message == recovery.SHIM_DIED:
                self._events.put_nowait((uid, state))

    async def _listen(self, uid: str, connection: Connection, told: set[tuple[str, int]]) -> None:
        """Queue the ends that a shim reports, until it hangs up; add them to `told`."""
        try:
            await connection.send({"op": "watch"})
            while frame := await connection.receive():
                message = json.loads(frame[1])
                if "ended" in message:
                    state = msgspec.convert(message["ended"], ContainerState)
                    told.add((state.name, state.attempt))
                    self._events.put_nowait((uid, state))
        except RuntimeLost:
            return
        finally:
            connection.close()

    async def events(self) -> AsyncIterator[tuple[str, ContainerState]]:
        """Yield (sandbox uid, state) as containers end, for ever. For one consumer."""
        while True:
            yield await self._events.get()

    # Streams.

    async def exec(
        self,
        uid: str,
        container: str,
        argv: Sequence[str],
        env: Sequence[tuple[str, str]] = (),
        *,
        cwd: str = "",
        stdin: bool,
        tty: bool,
    ) -> ExecSession:
        """Run `argv` inside a container with its user and environment plus `env`. Raises StartError."""
        connection = self._connect_pod(uid)
        request = {
            "op": "exec",
            "name": container,
            "argv": builtins.list(argv),
            "env": [builtins.list(pair) for pair in env],
            "cwd": cwd,
            "stdin": stdin,
            "tty": tty,
        }
        try:
            answer, descriptors = await connection.ask(request)
            if "error" in answer:
                raise StartError(answer["error"]["exit_code"], answer["error"]["message"])
        except BaseException:
            connection.close()
            raise
        return ExecSession(connection, descriptors, stdin=stdin)

    async def attach(self, uid: str, container: str, *, stdin: bool, tty: bool) -> AttachSession:
        """Join the streams of a running container; `tty` is the container's own setting."""
        connection = self._connect_pod(uid)
        try:
            answer, descriptors = await connection.ask({"op": "attach", "name": container, "stdin": stdin})
        except BaseException:
            connection.close()
            raise
        return AttachSession(connection, descriptors, tty=answer["tty"])

    async def dial(self, uid: str, port: int) -> PodStream:
        """Connect to a port on the pod's loopback. Raises OSError when nothing listens."""
        async with self._pod(uid) as connection:
            answer, descriptors = await connection.ask({"op": "dial", "port": port})
        if "refused" in answer:
            raise OSError(answer["refused"], os.strerror(answer["refused"]))
        return PodStream(socket.socket(fileno=descriptors[0]))

    async def usage(self, uid: str) -> Usage:
        """Return what the pod's processes have used."""
        async with self._pod(uid) as connection:
            answer, _ = await connection.ask({"op": "usage"})
        return msgspec.convert(answer, Usage)


def python_layers() -> tuple[Layer, ...]:
    """Return this Python's directories that lie where a container has empty ones (/tmp, /run, /var/tmp).

    Layers, not read-only mounts: a pod may `pip install` into them as into any other.
    """
    source = bootstrap.source_directory()
    found: builtins.list[Layer] = []
    for path in dict.fromkeys((sys.prefix, sys.base_prefix, source)):
        inside = [path.startswith(fresh + "/") for fresh in FRESH]
        covered = any(path == layer.path or path.startswith(layer.path + "/") for layer in found)
        if any(inside) and not covered:
            found.append(Layer(source=path, path=path))
    return tuple(found)


def _open_process(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError as error:
        raise RuntimeLost(f"process {pid} has ended") from error


async def _ended(pidfd: int, pid: int) -> None:
    """Wait until a process has ended; kill it when it takes too long. Closes `pidfd`."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    loop.add_reader(pidfd, wake)
    try:
        try:
            async with asyncio.timeout(_STOP_TIMEOUT):
                await asyncio.shield(future)
        except TimeoutError:
            log.warning("process %d did not end within %.0f s and was killed", pid, _STOP_TIMEOUT)
            signals.pidfd_send_signal(pidfd, signals.SIGKILL)
            await future
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
