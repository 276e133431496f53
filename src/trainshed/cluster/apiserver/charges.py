"""What is charged to ResourceQuotas and not stored yet."""

from __future__ import annotations

from trainshed.kube.meta.amounts import Amounts, add


class Charges:
    """What is charged to quotas, by uid, for objects whose write is on its way."""

    def __init__(self) -> None:
        self._held: dict[str, Amounts] = {}

    def of(self, uid: str) -> Amounts:
        """Return what is charged to the quota of this uid."""
        return self._held.get(uid, {})

    def hold(self, uid: str, more: Amounts) -> None:
        """Note a charge."""
        add(self._held.setdefault(uid, {}), more)

    def release(self, uid: str, more: Amounts) -> None:
        """Forget a charge that was noted: its object is stored, or was refused."""
        held = self._held[uid]
        add(held, {name: -amount for name, amount in more.items()})
        if not any(held.values()):
            del self._held[uid]
