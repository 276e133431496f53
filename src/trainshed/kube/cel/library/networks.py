"""IP addresses and networks. Source: the Kubernetes documentation, "CEL in Kubernetes"; Go's `net/netip` for errors."""

from __future__ import annotations

import ipaddress
from typing import ClassVar

import msgspec

from trainshed.kube.cel.library.overloads import function, member
from trainshed.kube.cel.library.strings import quoted
from trainshed.kube.cel.values import NO_OVERLOAD, EvaluationError

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_HEX = frozenset("0123456789abcdefABCDEF")


class IP(msgspec.Struct, frozen=True):
    """An address."""

    type_name: ClassVar[str] = "net.IP"
    address: _Address


class CIDR(msgspec.Struct, frozen=True):
    """An address and the length of the prefix that names its network."""

    type_name: ClassVar[str] = "net.CIDR"
    address: _Address
    bits: int

    @property
    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        """The network that the address lies in."""
        return ipaddress.ip_network((self.address, self.bits), strict=False)


class _Unreadable(ValueError):
    """What is wrong with an address, and where."""

    def __init__(self, what: str, at: str = "") -> None:
        super().__init__(f"{what} (at {quoted(at)})" if at else what)


def _fault(text: str) -> _Unreadable | None:
    """Return what Go has against an address, None where it has nothing; zones are left to the caller."""
    sign = next((sign for sign in text if sign in ".:%"), "")
    try:
        if sign == ".":
            _ipv4(text)
        elif sign == ":":
            _ipv6(text.partition("%")[0], text)
        else:
            return _Unreadable("missing IPv6 address" if sign else "unable to parse IP")
    except _Unreadable as error:
        return error
    return None


def _ipv4(text: str) -> None:
    field, position = "", 0
    for at, sign in enumerate(text):
        if sign in "0123456789":
            if field == "0":
                raise _Unreadable("IPv4 field has octet with leading zero")
            field += sign
            if int(field) > 255:
                raise _Unreadable("IPv4 field has value >255")
        elif sign == ".":
            if not field or at == len(text) - 1:
                raise _Unreadable("IPv4 field must have at least one digit", text[at:])
            if position == 3:
                raise _Unreadable("IPv4 address too long")
            field, position = "", position + 1
        else:
            raise _Unreadable("unexpected character", text[at:])
    if position < 3:
        raise _Unreadable("IPv4 address too short")


def _ipv6(left: str, text: str) -> None:
    if "%" in text and not text.partition("%")[2]:
        raise _Unreadable("zone must be a non-empty string")
    filled, ellipsis = 0, -1
    if left.startswith("::"):
        left, ellipsis = left[2:], 0
        if not left:
            return
    while filled < 16:
        digits = len(left) - len(left.lstrip("".join(_HEX)))
        if digits > 4:
            raise _Unreadable("each group must have 4 or less digits", left)
        if not digits:
            raise _Unreadable("each colon-separated field must have at least one digit", left)
        if left[digits : digits + 1] == ".":
            left = _embedded(left, filled, ellipsis)
            filled += 4
            break
        left, filled = left[digits:], filled + 2
        if not left:
            break
        if left[0] != ":":
            raise _Unreadable("unexpected character, want colon", left)
        if len(left) == 1:
            raise _Unreadable("colon must be followed by more characters", left)
        left = left[1:]
        if left[0] == ":":
            if ellipsis >= 0:
                raise _Unreadable("multiple :: in address", left)
            ellipsis, left = filled, left[1:]
            if not left:
                break
    if left:
        raise _Unreadable("trailing garbage after address", left)
    if filled < 16 and ellipsis < 0:
        raise _Unreadable("address string too short")
    if filled == 16 and ellipsis >= 0:
        raise _Unreadable("the :: must expand to at least one field of zeros")


def _embedded(left: str, filled: int, ellipsis: int) -> str:
    if ellipsis < 0 and filled != 12:
        raise _Unreadable("embedded IPv4 address must replace the final 2 fields of the address", left)
    if filled + 4 > 16:
        raise _Unreadable("too many hex fields to fit an embedded IPv4 at the end of the address", left)
    _ipv4(left)
    return ""


