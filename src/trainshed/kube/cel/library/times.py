"""Timestamps and durations. Source: the language definition of CEL, "Timestamps"; texts of errors are cel-go's."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from trainshed.kube.cel.library.conversions import no_conversion
from trainshed.kube.cel.library.overloads import function, member
from trainshed.kube.cel.values import Duration, EvaluationError, Timestamp, duration, timestamp
from trainshed.kube.meta.times import instant

_SECOND = 1_000_000_000
_UNITS = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)")
_OFFSET = re.compile(r"([+-]?)(\d\d?):(\d\d)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_duration(text: str) -> int:
    """Return the nanoseconds of a duration in Go's notation. ValueError: it is none."""
    sign, rest = (-1 if text[:1] == "-" else 1), text.lstrip("+-") if text[1:2] not in "+-" else ""
    if rest == "0":
        return 0
    total, at = 0, 0
    while match := _PART.match(rest, at):
        whole, _, fraction = match[1].partition(".")
        unit = _UNITS[match[2]]
        total += int(whole or 0) * unit + int(fraction or 0) * unit // 10 ** len(fraction)
        at = match.end()
    if not rest or at != len(rest):
        raise ValueError(f"time: invalid duration {text}")
    return sign * total


def read_timestamp(text: str) -> int:
    """Return the nanoseconds since 1970 of a time in RFC 3339. ValueError: it is none."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"no time: {text}")
    seconds = (instant(match[1] + match[3]) - _EPOCH) // timedelta(seconds=1)
    return seconds * _SECOND + int((match[2] or "").ljust(9, "0"))


function("duration", Duration)(lambda value: value)
function("timestamp", Timestamp)(lambda value: value)
function("timestamp", int)(lambda seconds: timestamp(seconds * _SECOND))


@function("duration", str)
def _duration(text: str) -> Duration:
    try:
        return duration(read_duration(text))
    except ValueError as error:
        raise no_conversion(text, "google.protobuf.Duration") from error


@function("timestamp", str)
def _timestamp(text: str) -> Timestamp:
    try:
        return Timestamp(read_timestamp(text))
    except ValueError as error:
        raise no_conversion(text, "google.protobuf.Timestamp") from error


@function("string", Duration)
def _duration_text(span: Duration) -> str:
    whole, rest = divmod(abs(span.nanoseconds), _SECOND)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{'-' if span.nanoseconds < 0 else ''}{whole}{fraction}s"


@function("string", Timestamp)
def _timestamp_text(moment: Timestamp) -> str:
    seconds, rest = divmod(moment.nanoseconds, _SECOND)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}{fraction}Z".rjust(20, "0")


def _zone(name: str) -> tzinfo:
    match = _OFFSET.fullmatch(name)
    if match:
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return timezone(-offset if match[1] == "-" else offset)
    try:
        return ZoneInfo(name) if name != "UTC" else UTC
    except (ValueError, OSError, LookupError) as error:
        raise EvaluationError(f"unknown time zone {name}") from error


def _getter(name: str, read: Callable[[datetime], int]) -> None:
    def local(moment: Timestamp, zone: tzinfo = UTC) -> int:
        return read((_EPOCH + timedelta(microseconds=moment.nanoseconds // 1000)).astimezone(zone))

    member(name, Timestamp)(local)
    member(name, Timestamp, str)(lambda moment, zone: local(moment, _zone(zone)))


_getter("getFullYear", lambda moment: moment.year)
_getter("getMonth", lambda moment: moment.month - 1)
_getter("getDate", lambda moment: moment.day)
_getter("getDayOfMonth", lambda moment: moment.day - 1)
_getter("getDayOfWeek", lambda moment: moment.isoweekday() % 7)
_getter("getDayOfYear", lambda moment: moment.timetuple().tm_yday - 1)
_getter("getHours", lambda moment: moment.hour)
_getter("getMinutes", lambda moment: moment.minute)
_getter("getSeconds", lambda moment: moment.second)
_getter("getMilliseconds", lambda moment: moment.microsecond // 1000)


def _whole(unit: int) -> Callable[[Duration], int]:
    return lambda span: abs(span.nanoseconds) // unit * (-1 if span.nanoseconds < 0 else 1)


member("getHours", Duration)(_whole(3600 * _SECOND))
member("getMinutes", Duration)(_whole(60 * _SECOND))
member("getSeconds", Duration)(_whole(_SECOND))
member("getMilliseconds", Duration)(_whole(10**6))
