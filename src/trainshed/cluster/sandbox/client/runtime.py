"""`Runtime`: the control plane's side of the sandbox runtime.

It keeps no state that matters: every answer comes from a shim's socket or, where that is gone, from the
files it left. So a new `Runtime` in a new process goes on where a killed one stopped.
"""

from __future__ import annotations

import asyncio
import builtins
import os
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from trainshed.cluster.sandbox import files
from trainshed.cluster.sandbox.client import recovery
from trainshed.cluster.sandbox.client.connection import NobodyListens
from trainshed.cluster.sandbox.client.daemons import Daemons
from trainshed.cluster.sandbox.client.ends import Ends
from trainshed.cluster.sandbox.client.processes import ended, open_process
from trainshed.cluster.sandbox.client.pythonlayers import python_layers
from trainshed.cluster.sandbox.client.sessions import AttachSession, ExecSession, PodStream
from trainshed.cluster.sandbox.client.shims import Shims
from trainshed.cluster.sandbox.model import (
    Amounts,
    ContainerSpec,
    ContainerState,
    DnsRecords,
    ExecSpec,
    Isolation,
    Place,
    Route,
    RuntimeLost,
    RuntimePaths,
    SandboxSpec,
    SandboxState,
    StartError,
    Usage,
)

_REMOVE_SECONDS = 300.0
"""What a pod wrote may be a lot to delete."""
_MEASURE_SECONDS = 300.0


