"""`Runtime`: the control plane's side of the sandbox runtime."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence

from trainshed.cluster.backend import ByteStream, ExecSession
from trainshed.cluster.node.runtime.model import (
    ContainerSpec,
    ContainerState,
    DnsRecords,
    RuntimePaths,
    SandboxSpec,
    SandboxState,
    Usage,
)


class Runtime:
    """Runs pods as sandboxes on this machine. All methods may be called concurrently."""

    def __init__(self, paths: RuntimePaths) -> None:
        self.paths = paths

    async def start(self) -> None:
        """Connect to the daemons, starting those that do not run. Raises RuntimeUnavailable."""
        raise NotImplementedError

    async def close(self) -> None:
        """Let go of the sandboxes: they run on."""
        raise NotImplementedError

    async def cluster_listener(self, ip: str, port: int) -> socket.socket:
        """Return a listening TCP socket inside the cluster network; the same one after a restart."""
        raise NotImplementedError

    async def set_records(self, records: DnsRecords) -> None:
        """Replace the cluster zone of the DNS server; also kept in a file for its next start."""
        raise NotImplementedError

    async def run_sandbox(self, spec: SandboxSpec) -> SandboxState:
        """Return the new sandbox of a pod; the existing one when it is alive."""
        raise NotImplementedError

    async def start_container(self, uid: str, spec: ContainerSpec) -> ContainerState:
        """Start one attempt. Raises StartError."""
        raise NotImplementedError

    async def signal_container(self, uid: str, name: str, signal: int) -> None:
        """Signal process 1 of the newest attempt. Raises SandboxNotFound when it does not run."""
        raise NotImplementedError

    async def stop_sandbox(self, uid: str) -> None:
        """Kill what is left, end the shim, release the IP. Nothing happens when it is stopped already."""
        raise NotImplementedError

    async def remove_sandbox(self, uid: str) -> None:
        """Stop, then delete the runtime's files of the pod."""
        raise NotImplementedError

    async def list(self) -> list[SandboxState]:
        """Return every sandbox that is alive or left over on disk."""
        raise NotImplementedError

    def events(self) -> AsyncIterator[tuple[str, ContainerState]]:
        """Yield (sandbox uid, state) as containers end, for ever."""
        raise NotImplementedError

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
        raise NotImplementedError

    async def attach(self, uid: str, container: str, *, stdin: bool, tty: bool) -> ExecSession:
        """Join the streams of a running container."""
        raise NotImplementedError

    async def dial(self, uid: str, port: int) -> ByteStream:
        """Connect to a port on the pod's loopback. Raises OSError when nothing listens."""
        raise NotImplementedError

    async def usage(self, uid: str) -> Usage:
        """Return what the pod's processes have used."""
        raise NotImplementedError

    async def stop_all(self) -> None:
        """End every shim and daemon: nothing runs and nothing is mounted afterwards."""
        raise NotImplementedError
