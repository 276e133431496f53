"""Ends of containers: told by the shims, and those that a shim takes with it when it dies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import msgspec

from trainshed.cluster.sandbox.client import recovery
from trainshed.cluster.sandbox.client.connection import Connection
from trainshed.cluster.sandbox.client.shims import SETTLE_SECONDS, Shims
from trainshed.cluster.sandbox.model import ContainerState, RuntimeLost, RuntimePaths


class Ends:
    """One queue for all pods that are followed; it holds ends until they are read."""

    def __init__(self, paths: RuntimePaths, shims: Shims) -> None:
        self._paths = paths
        self._shims = shims
        self._queue: asyncio.Queue[tuple[str, ContainerState]] = asyncio.Queue()
        self._following: dict[str, asyncio.Task[None]] = {}

    def follow(self, uid: str) -> None:
        """Queue the ends of this pod's containers from now on."""
        if uid not in self._following:
            self._following[uid] = asyncio.create_task(self._follow(uid))

    def forget(self, uid: str) -> None:
        """Follow the pod no longer."""
        task = self._following.pop(uid, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Follow nobody any longer."""
        tasks, self._following = list(self._following.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def read(self) -> AsyncIterator[tuple[str, ContainerState]]:
        """Yield (sandbox uid, state) as containers end, for ever. For one consumer."""
        while True:
            yield await self._queue.get()

    async def _follow(self, uid: str) -> None:
        """Queue the ends that the shim tells, and of all that ran when it is gone."""
        told = {
            (state.name, state.attempt)
            for state in recovery.read(self._paths, uid).containers
            if state.finished_at is not None
        }
        while True:
            try:
                connection = self._shims.connect(uid)
            except RuntimeLost:
                if recovery.settle(self._paths, uid):
                    break
                await asyncio.sleep(SETTLE_SECONDS)  # the shim is ending, or a new one is starting
                continue
            await self._listen(uid, connection, told)
        # Nothing awaits from here on: a pod that is made again is followed again.
        self._following.pop(uid, None)
        for state in recovery.read(self._paths, uid).containers:
            if (state.name, state.attempt) not in told and state.message in (
                recovery.SHIM_DIED,
                recovery.REBOOTED,
            ):
                self._queue.put_nowait((uid, state))

    async def _listen(self, uid: str, connection: Connection, told: set[tuple[str, int]]) -> None:
        """Queue the ends that a shim reports, until it hangs up; add them to `told`."""
        try:
            await connection.send({"op": "watch"})
            while frame := await connection.receive():
                message = json.loads(frame[1])
                # The first answer is the pod's state: a container may have ended since the question was asked.
                states = (
                    [message["ended"]]
                    if "ended" in message
                    else message.get("state", {}).get("containers", [])
                )
                for state in msgspec.convert(states, list[ContainerState]):
                    if state.finished_at is not None and (state.name, state.attempt) not in told:
                        told.add((state.name, state.attempt))
                        self._queue.put_nowait((uid, state))
        except RuntimeLost:
            return
        finally:
            connection.close()
