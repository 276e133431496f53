"""What the pods on each node hold. Kept up to date pod by pod, so that a decision does not add up all pods again."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from decimal import Decimal

from trainshed.kube.meta.amounts import Amounts, add


class Ledger:
    """Amounts by node; each holder counts once, on one node."""

    def __init__(self) -> None:
        self._held: dict[Hashable, tuple[str, Amounts]] = {}
        self._used: dict[str, Amounts] = {}

    def hold(self, holder: Hashable, node: str, needs: Amounts) -> None:
        """Let `holder` hold `needs` on `node`, instead of what it held before."""
        if self._held.get(holder) == (node, needs):
            return
        self.release(holder)
        self._held[holder] = (node, needs)
        add(self._used.setdefault(node, {}), needs)

    def release(self, holder: Hashable) -> bool:
        """Take back what `holder` held; return whether that was anything."""
        held = self._held.pop(holder, None)
        if held is None:
            return False
        node, needs = held
        used = self._used[node]
        for name, amount in needs.items():
            used[name] -= amount
            if not used[name]:
                del used[name]
        if not used:
            del self._used[node]
        return True

    def used(self) -> Mapping[str, Mapping[str, Decimal]]:
        """Return what is held on each node; nodes without pods are left out."""
        return self._used