def _mapped(text: str) -> bool:
    address = ipaddress.ip_address(text)
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


@function("ip", str)
def _ip(text: str) -> IP:
    fault = _fault(text)
    if fault is not None:
        where = f"IP Address {quoted(text)} parse error during conversion from string"
        raise EvaluationError(f"{where}: ParseAddr({quoted(text)}): {fault}")
    if "%" in text:
        raise EvaluationError(f"IP address {quoted(text)} with zone value is not allowed")
    if _mapped(text):
        raise EvaluationError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return IP(ipaddress.ip_address(text))


@function("isIP", str)
def _is_ip(text: str) -> bool:
    return _fault(text) is None and "%" not in text and not _mapped(text)


@function("ip.isCanonical", str)
def _is_canonical(text: str) -> bool:
    return str(_ip(text).address) == text


def _is_local_multicast(held: IP) -> bool:
    raw = held.address.packed
    return raw[:3] == b"\xe0\x00\x00" if len(raw) == 4 else raw[0] == 0xFF and raw[1] & 0x0F == 2


def _is_global(held: IP) -> bool:
    address = held.address
    broadcast = isinstance(address, ipaddress.IPv4Address) and int(address) == 2**32 - 1
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not broadcast and not special


member("family", IP)(lambda held: held.address.version)
member("isUnspecified", IP)(lambda held: held.address.is_unspecified)
member("isLoopback", IP)(lambda held: held.address.is_loopback)
member("isLinkLocalMulticast", IP)(_is_local_multicast)
member("isLinkLocalUnicast", IP)(lambda held: held.address.is_link_local)
member("isGlobalUnicast", IP)(_is_global)
function("string", IP)(lambda held: str(held.address))


def _prefix(text: str) -> CIDR:
    """Return an address with a length. ValueError: there is none; the text is Go's."""
    address, slash, bits = text.rpartition("/")

    def wrong(why: object) -> ValueError:
        return ValueError(
            f"network address parse error during conversion from string: netip.ParsePrefix({quoted(text)}): {why}"
        )

    if not slash:
        raise wrong("no '/'")
    fault = _fault(address)
    if fault is not None:
        raise wrong(f"ParseAddr({quoted(address)}): {fault}")
    if "%" in address:
        raise wrong("IPv6 zones cannot be present in a prefix")
    if not (bits.isascii() and bits.isdecimal()) or (len(bits) > 1 and bits[0] == "0"):
        raise wrong(f"bad bits after slash: {quoted(bits)}")
    found = ipaddress.ip_address(address)
    if len(bits) > 3 or int(bits) > found.max_prefixlen:
        raise wrong("prefix length out of range")
    if _mapped(address):
        raise ValueError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return CIDR(found, int(bits))


@function("cidr", str)
def _cidr(text: str) -> CIDR:
    try:
        return _prefix(text)
    except ValueError as error:
        raise EvaluationError(
            f"network address parse error during conversion from string: {error}"
        ) from error


@function("isCIDR", str)
def _is_cidr(text: str) -> bool:
    try:
        _prefix(text)
    except ValueError:
        return False
    return True


@member("containsIP", CIDR, IP)
def _contains(held: CIDR, other: IP) -> bool:
    return other.address.version == held.address.version and other.address in held.network


@member("containsIP", CIDR, str)
def _contains_text(held: CIDR, text: str) -> bool:
    if not _is_ip(text):
        raise EvaluationError(NO_OVERLOAD)
    return _contains(held, _ip(text))


@member("containsCIDR", CIDR, CIDR)
def _contains_network(held: CIDR, other: CIDR) -> bool:
    return held.address.version == other.address.version and (
        held.bits <= other.bits and held.network.overlaps(other.network)
    )


member("containsCIDR", CIDR, str)(lambda held, text: _contains_network(held, _cidr(text)))
member("ip", CIDR)(lambda held: IP(held.address))
member("prefixLength", CIDR)(lambda held: held.bits)
member("masked", CIDR)(lambda held: CIDR(held.network.network_address, held.bits))
function("string", CIDR)(lambda held: f"{held.address}/{held.bits}")
