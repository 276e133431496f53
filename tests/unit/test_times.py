"""Times and durations of the API; that one module reads them is seen in `tests/house`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from trainshed.kube.builtin.parts.columns import since
from trainshed.kube.meta import times


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:01:00Z", 60.0),
        ("1970-01-01T01:01:00+01:00", 60.0),
        ("1970-01-01T00:00:00.250000Z", 0.25),
    ],
)
def test_a_time_is_seconds_since_the_epoch(text: str, seconds: float) -> None:
    assert times.parse_time(text) == times.time_or_none(text) == seconds


@pytest.mark.parametrize("text", ["", "yesterday", None, 5])
def test_anything_else_is_no_time(text: object) -> None:
    assert times.time_or_none(text) is None


def test_a_time_without_a_zone_is_in_utc() -> None:
    assert times.time_or_none("1970-01-01T00:01:00") == 60.0


@pytest.mark.parametrize(
    ("text", "micro", "canonical"),
    [
        ("2024-01-01T00:00:00Z", False, "2024-01-01T00:00:00Z"),
        ("2024-01-01T02:00:00+02:00", False, "2024-01-01T00:00:00Z"),
        ("2024-01-01T00:00:00.987654321Z", False, "2024-01-01T00:00:00Z"),
        ("2024-01-01T01:00:00.500000+01:00", True, "2024-01-01T00:00:00.500000Z"),
    ],
)
def test_stored_times_are_in_utc(text: str, micro: bool, canonical: str) -> None:
    assert times.canonical_time(text, micro=micro) == canonical


@pytest.mark.parametrize(
    "text", ["2024-01-01", "2024-01-01t00:00:00Z", "2024-01-01T00:00:00", "20240101T000000Z"]
)
def test_other_forms_of_iso_8601_are_refused(text: str) -> None:
    """Clients in Go could not read them back."""
    with pytest.raises(ValueError, match=text):
        times.canonical_time(text)


@pytest.mark.parametrize(
    "text", ["2024-01-01T00:00:00Z", "2024-01-01T00:00:00.5Z", "2024-01-01T00:00:00.0000000Z"]
)
def test_microseconds_have_six_decimals(text: str) -> None:
    """Go's layout asks for them: a Lease without is refused."""
    with pytest.raises(ValueError, match=text):
        times.canonical_time(text, micro=True)


def test_dates_and_instants() -> None:
    assert times.instant("2024-01-31T12:00:00+00:00") == datetime(2024, 1, 31, 12, tzinfo=UTC)
    assert times.parse_date("2024-01-31").day == 31
    for read in (times.instant, times.parse_date, times.parse_time):
        with pytest.raises(ValueError, match="isoformat"):
            read("soon")


@pytest.mark.parametrize(
    ("text", "span"),
    [("90s", timedelta(seconds=90)), ("1h1.5m", timedelta(seconds=3690)), ("250ms", timedelta(seconds=0.25))],
)
def test_durations(text: str, span: timedelta) -> None:
    assert times.parse_duration(text) == span


def test_ages_in_tables() -> None:
    assert since("1970-01-01T00:00:10Z", 70.0) == "60s"
    assert since("1970-01-01T01:00:10.500000+01:00", 70.6) == "60s"
    assert since(None, 70.0) == since("yesterday", 70.0) == "<unknown>"
