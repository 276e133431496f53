"""ResourceQuotas: counts what each namespace uses of its quotas.

Follows the store, for the reason that `storedobjects` gives: a quota may count any kind. Admission adds what it lets
in; this controller counts anew whenever something that a quota counts comes, goes or changes what it holds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.cluster.apiserver.admission.quotas import count
from trainshed.cluster.apiserver.core import Core
from trainshed.cluster.store import MODIFIED, Compacted, StoreEvent, keys
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import is_terminating, section, status_of, uid_of
from trainshed.kube.meta.resources import RESOURCEQUOTAS
from trainshed.kube.policy import quota

_QUOTAS = keys.under(RESOURCEQUOTAS)
AGAIN_SECONDS = 0.1
"""When to count again where a charge was on its way."""
SWEEP_SECONDS = 60.0
"""How often pods are looked at that should be gone by now."""


class QuotaController(Controller[str]):
    """Writes `status` of each ResourceQuota; its keys are those of the store."""

    def __init__(self, client: Client, core: Core, *, now: Callable[[], float] = time.time) -> None:
        super().__init__("resourcequotas")
        self._client = client
        self._core = core
        self._now = now

    async def run(self) -> None:
        """Count until cancelled or the store closes."""
        counting = asyncio.create_task(super().run())
        try:
            await self._follow()
        finally:
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)

    async def _follow(self) -> None:
        store = self._core.store
        while True:
            quotas, revision = store.list(_QUOTAS)
            watch = store.watch("/", revision)
            for stored in quotas:
                self.enqueue(stored.key)
            try:
                while events := await watch.batch():
                    for event in events:
                        self._seen(event)
                return  # the store closes
            except Compacted:
                continue
            finally:
                watch.close()

    def _seen(self, event: StoreEvent) -> None:
        place = keys.place(event.key)
        if place.namespace is None:
            return
        for stored in self._core.store.list(keys.under(RESOURCEQUOTAS, place.namespace))[0]:
            counted = (place.group, place.plural) in quota.counted_kinds(stored.obj)
            if stored.key == event.key or (counted and self._counts(event)):
                self.enqueue(stored.key)

    def _counts(self, event: StoreEvent) -> bool:
        """Return whether the change may alter what the object holds."""
        if event.type != MODIFIED or event.previous is None:
            return True
        place, now = keys.place(event.key), self._now()
        new, old = event.stored.obj, event.previous.obj
        if section(new, "spec") != section(old, "spec"):
            return True  # it may have entered or left a scope
        held = [quota.usage(place.group, place.plural, obj, now) for obj in (new, old)]
        return held[0] != held[1]

    async def reconcile(self, key: str) -> float | None:
        """Count what is used of one quota."""
        stored = self._core.store.get(key)
        if stored is None or is_terminating(stored.obj):
            return None
        used = count(self._core, stored.obj, self._now())
        status = quota.status(stored.obj, used)
        if status != status_of(stored.obj):
            try:
                await self._client.update(
                    RESOURCEQUOTAS, {**stored.obj, "status": status}, subresource="status"
                )
            except ApiError as error:
                if error.code == 404:
                    return None
                raise
        return AGAIN_SECONDS if self._core.charges.of(uid_of(stored.obj)) else SWEEP_SECONDS
