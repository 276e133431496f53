"""Addresses and CIDRs of new kinds have one way to be written."""

from __future__ import annotations

import pytest

from trainshed.kube.meta import networks


@pytest.mark.parametrize("text", ["10.9.0.1", "0.0.0.0", "2001:db8::1", "::"])
def test_canonical_addresses_are_taken(text: str) -> None:
    assert networks.ip_address(text) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("here", "must be a valid IP address"),
        ("", "must be a valid IP address"),
        ("1.2.3.999", "must be a valid IP address"),
        ("10.9.0.01", "must not have leading 0s"),
        ("2001:DB8::1", 'must be in canonical form ("2001:db8::1")'),
        ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
    ],
)
def test_other_addresses_are_told_apart(text: str, why: str) -> None:
    (said,) = networks.ip_address(text)
    assert said.startswith(why)


@pytest.mark.parametrize("text", ["10.9.0.0/24", "0.0.0.0/0", "2001:db8::/64"])
def test_canonical_ranges_are_taken(text: str) -> None:
    assert networks.cidr(text) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10.9.0.0", "must be a valid CIDR value"),
        ("10.9.0.0/", "must be a valid CIDR value"),
        ("10.9.0.0/33", "must be a valid CIDR value"),
        ("10.9.0.0/-1", "must be a valid CIDR value"),
        ("10.9.0.0/255.255.255.0", "must be a valid CIDR value"),
        ("fe80::%eth0/64", "must be a valid CIDR value"),
        ("10.9.0.0/024", "must not have leading 0s in IP or prefix length"),
        ("10.9.0.1/24", "must not have bits set beyond the prefix length"),
        ("2001:DB8::/64", 'must be in canonical form ("2001:db8::/64")'),
        ("::ffff:10.9.0.0/120", "must not have an IPv4-mapped IPv6 address"),
    ],
)
def test_other_ranges_are_told_apart(text: str, why: str) -> None:
    (said,) = networks.cidr(text)
    assert said.startswith(why)


def test_families() -> None:
    assert [networks.family(text) for text in ("10.9.0.0/24", "2001:db8::/64", "x")] == [4, 6, 0]
