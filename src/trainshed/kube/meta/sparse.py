"""Tables that were much fuller once.

A dict or set keeps the room that its entries have taken until it is made anew: after ten thousand pods are gone, a
megabyte in every table of pods.
"""

from __future__ import annotations

import sys
from typing import Any

ROOM_BYTES = 64 * 1024
"""What a table may take without being looked at."""
ENTRY_BYTES = 256
"""What it may take for an entry before it is made anew: twice as much as one that has just grown takes."""


def give_back(table: dict[Any, Any] | set[Any]) -> None:
    """Give back the room of a table that has become nearly empty. To be called where entries leave it; over as many
    calls as make it sparse it costs nothing much."""
    size = sys.getsizeof(table)
    if size <= ROOM_BYTES or size <= ENTRY_BYTES * len(table):
        return
    kept = table.copy()
    table.clear()
    table.update(kept)
