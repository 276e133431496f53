"""The cluster's addresses and names; that one module says them is seen in `tests/house`."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.cluster.sandbox import addresses


def test_the_plan_is_consistent():
    pods, services = (ipaddress.ip_network(n) for n in (addresses.POD_NETWORK, addresses.SERVICE_NETWORK))
    assert not pods.overlaps(services) and pods.prefixlen == addresses.POD_PREFIX_LENGTH
    assert ipaddress.ip_address(addresses.GATEWAY) in pods
    assert ipaddress.ip_address(addresses.API_ADDRESS) in services
    reserved = {pods.network_address, pods.broadcast_address, ipaddress.ip_address(addresses.GATEWAY)}
    ends = {ipaddress.ip_address(addresses.pod_address(n)) for n in (addresses.FIRST_POD, addresses.LAST_POD)}
    assert len(ends & set(pods)) == 2 and not ends & reserved


@given(st.integers(addresses.FIRST_POD, addresses.LAST_POD))
def test_pods_have_numbers(number):
    address = addresses.pod_address(number)
    assert addresses.pod_number(address) == number
    assert addresses.is_pod(address) and addresses.is_cluster(address) and not addresses.is_local(address)


@given(st.ip_addresses(v=4))
def test_prefixes_say_what_the_networks_say(address):
    text = str(address)
    assert addresses.is_pod(text) == (address in ipaddress.ip_network(addresses.POD_NETWORK))
    assert addresses.is_service(text) == (address in ipaddress.ip_network(addresses.SERVICE_NETWORK))


@pytest.mark.parametrize(
    ("address", "local"),
    [("127.0.0.1", True), ("0.0.0.0", True), ("169.254.169.254", True), ("::1", True), ("fe80::1", True),
     ("::", True), ("100.100.100.200", True), ("168.63.129.16", True), ("fd00:ec2::254", True),
     ("192.168.0.1", False), ("1.1.1.1", False), ("2001:db8::1", False)],
)  # fmt: skip
def test_local_addresses(address, local):
    assert addresses.is_local(address) is local
