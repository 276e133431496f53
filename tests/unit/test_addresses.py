"""The cluster's addresses and names: said in one module, and used by all others."""

from __future__ import annotations

import ast
import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trainshed
from trainshed.cluster.sandbox import addresses

ROOT = Path(trainshed.__file__).parent
LITERAL = re.compile(r"\b10\.(88|96)\.|169\.254\.|cluster\.local|:3128\b")


def spoken(path: Path) -> Iterator[str]:
    """Yield the texts of a module that are not docstrings."""
    tree = ast.parse(path.read_text())
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def test_no_other_module_spells_an_address_of_the_cluster():
    found = {
        str(path.relative_to(ROOT)): text
        for path in ROOT.rglob("*.py")
        if path != Path(addresses.__file__) and LITERAL.search(path.read_text())
        for text in spoken(path)
        if LITERAL.search(text)
    }
    assert found == {}
    assert any(LITERAL.search(text) for text in spoken(Path(addresses.__file__))), "the search finds them"


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
