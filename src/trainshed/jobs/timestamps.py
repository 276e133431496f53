"""Times of the wire: RFC 3339 in UTC with whole seconds, e.g. `2024-05-01T12:00:00Z`."""

from __future__ import annotations

from datetime import UTC, datetime


def wire(now: float) -> str:
    """Return seconds since the epoch as wire text; fractions are cut off."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(text: object) -> float | None:
    """Return wire text as seconds since the epoch, None for anything that is no time."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
