"""sandboxd and netd: started when they do not run, asked, and ended."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import sys
from collections.abc import Awaitable, Callable, Sequence

from trainshed.cluster.sandbox import files, wire
from trainshed.cluster.sandbox.client import launch
from trainshed.cluster.sandbox.client.connection import Connection, connected
from trainshed.cluster.sandbox.client.processes import STOP_SECONDS, ended, open_process
from trainshed.cluster.sandbox.model import Isolation, RuntimeLost, RuntimePaths, RuntimeUnavailable

log = logging.getLogger(__name__)

_PING_SECONDS = 5.0
Survivors = Callable[[], Awaitable[Sequence[str]]]


class Daemons:
    """The two daemons of a state directory. `isolation` is what they make of pods."""

    def __init__(self, paths: RuntimePaths, isolation: Isolation = "namespaces") -> None:
        self._paths = paths
        self._isolation = isolation
        plain = isolation == "plain"
        self._modules = (
            (launch.PLAIN_SANDBOXD, launch.PLAIN_NETD) if plain else (launch.SANDBOXD, launch.NETD)
        )
        self.has_route = False
        """Whether pods reach the outside directly; else through the proxy at `addresses.PROXY_URL` only."""

    def sandboxd(self, timeout: float = 60.0) -> contextlib.AbstractAsyncContextManager[Connection]:
        """Return a connection to the daemon that makes sandboxes."""
        return connected(self._sandboxd, timeout)

    def netd(self, timeout: float = 10.0) -> contextlib.AbstractAsyncContextManager[Connection]:
        """Return a connection to the daemon of the cluster's network."""
        return connected(self._netd, timeout)

    async def start(self, survivors: Survivors) -> None:
        """Connect, starting those that do not run. `survivors` returns the pods that live without sandboxd.

        Raises:
            RuntimeUnavailable: no sandboxes can be made here.
            RuntimeLost: a daemon does not start.
        """
        if sys.platform != "linux":
            raise RuntimeUnavailable(
                f"sandboxes are made of Linux namespaces, which {sys.platform} does not have",
                "run Trainshed on Linux, or in a Linux virtual machine",
            )
        for path in (self._paths.run, self._paths.pods, self._paths.log):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.chmod(0o700)
        files.spread(self._paths.pods)
        with (self._paths.run / "start.lock").open("w") as lock:
            await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
            await self._ensure_sandboxd(survivors)
            await self._ensure_netd()

    async def stop(self) -> None:
        """End both: nothing is mounted afterwards."""
        for path in (self._netd, self._sandboxd):
            with contextlib.suppress(RuntimeLost):
                async with connected(path, timeout=STOP_SECONDS) as connection:
                    pidfd = open_process(connection.peer_pid)
                    await connection.send({"op": "shutdown"})
                    await ended(pidfd, connection.peer_pid)

    async def _ensure_sandboxd(self, survivors: Survivors) -> None:
        with contextlib.suppress(RuntimeLost):
            async with self.sandboxd(_PING_SECONDS) as connection:
                answer, _ = await connection.ask({"op": "ping"})
                if answer["protocol"] != wire.PROTOCOL:
                    log.warning("sandboxd is of another version of Trainshed; `trainshed down` ends it")
                running = answer.get("isolation", "namespaces")
                if running != self._isolation:
                    raise RuntimeUnavailable(
                        f"pods run with --isolation {running}, and cannot go on with {self._isolation}",
                        "end them first: trainshed down",
                    )
                return
        alive = await survivors()
        answer = await launch.launch(self._modules[0], self._directories, self._paths.log / "sandboxd.log")
        if "step" in answer:
            from trainshed.cluster.sandbox.client import doctor  # tries out what a sandbox takes

            raise doctor.unavailable(answer["step"], answer["detail"])
        if answer["adopted"]:
            log.warning("sandboxd had died and was started again; pods that live: %s", alive or "none")

    async def _ensure_netd(self) -> None:
        try:
            async with self.netd(_PING_SECONDS) as connection:
                answer, _ = await connection.ask({"op": "ping"})
        except RuntimeLost:
            started = await launch.launch(self._modules[1], self._directories, self._paths.log / "netd.log")
            if "failure" in started:
                raise RuntimeLost(f"netd did not start: {started['failure']}") from None
            async with self.netd(_PING_SECONDS) as connection:
                answer, _ = await connection.ask({"op": "ping"})
        self.has_route = bool(answer["route"])

    @property
    def _directories(self) -> list[str]:
        return [str(self._paths.run), str(self._paths.pods)]

    @property
    def _sandboxd(self) -> str:
        return str(self._paths.run / "sandboxd.sock")

    @property
    def _netd(self) -> str:
        return str(self._paths.run / "netd.sock")
