"""Where an action of a probe or hook goes."""

from __future__ import annotations

import pytest

from trainshed.cluster.node.pod.handlers import authority_of


@pytest.mark.parametrize(
    ("host", "authority"),
    [("10.88.0.7", "10.88.0.7:80"), ("name.example", "name.example:80"), ("fd00::7", "[fd00::7]:80")],
)
def test_addresses_of_ipv6_stand_in_brackets(host: str, authority: str) -> None:
    assert authority_of(host, 80) == authority
