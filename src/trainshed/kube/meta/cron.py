"""Times of a CronJob's schedule, as Kubernetes reads it: five fields, `@daily` and its like, or `@every 90m`.

The fields are parsed by cronsim, without what it has beyond Kubernetes (`L`, `W`, `#`, Sunday as 7).
Source: batch/v1 CronJobSpec; github.com/robfig/cron v3, `ParseStandard`.
"""

from __future__ import annotations

import math
import re
import zoneinfo
from datetime import UTC, datetime, timedelta, tzinfo

from cronsim import CronSim, CronSimError

from trainshed.kube.meta.times import parse_duration

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_DURATION = re.compile(r"(\d+(\.\d*)?(ns|us|µs|ms|s|m|h))+")
_WORDS = "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC|SUN|MON|TUE|WED|THU|FRI|SAT"
_FIELD = re.compile(rf"(?:\d+|[*,/?-]|{_WORDS})+", re.IGNORECASE)


class Schedule:
    """When something is due. Instants are seconds since the epoch.

    Raises:
        ValueError: the text is no schedule; its message says why.
    """

    def __init__(self, text: str, time_zone: str | None = None) -> None:
        """Args: time_zone: an IANA name; without one, UTC, which is what the control plane runs in."""
        self._zone: tzinfo = UTC if time_zone is None else zone(time_zone)
        self._every: timedelta | None = None
        self._fields = ""
        self.never = False
        """Whether there is no such day, as with `0 0 31 2 *`."""
        if text.startswith(_EVERY):
            self._every = max(timedelta(seconds=math.floor(_seconds(text))), timedelta(seconds=1))
        else:
            self._fields = _fields(text)
            try:
                CronSim(self._fields, datetime(2000, 1, 1, tzinfo=UTC))
            except CronSimError as error:
                self.never = _is_no_date(self._fields)
                if not self.never:
                    raise ValueError(str(error)) from error

    def after(self, instant: float) -> float | None:
        """Return the first time after an instant; None when there is none for decades."""
        if self._every is not None:
            return math.floor(instant) + self._every.total_seconds()
        if self.never:
            return None
        found = next(CronSim(self._fields, self._local(instant)), None)
        return None if found is None else found.timestamp()

    def latest(self, earliest: float, now: float) -> float | None:
        """Return the last time in (earliest, now], None when there is none."""
        if self._every is not None:
            step = self._every.total_seconds()
            passed = math.floor((now - math.floor(earliest)) / step)
            return math.floor(earliest) + passed * step if passed > 0 else None
        if self.never:
            return None
        # A minute is the finest step, and what is due at this very second counts.
        found = next(CronSim(self._fields, self._local(math.floor(now) + 1), reverse=True), None)
        return None if found is None or found.timestamp() <= earliest else found.timestamp()

    def stamp(self, instant: float) -> str:
        """Return the instant as RFC 3339 in the schedule's time zone."""
        return self._local(instant).isoformat().replace("+00:00", "Z")

    def _local(self, instant: float) -> datetime:
        return datetime.fromtimestamp(math.floor(instant), self._zone)


def _is_no_date(fields: str) -> bool:
    """Return whether each field is right, but no month has such a day."""
    minute, hour, day, month, weekday = fields.split()
    try:
        for text in (f"{minute} {hour} {day} * {weekday}", f"{minute} {hour} 1 {month} {weekday}"):
            CronSim(text, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError:
        return False
    return True


def zone(name: str) -> tzinfo:
    """Return a time zone. Raises ValueError for a name that is none."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(f"unknown time zone {name}") from error


def _seconds(text: str) -> float:
    duration = text.removeprefix(_EVERY)
    if not _DURATION.fullmatch(duration):
        raise ValueError(f"failed to parse duration {text}")
    return parse_duration(duration).total_seconds()


def _fields(text: str) -> str:
    if text.startswith("@"):
        if text not in _MACROS:
            raise ValueError(f"unrecognized descriptor: {text}")
        return _MACROS[text]
    fields = text.split()
    if len(fields) != 5:
        raise ValueError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    for field in fields:
        if not _FIELD.fullmatch(field):
            raise ValueError(f"failed to parse {field}")
    if re.search(r"(?<!/)\b7\b", fields[4]):
        raise ValueError(f"end of range (7) above maximum (6): {fields[4]}")
    return " ".join(field.replace("?", "*") for field in fields)
