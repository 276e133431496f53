"""Ages in tables: the boundaries of the API reference's table."""

from __future__ import annotations

import pytest

from trainshed.kube.meta import duration

M, H, D, Y = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (1.9, "1s"),
        (2 * M - 1, "119s"),
        (2 * M, "2m"),
        (2 * M + 5, "2m5s"),
        (10 * M - 1, "9m59s"),
        (10 * M, "10m"),
        (3 * H - 1, "179m"),
        (3 * H, "3h"),
        (3 * H + 20 * M, "3h20m"),
        (8 * H, "8h"),
        (2 * D - 1, "47h"),
        (2 * D, "2d"),
        (2 * D + 3 * H, "2d3h"),
        (8 * D, "8d"),
        (2 * Y - 1, "729d"),
        (2 * Y, "2y"),
        (2 * Y + 40 * D, "2y40d"),
        (8 * Y, "8y"),
        (20 * Y, "20y"),
    ],
)
def test_human(seconds: float, text: str) -> None:
    assert duration.human(seconds) == text
