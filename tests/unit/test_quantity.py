"""Quantities: values are exact, the canonical spelling is the API's and is a fixed point."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.kube.meta import quantity


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("1073741824", "1073741824"),
        ("0.5Gi", "512Mi"),
        (0.5, "500m"),
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        (1500, "1500"),
        (1000, "1k"),
        (1000.0, "1k"),
        (1, "1"),
        (0, "0"),
        ("0Gi", "0"),
        ("100m", "100m"),
        ("0.1", "100m"),
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("1.5Ki", "1536"),
        ("512Ki", "512Ki"),
        ("0.5Ki", "512"),
        ("0.1Ki", "102400m"),
        ("1025.1Ki", "1049702400m"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("12e2", "1200"),
        ("1E", "1E"),
        ("1.2e-3", "1200e-6"),
        ("-500m", "-500m"),
        ("+2", "2"),
        (".5", "500m"),
        ("5.", "5"),
        (" 2Gi ", "2Gi"),
        ("0.0000000001", "1n"),
        ("1e100", "9223372036854775807"),
        ("10Ei", "9223372036854775807"),
        ("1500u", "1500u"),
        ("3k", "3k"),
    ],
)
def test_canonical_spelling(written: str | float, stored: str) -> None:
    assert quantity.canonical(written) == stored


@pytest.mark.parametrize("text", ["", "x", "1Kib", "1 Gi", "1.2.3", "1e", "--1", "0x10", "1mi", "1K", "٣"])
def test_refuses_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="quantities must match the regular expression"):
        quantity.parse(text)


def test_refuses_booleans() -> None:
    with pytest.raises(ValueError, match="quantities"):
        quantity.canonical(True)


def test_values() -> None:
    assert quantity.parse("2Gi") == 2 * 1024**3
    assert quantity.parse("250m") == Decimal("0.25")
    assert quantity.parse(3) == 3


_QUANTITIES = st.builds(
    lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**12),
    st.one_of(st.just(""), st.integers(0, 10**6).map(lambda n: f".{n}")),
    st.sampled_from(["", *"numkMGT", "Ki", "Mi", "Gi", "e2", "e-2", "E3"]),
)


@given(_QUANTITIES)
def test_canonical_is_a_fixed_point_and_keeps_the_value(text: str) -> None:
    stored = quantity.canonical(text)
    assert quantity.canonical(stored) == stored
    assert quantity.parse(stored) == quantity.parse(text)
