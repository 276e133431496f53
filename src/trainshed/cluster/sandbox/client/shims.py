"""The shims: what each says of its pod, or what is left on disk of those that have ended."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
from collections.abc import AsyncIterator

import msgspec

from trainshed.cluster.sandbox import files
from trainshed.cluster.sandbox.client import recovery
from trainshed.cluster.sandbox.client.connection import Connection, HungUp, NobodyListens, connected
from trainshed.cluster.sandbox.model import RuntimeLost, RuntimePaths, SandboxNotFound, SandboxState

SETTLE_SECONDS = 0.02
"""Between looks at a shim that is starting, or closed its sockets and has not let go of its lock yet: at first."""
_SETTLE_SLOWER = 1.1
_SETTLE_POLLS = 45
"""About 15 s in all."""
_STATE_SECONDS = 10.0


class StillEnding(RuntimeLost):
    """A shim is gone for its clients, not yet for the kernel."""


class Shims:
    """The shims of a state directory, by the uid of their pod."""

    def __init__(self, paths: RuntimePaths) -> None:
        self._paths = paths

    def connect(self, uid: str) -> Connection:
        """Return a connection, which the caller closes. Raises NobodyListens or RuntimeLost."""
        return Connection(self._socket(uid))

    def open(self, uid: str) -> Connection:
        """Return a connection, which the caller closes. Raises SandboxNotFound when the pod does not run."""
        try:
            return self.connect(uid)
        except NobodyListens as error:
            raise SandboxNotFound(f"pod {uid} does not run") from error

    @contextlib.asynccontextmanager
    async def asking(self, uid: str) -> AsyncIterator[Connection]:
        """Yield a connection. Raises SandboxNotFound when the pod does not run."""
        try:
            async with connected(self._socket(uid)) as connection:
                yield connection
        except NobodyListens as error:
            raise SandboxNotFound(f"pod {uid} does not run") from error

    async def ask_state(self, uid: str) -> SandboxState:
        """Return what the shim says. Raises NobodyListens or RuntimeLost."""
        async with connected(self._socket(uid), timeout=_STATE_SECONDS) as connection:
            answer, _ = await connection.ask({"op": "state"})
        return msgspec.convert(answer["state"], SandboxState)

    async def state(self, uid: str) -> SandboxState:
        """Return what the shim says, or what it left once it has ended.

        On a full disk that is what it had written when it ended: a cluster can be stopped without room.
        """
        try:
            if (state := await self.living(uid)) is not None:
                return state
        except StillEnding:
            pass
        except OSError as error:
            if not files.is_no_room(error):
                raise
        return recovery.read(self._paths, uid)

    async def living(self, uid: str) -> SandboxState | None:
        """Return what the shim says; None once it has ended with all of its pod. Raises RuntimeLost."""
        pause = SETTLE_SECONDS
        for _ in range(_SETTLE_POLLS):
            try:
                return await self.ask_state(uid)
            except (HungUp, NobodyListens):
                if recovery.settle(self._paths, uid):
                    return None
                await asyncio.sleep(pause)  # the shim is ending, or a new one is starting
                pause *= _SETTLE_SLOWER
        raise StillEnding(f"the shim of pod {uid} was killed, and what ran in it has not ended yet")

    async def list(self) -> builtins.list[SandboxState]:
        """Return the state of every pod that has a sandbox, alive or left over on disk."""
        try:
            uids = sorted(entry.name for entry in self._paths.pods.iterdir() if (entry / "sandbox").is_dir())
        except FileNotFoundError:
            return []
        return builtins.list(await asyncio.gather(*(self.state(uid) for uid in uids)))

    def _socket(self, uid: str) -> str:
        return str(self._paths.pods / uid / "sandbox" / "shim.sock")
