"""What is charged to ResourceQuotas and not stored yet."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

from trainshed.kube.meta.amounts import Amounts, add


class Charges:
    """What is charged to quotas, by uid, for objects whose write is on its way; and whose turn it is to charge."""

    def __init__(self) -> None:
        self._held: dict[str, Amounts] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._settled: dict[str, asyncio.Event] = {}
        self.doubted: set[str] = set()
        """Quotas, by uid, whose status may count what was charged twice, or what was refused."""

    def turn(self, namespace: str) -> asyncio.Lock:
        """Return the lock of who charges quotas of a namespace; what is charged is stored without it."""
        turn = self._turns.get(namespace)
        if turn is None:
            turn = self._turns[namespace] = asyncio.Lock()
        return turn

    def of(self, uid: str) -> Amounts:
        """Return what is charged to the quota of this uid."""
        return self._held.get(uid, {})

    def hold(self, uid: str, more: Amounts) -> None:
        """Note a charge."""
        add(self._held.setdefault(uid, {}), more)
        self.doubted.add(uid)

    def release(self, uid: str, more: Amounts) -> None:
        """Forget a charge that was noted: its object is stored, or was refused."""
        held = self._held[uid]
        add(held, {name: -amount for name, amount in more.items()})
        if not any(held.values()):
            del self._held[uid]
            if uid in self._settled:
                self._settled.pop(uid).set()

    async def settled(self, uid: str) -> None:
        """Return once nothing is on its way. Who has the turn waits for writes that have begun, and for no others."""
        while uid in self._held:
            await self._settled.setdefault(uid, asyncio.Event()).wait()
