"""Addresses and CIDRs in the strict form that new kinds ask for: the canonical one, and no other way to write it.

Source: `IsValidIP` and `IsValidCIDR` in `pkg/util/validation/ip.go` of apimachinery.
"""

from __future__ import annotations

import ipaddress
import re

_ZEROS = re.compile(r"(?:^|\.)0\d")
_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def ip_address(text: str) -> list[str]:
    """Return what is wrong with an IP address; empty when nothing is."""
    plain = _without_zeros(text)
    try:
        address = ipaddress.ip_address(plain)
    except ValueError:
        return [_IP]
    if plain != text:
        return ["must not have leading 0s"]
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return ["must not be an IPv4-mapped IPv6 address"]
    return [] if str(address) == text else [f'must be in canonical form ("{address}")']


def cidr(text: str) -> list[str]:
    """Return what is wrong with a CIDR; empty when nothing is."""
    address, slash, length = text.partition("/")
    plain = _without_zeros(address)
    bits = length.lstrip("0") or "0"
    try:
        if not slash or not length.isascii() or not length.isdigit() or "%" in address:
            return [_CIDR]
        network = ipaddress.ip_network(f"{plain}/{bits}", strict=False)
    except ValueError:
        return [_CIDR]
    if plain != address or bits != length:
        return ["must not have leading 0s in IP or prefix length"]
    whole = ipaddress.ip_address(plain)
    if isinstance(whole, ipaddress.IPv6Address) and whole.ipv4_mapped is not None:
        return ["must not have an IPv4-mapped IPv6 address"]
    if network.network_address != whole:
        return ["must not have bits set beyond the prefix length"]
    return [] if str(network) == text else [f'must be in canonical form ("{network}")']


def family(text: str) -> int:
    """Return 4 or 6 for a CIDR or an address, 0 for what is neither."""
    try:
        return ipaddress.ip_network(text, strict=False).version
    except ValueError:
        return 0


def _without_zeros(address: str) -> str:
    """Return an IPv4 address without zeros before its numbers, which Go's sloppy parsers let pass."""
    if ":" in address or not _ZEROS.search(address):
        return address
    return ".".join(part.lstrip("0") or "0" for part in address.split("."))
