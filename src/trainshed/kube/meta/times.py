"""Instants as the API writes them: RFC 3339 in UTC, to the second or to the microsecond."""

from __future__ import annotations

from datetime import UTC, datetime


def parse_time(text: str) -> float:
    """Return seconds since the epoch of an RFC 3339 time; ValueError when it is none."""
    return datetime.fromisoformat(text).timestamp()


def format_time(instant: float) -> str:
    """Return `instant` as metav1.Time: `2026-01-31T12:00:00Z`; fractions of a second are cut off."""
    return datetime.fromtimestamp(int(instant), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(instant: float) -> str:
    """Return `instant` as metav1.MicroTime, which Leases use: `2026-01-31T12:00:00.000000Z`."""
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def time_or_none(text: object) -> float | None:
    """Return seconds since the epoch of an RFC 3339 time, in UTC if it names no zone; None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
