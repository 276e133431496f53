"""Instants and durations as the API writes them: RFC 3339 in UTC, to the second or to the microsecond; `1h30m`."""

from __future__ import annotations

import functools
import json
import re
from datetime import UTC, date, datetime, timedelta

_SIX_DECIMALS = re.compile(r"\.\d{6}(Z|[+-]\d\d:\d\d)$")
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT)(\d\d?)(:\d\d:\d\d)([.,]\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
"""With capital letters only, and hours of one digit: what Go reads."""
_ELEMENTS = (
    ("2006", r"\d{4}", "", 0, 9999),
    ("-", "-", "", 0, 0),
    ("01", r"\d\d", "month", 1, 12),
    ("-", "-", "", 0, 0),
    ("02", r"\d\d", "", 0, 99),
    ("T", "T", "", 0, 0),
    ("15", r"\d\d?", "hour", 0, 23),
    (":", ":", "", 0, 0),
    ("04", r"\d\d", "minute", 0, 59),
    (":", ":", "", 0, 0),
    ("05", r"\d\d", "second", 0, 59),
    (".000000", r"[.,]\d{6}", "", 0, 0),
    ("Z07:00", r"Z|[+-]\d\d:\d\d", "", 0, 0),
)
"""Elements of Go's layout: how it names them, what it reads, and what is out of range by which name."""
_PART = re.compile(r"([0-9.]+)(ns|us|µs|ms|s|m|h)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def instant(text: str) -> datetime:
    """Return an ISO 8601 time, in whatever zone it names or none; ValueError when it is none."""
    return datetime.fromisoformat(text)


def parse_date(text: str) -> date:
    """Return an ISO 8601 date; ValueError when it is none."""
    return date.fromisoformat(text)


def parse_time(text: str) -> float:
    """Return seconds since the epoch of an RFC 3339 time; ValueError when it is none."""
    return instant(text).timestamp()


def canonical_time(text: str, *, micro: bool = False) -> str:
    """Return an RFC 3339 instant in UTC: to the second, or with six decimals when `micro`.

    Raises:
        ValueError: `text` is no RFC 3339 time, or has no six decimals when `micro`, as Go's layout asks for them.
    """
    read = _RFC3339.fullmatch(text)  # `instant` reads many other formats
    if read is None or (micro and not _SIX_DECIMALS.search(text)):
        raise ValueError(text)
    day, hour, rest, fraction, zone = read.groups()
    moment = instant(f"{day}{hour:0>2}{rest}{(fraction or '').replace(',', '.')}{zone}").astimezone(UTC)
    if micro:
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return text if len(text) == 20 and text[-1] == "Z" else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def time_fault(text: str, *, micro: bool = False) -> str:
    """Return what Go's `time.Parse` says of a text that `canonical_time` refuses."""
    rest, layout = text, "2006-01-02T15:04:05" + (".000000" if micro else "") + "Z07:00"
    for name, pattern, called, least, most in _ELEMENTS:
        if name.startswith(".") and not micro:
            pattern = r"([.,]\d+)?"
        found = re.match(pattern, rest, re.ASCII)
        if found is None:
            return f"parsing time {_quoted(text)} as {_quoted(layout)}: cannot parse {_quoted(rest)} as {_quoted(name)}"
        if called and not least <= int(found[0]) <= most:
            return f"parsing time {_quoted(text)}: {called} out of range"
        rest = rest[found.end() :]
        if name == "Z07:00" and found[0] != "Z" and not rest:
            if int(found[0][1:3]) > 24:
                return f"parsing time {_quoted(text)}: time zone offset hour out of range"
            if int(found[0][4:]) > 60:
                return f"parsing time {_quoted(text)}: time zone offset minute out of range"
    if rest:
        return f"parsing time {_quoted(text)}: extra text: {_quoted(rest)}"
    return f"parsing time {_quoted(text)}: day out of range"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def parse_duration(text: str) -> timedelta:
    """Return a duration in Go's notation, such as `1h30m` or `1.5s`; other parts count nothing."""
    return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)))


def format_time(instant: float) -> str:
    """Return `instant` as metav1.Time: `2026-01-31T12:00:00Z`; fractions of a second are cut off."""
    return _second(int(instant))


@functools.lru_cache(maxsize=16)  # a server writes the same second a thousand times
def _second(instant: int) -> str:
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(instant: float) -> str:
    """Return `instant` as metav1.MicroTime, which Leases use: `2026-01-31T12:00:00.000000Z`."""
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def time_or_none(text: object) -> float | None:
    """Return seconds since the epoch of an RFC 3339 time, in UTC if it names no zone; None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        moment = instant(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
