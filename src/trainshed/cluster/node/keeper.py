"""Keeps the daemons of the sandbox runtime alive for as long as the control plane lives."""

from __future__ import annotations

import asyncio
import logging

from trainshed.cluster.sandbox.api import Runtime, RuntimeLost, RuntimeUnavailable

log = logging.getLogger(__name__)

CHECK_SECONDS = 2.0
"""How long DNS, egress and new pods may be without their daemon before it is missed. A check is two messages."""


class RuntimeKeeper:
    """Starts a daemon again that has died. Running pods do without them: only new ones wait."""

    def __init__(self, runtime: Runtime, *, every: float = CHECK_SECONDS) -> None:
        self._runtime = runtime
        self._every = every

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await asyncio.sleep(self._every)
            try:
                await self._runtime.start()
            except (RuntimeLost, RuntimeUnavailable, OSError) as error:
                log.error("the sandbox daemons cannot be started: %s", error)
