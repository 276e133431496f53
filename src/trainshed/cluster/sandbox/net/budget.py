"""How much of something the pods may have at a time: so much each, so much together."""

from __future__ import annotations

MAX_OF_CLIENT = 1024
"""Connections by Services of one address: a pod that opens them without end has these, and the others the rest."""
MAX_REMEMBERED = 8192
"""Clients whose endpoint a Service with session affinity remembers."""


class Budget:
    """How many there are, of each client's address and in all. For one thread."""

    def __init__(self, most: int, most_of_client: int) -> None:
        self._most = most
        self._most_of_client = most_of_client
        self._total = 0
        self._held: dict[str, int] = {}

    def take(self, client: str) -> bool:
        """Return whether there may be one more; `give` it back then."""
        held = self._held.get(client, 0)
        if self._total >= self._most or held >= self._most_of_client:
            return False
        self._total += 1
        self._held[client] = held + 1
        return True

    def give(self, client: str) -> None:
        """Take note of the end of one."""
        self._total -= 1
        self._held[client] -= 1
        if not self._held[client]:
            del self._held[client]