class Runtime:
    """Runs pods as sandboxes on this machine. All methods may be called concurrently."""

    def __init__(self, paths: RuntimePaths, isolation: Isolation = "namespaces") -> None:
        self.paths = paths
        self.isolation = isolation
        self._daemons = Daemons(paths, isolation)
        self._shims = Shims(paths)
        self._ends = Ends(paths, self._shims)
        self._environment = python_layers()

    @property
    def has_route(self) -> bool:
        """Whether pods reach the outside directly; else through the proxy at `addresses.PROXY_URL` only."""
        return self._daemons.has_route

    # Daemons.

    async def start(self) -> None:
        """Connect to the daemons, starting those that do not run. Raises RuntimeUnavailable."""

        async def survivors() -> builtins.list[str]:
            return [state.name for state in await self.list() if state.alive]

        await self._daemons.start(survivors)
        for state in await self.list():
            if state.alive:
                self._ends.follow(state.uid)

    async def close(self) -> None:
        """Let go of the sandboxes: they run on."""
        await self._ends.close()

    async def stop_all(self) -> None:
        """End every shim and daemon: nothing runs and nothing is mounted afterwards."""
        states = await self.list()
        await asyncio.gather(*(self.stop_sandbox(state.uid) for state in states))
        await self.close()
        await self._daemons.stop()

    # Network.

    async def cluster_listener(self, ip: str, port: int) -> socket.socket:
        """Return a listening TCP socket inside the cluster network; the same one after a restart."""
        async with self._daemons.netd() as connection:
            _, descriptors = await connection.ask({"op": "listen", "ip": ip, "port": port})
        return socket.socket(fileno=descriptors[0])

    async def set_records(self, records: DnsRecords) -> None:
        """Replace the cluster zone of the DNS server; also kept in a file for its next start."""
        async with self._daemons.netd() as connection:
            await connection.ask({"op": "records", "records": msgspec.to_builtins(records)})

    async def set_routes(self, routes: Sequence[Route]) -> dict[Place, str]:
        """Replace the routes of Services; also kept in a file for the next start.

        Return which ports of the machine cannot be had, with the reason each.
        """
        async with self._daemons.netd() as connection:
            answer, _ = await connection.ask({"op": "routes", "routes": msgspec.to_builtins(routes)})
        return {msgspec.convert(one["place"], Place): one["why"] for one in answer["failed"]}

    # Pods.

    async def run_sandbox(self, spec: SandboxSpec) -> SandboxState:
        """Return the new sandbox of a pod; the existing one when it is alive."""
        while (state := await self._shims.living(spec.uid)) is None:
            async with self._daemons.sandboxd() as connection:
                answer, _ = await connection.ask({"op": "run", "spec": msgspec.to_builtins(spec)})
            if "state" in answer:
                state = msgspec.convert(answer["state"], SandboxState)
                break
            # Taken: a shim that was asked for before is starting.
        self._ends.follow(spec.uid)
        return state

    async def start_container(self, uid: str, spec: ContainerSpec) -> ContainerState:
        """Start one attempt; a running or ended one is returned as it is.

        Raises:
            StartError: the command cannot run; the attempt is over.
            OSError: the disk is full or fails; the attempt may be made again.
        """
        # A root of its own has a Python of its own, if any.
        environment = () if self.isolation == "plain" else self._environment
        layers = () if spec.root else (*spec.layers, *environment)
        layered = msgspec.structs.replace(spec, layers=layers)
        async with self._shims.asking(uid) as connection:
            answer, _ = await connection.ask({"op": "start", "spec": msgspec.to_builtins(layered)})
        if "error" in answer:
            raise StartError(answer["error"]["exit_code"], answer["error"]["message"])
        return msgspec.convert(answer["started"], ContainerState)

    async def signal_container(self, uid: str, name: str, signal: int) -> None:
        """Signal process 1 of the newest attempt. Raises SandboxNotFound when it does not run."""
        async with self._shims.asking(uid) as connection:
            await connection.ask({"op": "signal", "name": name, "signal": int(signal)})

    async def share_cpu(self, uid: str, largest: int) -> None:
        """Have a pod's containers yield to those with a request of `largest`, in thousandths of a core.

        Raises SandboxNotFound when it does not run.
        """
        async with self._shims.asking(uid) as connection:
            await connection.ask({"op": "share_cpu", "largest": largest})

    async def resize_container(self, uid: str, name: str, amounts: Amounts, cpus: Sequence[int]) -> None:
        """Let a running container use other amounts, on the cores `cpus` where no cgroup keeps them; all if empty.

        Raises:
            SandboxNotFound: it does not run.
            OSError: the kernel refuses; some of them may be in force.
        """
        request = {
            "op": "resize",
            "name": name,
            "amounts": msgspec.to_builtins(amounts),
            "cpus": builtins.list(cpus),
        }
        async with self._shims.asking(uid) as connection:
            await connection.ask(request)

    async def stop_sandbox(self, uid: str) -> None:
        """Kill what is left, end the shim, release the IP. Nothing happens when it is stopped already."""
        while True:
            try:
                connection = self._shims.connect(uid)
                break
            except NobodyListens:
                if not (await self._shims.state(uid)).alive:
                    return
                # It was starting, and listens now.
        try:
            pidfd = open_process(connection.peer_pid)
            await connection.send({"op": "stop"})
            await ended(pidfd, connection.peer_pid)
        except RuntimeLost:
            pass  # it ended meanwhile
        finally:
            connection.close()
        await self._shims.state(uid)

    async def remove_sandbox(self, uid: str) -> None:
        """Stop, then delete the runtime's files of the pod."""
        await self.stop_sandbox(uid)
        self._ends.forget(uid)
        try:
            async with self._daemons.sandboxd(_REMOVE_SECONDS) as connection:
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
            async with self._daemons.sandboxd(_REMOVE_SECONDS) as connection:
                await connection.ask({"op": "remove_tree", "path": str(path)})

    async def hand_to_group(
        self, places: Sequence[tuple[str, bool]], gid: int, *, if_differs: bool = False
    ) -> None:
        """Let a group own what is at `places`: (path, read-only). Raises OSError where it cannot.

        With `if_differs` only where the top of it does not say so already.
        """
        async with self._daemons.sandboxd(_REMOVE_SECONDS) as connection:
            request = {"op": "hand", "places": builtins.list(places), "gid": gid, "if_differs": if_differs}
            await connection.ask(request)

    async def measure(self, paths: Sequence[str]) -> dict[str, int]:
        """Return how many bytes of the disk each directory takes; one that is not there none."""
        if not paths:
            return {}
        async with self._daemons.sandboxd(_MEASURE_SECONDS) as connection:
            answer, _ = await connection.ask({"op": "measure", "paths": builtins.list(paths)})
        return dict(answer["bytes"])

    async def list(self) -> builtins.list[SandboxState]:
        """Return every sandbox that is alive or left over on disk."""
        return await self._shims.list()

    def events(self) -> AsyncIterator[tuple[str, ContainerState]]:
        """Yield (sandbox uid, state) as containers end, for ever; kept until they are read. For one consumer."""
        return self._ends.read()

    # Streams.

    async def exec(self, uid: str, spec: ExecSpec) -> ExecSession:
        """Run a command inside a container. Raises StartError."""
        connection = self._shims.open(uid)
        request = {"op": "exec", **msgspec.to_builtins(spec)}
        try:
            answer, descriptors = await connection.ask(request)
            if "error" in answer:
                raise StartError(answer["error"]["exit_code"], answer["error"]["message"])
        except BaseException:
            connection.close()
            raise
        return ExecSession(connection, descriptors, stdin=spec.stdin)

    async def attach(self, uid: str, container: str, *, stdin: bool) -> AttachSession:
        """Join the streams of a running container; whether there is a terminal is its own setting."""
        connection = self._shims.open(uid)
        try:
            answer, descriptors = await connection.ask({"op": "attach", "name": container, "stdin": stdin})
        except BaseException:
            connection.close()
            raise
        return AttachSession(connection, descriptors, tty=answer["tty"])

    async def dial(self, uid: str, port: int, address: str = "127.0.0.1") -> PodStream:
        """Connect to an IP address from within the pod's network. Raises OSError when nothing listens."""
        async with self._shims.asking(uid) as connection:
            answer, descriptors = await connection.ask({"op": "dial", "port": port, "address": address})
        if "refused" in answer:
            raise OSError(answer["refused"], os.strerror(answer["refused"]))
        return PodStream(socket.socket(fileno=descriptors[0]))

    async def usage(self, uid: str) -> Usage:
        """Return what the pod's processes have used."""
        async with self._shims.asking(uid) as connection:
            answer, _ = await connection.ask({"op": "usage"})
        return msgspec.convert(answer, Usage)
