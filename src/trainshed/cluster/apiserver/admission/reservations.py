"""Addresses and ports that were given to Services moments ago, and are not stored yet."""

from __future__ import annotations

from trainshed.cluster.apiserver.core import Call, Core, Reservation

_HELD_SECONDS = 30.0


def held_by_others(core: Core, call: Call, owner: tuple[str, str]) -> set[str]:
    """Return what other Services hold. `owner` itself may be sent again, once what was wrong with it is mended."""
    out: set[str] = set()
    for value, held in list(core.reserved.items()):
        if held.until < call.now:
            del core.reserved[value]
        elif held.owner != owner:
            out.add(value)
    return out


def hold(core: Core, call: Call, value: str, owner: tuple[str, str]) -> None:
    """Keep an address or port for a Service until its write must be over."""
    core.reserved[value] = Reservation(owner, call.now + _HELD_SECONDS)
