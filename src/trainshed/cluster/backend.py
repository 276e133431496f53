"""What the API server asks of nodes: logs, exec, attach, port-forward.

The API server calls these after it has found the pod and authorised the user; the node implements them
(`cluster.node`). On a real cluster this is the kubelet's HTTP API.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from trainshed.kube.meta.objects import Object


class LogRequest(msgspec.Struct, frozen=True):
    """Which part of a container's log, and in which form. `since` is an instant in seconds since the epoch."""

    container: str
    follow: bool = False
    previous: bool = False
    tail_lines: int | None = None
    since: float | None = None
    timestamps: bool = False
    limit_bytes: int | None = None


class ExecRequest(msgspec.Struct, frozen=True):
    """A command to run in a container, or its main process to attach to, and which streams to connect.

    With `tty` there is a terminal: stderr comes on stdout. Attaching has no `command`.
    """

    container: str
    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


class ExecSession(Protocol):
    """A process inside a container, with its streams. All methods are safe to call after it ended."""

    async def write_stdin(self, data: bytes) -> None: ...
    async def close_stdin(self) -> None: ...
    async def resize(self, width: int, height: int) -> None: ...
    def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield (1, stdout bytes) and (2, stderr bytes) until both are closed."""
        ...

    async def wait(self) -> int:
        """Return the exit code (128 + signal when killed)."""
        ...

    async def close(self) -> None:
        """Hang up: the process group gets SIGHUP, then SIGKILL."""
        ...


class ByteStream(Protocol):
    """A TCP connection to a port of a pod."""

    async def read(self) -> bytes:
        """Return the next bytes; empty at end of stream."""
        ...

    async def write(self, data: bytes) -> None: ...
    async def write_eof(self) -> None: ...
    async def close(self) -> None: ...


class Nodes(Protocol):
    """The nodes of a cluster."""

    def of(self, pod: Object) -> NodeBackend:
        """Return the access to the node that a pod is bound to. Raises ApiError 400 when that does not run."""
        ...


class NodeBackend(Protocol):
    """Access to the running pods of a node. Raises `kube.meta.errors.ApiError` with the kubelet's texts."""

    def logs(self, pod: Object, request: LogRequest) -> AsyncIterator[bytes]:
        """Yield log bytes; with `follow`, until the container ends."""
        ...

    async def exec(self, pod: Object, request: ExecRequest) -> ExecSession:
        """Run the command."""
        ...

    async def attach(self, pod: Object, request: ExecRequest) -> ExecSession:
        """Join the streams of the container's main process."""
        ...

    async def port_forward(self, pod: Object, port: int) -> ByteStream:
        """Connect to `port` of the pod. Raises OSError when nothing listens there."""
        ...
