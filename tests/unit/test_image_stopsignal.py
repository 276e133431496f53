"""STOPSIGNAL: numbers and names, as container engines read them."""

from __future__ import annotations

import pytest

from trainshed.cluster.images.stopsignal import signal_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("SIGTERM", 15),
        ("sigint", 2),
        ("QUIT", 3),
        ("9", 9),
        ("64", 64),
        ("SIGRTMIN", 34),
        ("SIGRTMIN+3", 37),
        ("RTMAX-1", 63),
        ("RTMAX", 64),
        ("SIGRTMIN+31", None),
        ("SIGRTMIN-1", None),
        ("RTMIN+", None),
        ("0", None),
        ("65", None),
        ("", None),
        ("SIG", None),
        ("_DFL", None),
        ("NO", None),
        ("\u00b2", None),
    ],
)
def test_what_a_stop_signal_means(text: str, number: int | None) -> None:
    assert signal_number(text) == number
