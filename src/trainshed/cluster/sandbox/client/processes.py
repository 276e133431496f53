"""Waiting for the end of processes that are not children."""

from __future__ import annotations

import asyncio
import logging
import os
import signal

from trainshed.cluster.sandbox.model import RuntimeLost

log = logging.getLogger(__name__)

STOP_SECONDS = 15.0
"""A daemon or shim that was asked to end is killed after this."""


def open_process(pid: int) -> int:
    """Return a descriptor of a process, which stays that process's. Raises RuntimeLost when it has ended."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError as error:
        raise RuntimeLost(f"process {pid} has ended") from error


async def ended(pidfd: int, pid: int) -> None:
    """Wait until a process has ended; kill it when it takes too long. Closes `pidfd`."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    loop.add_reader(pidfd, wake)
    try:
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await asyncio.shield(future)
        except TimeoutError:
            log.warning("process %d did not end within %.0f s and was killed", pid, STOP_SECONDS)
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            await future
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
