from __future__ import annotations

import pytest

from trainshed.kube.meta.base64text import illegal_byte


@pytest.mark.parametrize(
    ("text", "at"),
    [("!", 0), ("ab!d", 2), ("abcde", 4), ("abcdef", 4), ("ab\ncd_", 5), ("x", 0), ("", 0)],
)
def test_where_go_gives_up(text: str, at: int) -> None:
    assert illegal_byte(text) == at


def test_the_alphabet_of_urls() -> None:
    assert illegal_byte("ab+d", url=True) == 2
    assert illegal_byte("ab-dx", url=True) == 4
