"""Schedules: when they are due, in which zone, and what is none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.kube.meta.cron import Schedule


def at(text: str) -> float:
    """Return the instant of a time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("schedule", "zone", "now", "latest", "after"),
    [
        ("*/5 * * * *", None, "2026-03-01T10:07:30", "2026-03-01T10:05", "2026-03-01T10:10"),
        ("*/5 * * * *", None, "2026-03-01T10:05", "2026-03-01T10:05", "2026-03-01T10:10"),
        ("0 3 * * *", "Asia/Seoul", "2026-03-01T19:00", "2026-03-01T18:00", "2026-03-02T18:00"),
        ("30 9 * * MON-FRI", None, "2026-03-01T00:00", "2026-02-27T09:30", "2026-03-02T09:30"),
        ("0 0 ? * 0", None, "2026-03-02T00:00", "2026-03-01T00:00", "2026-03-08T00:00"),
        ("0 12 31 * *", None, "2026-03-01T00:00", "2026-01-31T12:00", "2026-03-31T12:00"),
        ("@daily", None, "2026-03-01T00:00:01", "2026-03-01T00:00", "2026-03-02T00:00"),
        ("@hourly", None, "2026-03-01T00:59", "2026-03-01T00:00", "2026-03-01T01:00"),
    ],
)
def test_when_it_is_due(schedule: str, zone: str | None, now: str, latest: str, after: str) -> None:
    found = Schedule(schedule, zone)
    assert found.latest(at("2025-01-01"), at(now)) == at(latest)
    assert found.after(at(now)) == at(after)


def test_every_counts_from_the_last_time() -> None:
    schedule = Schedule("@every 1h30m")
    start = at("2026-03-01T10:00")
    assert schedule.latest(start, start + 5399) is None
    assert schedule.latest(start, start + 3 * 5400 + 7) == start + 3 * 5400
    assert schedule.after(start) == start + 5400


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("* * * *", "expected exactly 5 fields, found 4"),
        ("@fortnightly", "unrecognized descriptor: @fortnightly"),
        ("@every soon", "failed to parse duration @every soon"),
        ("61 * * * *", "minute"),
        ("0 0 L * *", "failed to parse L"),
        ("0 0 * * 1#2", "failed to parse 1#2"),
        ("0 0 32 2 *", "day"),
        ("0 0 31 13 *", "month"),
        ("0 0 * * 7", r"end of range \(7\) above maximum \(6\)"),
    ],
)
def test_what_is_no_schedule(schedule: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Schedule(schedule)


def test_an_unknown_zone() -> None:
    with pytest.raises(ValueError, match="unknown time zone Mars/Olympus"):
        Schedule("@daily", "Mars/Olympus")


@given(
    st.sampled_from(["*/7 * * * *", "15 */3 * * *", "0 4 1,15 * *", "0 9 * * TUE", "@every 10m"]),
    st.integers(0, 10**6).map(lambda minutes: at("2026-01-01") + 37 * minutes),
    st.integers(1, 10**6),
)
def test_the_latest_time_is_the_last_of_those_that_follow_each_other(
    text: str, earliest: float, passed: int
) -> None:
    schedule = Schedule(text)
    now = earliest + passed
    latest = schedule.latest(earliest, now)
    following = schedule.after(earliest)
    assert following is not None
    if latest is None:
        assert following > now
    else:
        assert following <= latest <= now
        after = schedule.after(latest)
        assert after is not None and after > now
        assert timedelta(seconds=latest - earliest) > timedelta()


def test_a_day_that_no_month_has_is_a_schedule_that_is_never_due() -> None:
    """kube-apiserver 1.33 takes `0 0 31 2 *`."""
    schedule = Schedule("0 0 31 2 *")
    assert schedule.never and not Schedule("0 0 29 2 *").never and not Schedule("@every 1h").never
    assert schedule.after(at("2026-03-01")) is None
    assert schedule.latest(at("2020-03-01"), at("2026-03-01")) is None


def test_a_stamp_is_in_the_time_zone_of_the_schedule() -> None:
    assert Schedule("@daily", "Europe/Berlin").stamp(at("2026-11-23T01:00")) == "2026-11-23T02:00:00+01:00"
    assert Schedule("@daily").stamp(at("2026-11-23T01:00")) == "2026-11-23T01:00:00Z"
