"""Spans of time for people: ages as kubectl's tables print them (`3m20s`, `5d3h`), elapsed time as a clock does."""

from __future__ import annotations

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def human(seconds: float) -> str:
    """Return `seconds` with two or three significant figures; `<invalid>` when more than a second in the future.

    Source: the table of the API reference (apimachinery's HumanDuration): the finer unit is dropped as soon as
    it stops mattering, and when it is zero.
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(whole: int, unit: int, name: str, finer: int, finer_name: str) -> str:
    rest = whole % unit // finer
    return f"{whole // unit}{name}{rest}{finer_name}" if rest else f"{whole // unit}{name}"


def elapsed(seconds: float) -> str:
    """Return `12s`, `3m05s` or `1h02m`."""
    whole = int(max(seconds, 0))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
