"""Events go away an hour after they last changed (upstream's `--event-ttl`)."""

from __future__ import annotations

import asyncio

import msgspec

from trainshed.cluster.apiserver.core import Core
from trainshed.cluster.store import KeyMissing, RevisionMismatch, StoreError, keys
from trainshed.kube.meta.resources import EVENTS
from trainshed.kube.meta.times import parse_time

EVENT_SECONDS = 3600.0
LOOK_EVERY_SECONDS = 60.0


class _Series(msgspec.Struct):
    lastObservedTime: str | None = None


class _Metadata(msgspec.Struct):
    creationTimestamp: str | None = None


class _Event(msgspec.Struct):
    """What tells when an event last happened: the rest of it is not decoded."""

    metadata: _Metadata
    series: _Series | None = None
    lastTimestamp: str | None = None
    eventTime: str | None = None


_decode = msgspec.json.Decoder(_Event).decode


async def expire_events(core: Core) -> None:
    """Delete old events until cancelled."""
    while True:
        await sweep(core, core.clock())
        await asyncio.sleep(LOOK_EVERY_SECONDS)


async def sweep(core: Core, now: float) -> None:
    """Delete the events that are too old at `now`."""
    for stored in core.store.list(keys.under(EVENTS))[0]:
        if now - _last_change(stored.encoded) > EVENT_SECONDS:
            try:
                await core.store.delete(stored.key, stored.revision)
            except (KeyMissing, RevisionMismatch, StoreError):
                continue  # changed a moment ago, or the disk is full: next time


def _last_change(encoded: bytes) -> float:
    """Return when an event last happened, in seconds since the epoch."""
    event = _decode(encoded)
    for text in (
        event.series.lastObservedTime if event.series else None,
        event.lastTimestamp,
        event.eventTime,
        event.metadata.creationTimestamp,
    ):
        if text:
            return parse_time(text)
    return 0.0
