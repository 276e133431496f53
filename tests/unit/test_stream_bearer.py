"""A token among the subprotocols of a WebSocket."""

from __future__ import annotations

import pytest

from trainshed.cluster.apiserver.streams.bearer import PREFIX, split


def test_the_token_and_the_others() -> None:
    assert split([]) == ("", [])
    assert split(["v4.channel.k8s.io"]) == ("", ["v4.channel.k8s.io"])
    for encoded, token in (("YWJj", "abc"), ("YWI", "ab"), ("YQ", "a"), ("Pj8-Pz8_", ">?>???")):
        assert split(["x", PREFIX + encoded, "y"]) == (token, ["x", "y"])


@pytest.mark.parametrize(
    ("offered", "why"),
    [
        ([PREFIX + "YQ", PREFIX + "YQ", "x"], "multiple"),
        ([PREFIX + "Y", "x"], "encoding"),
        ([PREFIX + "Y*==", "x"], "encoding"),
        ([PREFIX + "_w", "x"], "encoding"),
        ([PREFIX + "YQ"], "missing additional subprotocol"),
    ],
)
def test_what_is_no_token(offered: list[str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        split(offered)
