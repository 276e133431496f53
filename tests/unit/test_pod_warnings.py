"""Warnings of pods, where the recorded ones do not reach: how long many parts take, and which files overlap."""

from __future__ import annotations

import sys
from itertools import islice
from types import FrameType
from typing import Any

import pytest

from trainshed.kube.builtin.parts.addresses import address_warnings, network_warnings
from trainshed.kube.builtin.parts.pod.warnings import pod_warnings

MOST = 51


def of_ports(*ports: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", "ports": list(ports)}]}}


def of_files(*paths: str) -> dict[str, Any]:
    items = [{"key": "k", "path": path} for path in paths]
    volume = {"name": "v", "configMap": {"name": "c", "items": items}}
    return {"spec": {"containers": [], "volumes": [volume]}}


def calls(pod: dict[str, Any]) -> int:
    """Return how many functions are called for the first few warnings."""
    count = 0

    def see(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        list(islice(pod_warnings(pod), MOST))
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "make",
    [
        lambda n: of_ports(*({"containerPort": 1, "hostPort": number} for number in range(1, n))),
        lambda n: of_ports(*({"containerPort": 1, "hostPort": 9, "hostIP": f"{i}"} for i in range(1, n))),
        lambda n: of_ports(*({"containerPort": number} for number in range(1, n))),
        lambda n: of_ports(*({"containerPort": 1} for _ in range(n))),
        lambda n: of_files(*(f"a/{number}" for number in range(n)), "a"),
        lambda n: of_files("/".join("a" * n), *(f"{number}" for number in range(n))),
        lambda n: of_files(*("a" for _ in range(n))),
        lambda n: {"spec": {"containers": [{"env": [{"name": f"a{i}"} for i in range(n)]}]}},
    ],
)
def test_many_parts_take_as_much_longer_as_they_are_more(make: Any) -> None:
    assert calls(make(4_000)) < 3 * calls(make(2_000))


def told(pod: dict[str, Any]) -> list[str]:
    return [text.rpartition("paths: ")[2] for text in pod_warnings(pod)]


def test_files_overlap_with_each_that_came_before_in_their_order() -> None:
    assert told(of_files("a/b", "c", "a/d/", "a", "a/b/e", "")) == [
        '"a" with "a/b"',
        '"a" with "a/d"',
        '"a/b/e" with "a/b"',
        '"a/b/e" with "a"',
    ]


def test_ports_are_told_of_in_the_order_of_those_they_are_like() -> None:
    ports = [
        {"containerPort": 80, **more} for more in ({"hostPort": 1}, {}, {"hostPort": 1, "hostIP": "::1"}, {})
    ]
    at = "spec.containers[0].ports"
    assert list(pod_warnings(of_ports(*ports))) == [
        f"{at}[1]: overlapping port definition with {at}[0]",
        f"{at}[2]: dangerously ambiguous port definition with {at}[0]",
        f"{at}[2]: overlapping port definition with {at}[1]",
        f"{at}[3]: overlapping port definition with {at}[0]",
        f"{at}[3]: duplicate port definition with {at}[1]",
        f"{at}[3]: overlapping port definition with {at}[2]",
    ]


def test_the_second_of_two_alike_is_told() -> None:
    secrets = [{"name": "a"}, {"name": "a"}]
    assert list(pod_warnings({"spec": {"containers": [], "imagePullSecrets": secrets}})) == [
        'spec.imagePullSecrets[1].name: duplicate name "a"'
    ]


_LATER = "will be considered invalid in a future Kubernetes release: use"


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("10.0.0.1", ""),
        ("2001:db8::1", ""),
        ("no address", ""),
        (None, ""),
        ("010.0.0.1", f'non-standard IP address "010.0.0.1" {_LATER} "10.0.0.1"'),
        ("::ffff:1.2.3.4", f'non-standard IP address "::ffff:1.2.3.4" {_LATER} "1.2.3.4"'),
        (
            "2001:DB8::0:1",
            'IPv6 address "2001:DB8::0:1" should be in RFC 5952 canonical format ("2001:db8::1")',
        ),
    ],
)
def test_addresses_that_not_every_program_reads_alike(text: str | None, warning: str) -> None:
    """As kube-apiserver 1.33.13 answers for `externalIPs`."""
    assert list(address_warnings(text, "at")) == ([f"at: {warning}"] if warning else [])


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ("10.0.0.0/8", []),
        ("2001:db8::/32", []),
        ("no range", []),
        (None, []),
        ("010.0.0.0/8", [f'non-standard CIDR value "010.0.0.0/8" {_LATER} "10.0.0.0/8"']),
        ("10.0.0.0/08", [f'non-standard CIDR value "10.0.0.0/08" {_LATER} "10.0.0.0/8"']),
        (
            "2001:DB8::/32",
            ['IPv6 CIDR value "2001:DB8::/32" should be in RFC 5952 canonical format ("2001:db8::/32")'],
        ),
        (
            "2001:db8::1/64",
            [
                'CIDR value "2001:db8::1/64" is ambiguous in this context (should be "2001:db8::/64" or '
                '"2001:db8::1/128"?)'
            ],
        ),
        (
            "::ffff:1.2.3.4/120",
            [
                'CIDR value "::ffff:1.2.3.4/120" is ambiguous in this context (should be "1.2.3.0/24" or '
                '"1.2.3.4/128"?)',
                f'non-standard CIDR value "::ffff:1.2.3.4/120" {_LATER} "1.2.3.0/24"',
            ],
        ),
    ],
)
def test_ranges_that_not_every_program_reads_alike(text: str | None, warnings: list[str]) -> None:
    """As kube-apiserver 1.33.13 answers for `loadBalancerSourceRanges`."""
    assert list(network_warnings(text, "at")) == [f"at: {warning}" for warning in warnings]
