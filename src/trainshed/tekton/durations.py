"""Timeouts: Go's notation for a length of time, read and written."""

from __future__ import annotations

from trainshed.kube.meta.times import parse_duration

DEFAULT_SECONDS = 3600.0
"""`default-timeout-minutes` of Tekton's configuration."""


def seconds(text: object, default: float | None = DEFAULT_SECONDS) -> float | None:
    """Return a timeout in seconds, `default` where none is given; None for `0`, which means no limit."""
    if text in (None, ""):
        return default
    length = parse_duration(str(text)).total_seconds()
    return length or None


def go(length: float) -> str:
    """Return seconds as Go prints a duration: `1h0m0s`, `90s` as `1m30s`."""
    whole = int(length)
    rest = f"{length - whole:g}"[1:] if length != whole else ""
    hours, minutes, left = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours}h{minutes}m{left}{rest}s"
    return f"{minutes}m{left}{rest}s" if minutes else f"{left}{rest}s"
