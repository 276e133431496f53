"""Leader election on a Lease: of several processes one works, the others wait.

The rules are those of client-go's `tools/leaderelection`: a holder that has not renewed for
`lease_seconds`, *as observed by the waiting process's own clock*, has lost it. Wall clocks of different
machines are never compared. A leader that cannot renew for `renew_deadline_seconds` stops before anyone
else may start.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from trainshed.client.client import Client
from trainshed.client.transport import TransportError
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, spec_of
from trainshed.kube.meta.resources import LEASES
from trainshed.kube.meta.times import format_micro_time

log = logging.getLogger(__name__)


class LeadershipLost(Exception):
    """The lease could not be renewed in time: the process must stop working, usually by exiting."""


class LeaderElector:
    """Competes for the Lease `namespace`/`name` as `identity`. All durations are in seconds."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        lease_seconds: float = 15.0,
        renew_deadline_seconds: float = 10.0,
        retry_seconds: float = 2.0,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._lease_seconds = lease_seconds
        self._renew_deadline = renew_deadline_seconds
        self._retry = retry_seconds
        self._seen: tuple[str, str] | None = None
        self._seen_at = 0.0
        self.leading = False

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, run `work` while holding it, release it at the end.

        LeadershipLost when a renewal failed for too long; `work` is cancelled first.
        """
        while not await self._try():  # noqa: ASYNC110 - the lease is elsewhere: nothing can signal us
            await asyncio.sleep(self._retry)
        self.leading = True
        log.info("became leader", extra={"lease": self._name, "identity": self._identity})
        working = asyncio.ensure_future(work())
        renewing = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.leading = False
            for task in (working, renewing):
                task.cancel()
            await asyncio.wait({working, renewing})
            lost = not renewing.cancelled() and isinstance(renewing.exception(), LeadershipLost)
            if not lost:
                await self._release()
        if not renewing.cancelled():
            renewing.result()
        if not working.cancelled():
            working.result()

    async def _renew(self) -> None:
        while True:
            deadline = asyncio.get_running_loop().time() + self._renew_deadline
            await asyncio.sleep(self._retry)
            while True:
                try:
                    async with asyncio.timeout_at(deadline):
                        if await self._try():
                            break
                        await asyncio.sleep(self._retry)
                except TimeoutError:
                    raise LeadershipLost(
                        f"lease {self._namespace}/{self._name} was not renewed in time"
                    ) from None

    async def _try(self) -> bool:
        """Take or renew the lease once; False when another holds it or the API gave no answer."""
        try:
            try:
                lease = await self._client.get(LEASES, self._name, self._namespace)
            except ApiError as error:
                if error.code != 404:
                    raise
                await self._client.create(LEASES, self._lease(None))
                return True
            spec = spec_of(lease)
            holder = spec.get("holderIdentity") or ""
            if holder and holder != self._identity and not self._abandoned(holder, spec):
                return False
            await self._client.update(LEASES, self._lease(lease))
            return True
        except (ApiError, TransportError) as error:
            log.debug("lease not taken", extra={"lease": self._name, "error": str(error)})
            return False

    def _abandoned(self, holder: str, spec: Object) -> bool:
        """Return whether the holder has not renewed for a whole lease, by our own clock."""
        now = asyncio.get_running_loop().time()
        seen = (holder, str(spec.get("renewTime")))
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        return now - self._seen_at > float(spec.get("leaseDurationSeconds") or self._lease_seconds)

    def _lease(self, old: Object | None) -> Object:
        now = format_micro_time(time.time())
        before = spec_of(old or {})
        mine = before.get("holderIdentity") == self._identity
        transitions = int(before.get("leaseTransitions") or 0)
        metadata = old["metadata"] if old else {"name": self._name, "namespace": self._namespace}
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": max(1, round(self._lease_seconds)),
                "acquireTime": before.get("acquireTime", now) if mine else now,
                "renewTime": now,
                "leaseTransitions": transitions if mine or not old else transitions + 1,
            },
        }

    async def _release(self) -> None:
        """Give the lease up so that the next process need not wait for it to run out."""
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
            if lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"].update(holderIdentity=None, leaseDurationSeconds=1)
                await self._client.update(LEASES, lease)
        except (ApiError, TransportError, KeyError):
            log.debug("lease not released", extra={"lease": self._name})
