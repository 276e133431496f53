"""Rules of addresses, ranges of addresses and ports.

Source of texts: `pkg/apis/core/validation` and `apimachinery/pkg/util/validation/ip.go` of Kubernetes.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import TypeAlias

from trainshed.kube.meta import causes, golang, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_MULTICAST = {4: ipaddress.ip_network("224.0.0.0/24"), 6: ipaddress.ip_network("ff02::/16")}
_LINK_LOCAL = ipaddress.IPv4Network((0xA9FE << 16, 16))
"""As a number: where the cluster's own such address is spelled, is one module."""
_LATER = "will be considered invalid in a future Kubernetes release: use"
_MAPPED_BITS = 96
"""Of an IPv6 address that stands for one of IPv4."""
PORT_RANGE = "must be between 1 and 65535, inclusive"


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address, None for what is none. Zeros before a number do not count, as for API servers."""
    try:
        return ipaddress.ip_address(_plain(text))
    except ValueError:
        return None


def network_of(text: str) -> Network | None:
    """Return the range that `10.0.0.0/8` names, None for what is none."""
    address, slash, length = text.partition("/")
    if not slash or not length.isascii() or not length.isdigit():
        return None
    try:
        return ipaddress.ip_network(f"{_plain(address)}/{length}", strict=False)
    except ValueError:
        return None


def ip_causes(text: str | None, path: str) -> Iterator[Cause]:
    """Yield what is wrong with an address."""
    if address_of(text or "") is None:
        yield causes.invalid(
            path, text or "", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        )


def endpoint_ip_causes(text: str, path: str) -> Iterator[Cause]:
    """Yield what is wrong with an address that a Service would lead to: only what others reach."""
    found = address_of(text)
    if found is None:
        yield causes.invalid(path, text, "must be a valid IP address")
        return
    local_multicast = found in _MULTICAST[found.version]
    for holds, detail in (
        (found.is_unspecified, f"may not be unspecified ({text})"),
        (found.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (found.is_link_local, f"may not be in the link-local range ({_LINK_LOCAL}, fe80::/10)"),
        (local_multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ):
        if holds:
            yield causes.invalid(path, text, detail)


def cidr_causes(text: str | None, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a range of addresses."""
    if network_of(text or "") is None:
        detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
        yield causes.invalid(path, text or "", detail)


def address_warnings(text: str | None, path: str) -> Iterator[str]:
    """Yield what Kubernetes warns of in an address: spellings that not every program reads alike."""
    found = address_of(text or "")
    if text is None or found is None:
        return
    if found.version == 4 and str(found) == text:
        return  # as almost all of many endpoints
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    if mapped is not None or not _is_standard(text):
        yield f'{path}: non-standard IP address {golang.text(text)} {_LATER} "{mapped or found}"'
    elif found.version == 6 and str(found) != text:
        form = f'should be in RFC 5952 canonical format ("{found}")'
        yield f"{path}: IPv6 address {golang.text(text)} {form}"


def network_warnings(text: str | None, path: str) -> Iterator[str]:
    """Yield what Kubernetes warns of in a range of addresses."""
    found = network_of(text or "")
    if text is None or found is None:
        return
    written, _, length = text.partition("/")
    address = address_of(written)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    canonical: Network | None = found
    if mapped is not None and found.prefixlen >= _MAPPED_BITS:
        canonical = ipaddress.ip_network(f"{mapped}/{found.prefixlen - _MAPPED_BITS}", strict=False)
    if address != found.network_address:
        single = f"{mapped or address}/{found.max_prefixlen}"
        text_of = f'(should be "{canonical}" or "{single}"?)'
        yield f"{path}: CIDR value {golang.text(text)} is ambiguous in this context {text_of}"
    if mapped is not None or not _is_standard(written) or length != str(found.prefixlen):
        yield f'{path}: non-standard CIDR value {golang.text(text)} {_LATER} "{canonical}"'
    elif found.version == 6 and address == found.network_address and str(found) != text:
        form = f'should be in RFC 5952 canonical format ("{found}")'
        yield f"{path}: IPv6 CIDR value {golang.text(text)} {form}"


def _is_standard(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True


def number_causes(port: int | None, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the number of a port."""
    if not 1 <= (port or 0) <= 65535:
        yield causes.invalid(path, port or 0, PORT_RANGE)


def _plain(text: str) -> str:
    parts = text.split(".")
    if len(parts) == 4 and all(part.isascii() and part.isdigit() for part in parts):
        return ".".join(str(int(part)) for part in parts)
    return text


def port_name_causes(name: str, at: str) -> Iterator[Cause]:
    """Yield what is wrong with the name of a port of a Service, or of what it leads to."""
    for why in names.dns_label(name):
        yield causes.invalid(f"{at}.name", name, why)


def app_protocol_causes(port: Object, at: str) -> Iterator[Cause]:
    """Yield what is wrong with the application protocol of such a port."""
    if port.get("appProtocol") is not None:
        for why in names.qualified_name(port["appProtocol"]):
            yield causes.invalid(f"{at}.appProtocol", port["appProtocol"], why)
