"""Makes X.509: an authority and the certificates that it signs. PEM in, PEM out; no files and no clock.

Keys and signatures are `cryptography`'s; what is signed is written here, as DER (X.690) of RFC 5280, since the writer
of that library costs a start 60 ms and 3 MiB. `certificates` reads, with the library.
Elliptic-curve keys: making one takes a millisecond.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

VALID_FOR = timedelta(days=3650)
BACKDATED = timedelta(days=30)
"""Certificates are valid from that long ago: clocks differ, and are set back."""
MAX_COMMON_NAME = 64
"""Characters; verifiers read the alternative names."""
_MAX_COMMON_NAME_BYTES = 64
_COORDINATE_BYTES = 32
_PUBLIC_DER = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004")
"""What a SubjectPublicKeyInfo of P-256 begins with (RFC 5480); x and y follow."""
_PRIVATE_DER = bytes.fromhex("308187020100301306072a8648ce3d020106082a8648ce3d030107046d306b0201010420")
"""What a PKCS #8 key of P-256 with its public key begins with (RFC 5958, RFC 5915); the number follows, ..."""
_PRIVATE_POINT_DER = bytes.fromhex("a14403420004")
"""... then this, x and y."""

_BOOLEAN, _INTEGER, _BITS, _OCTETS, _OID, _UTF8, _UTC_TIME, _TIME = 1, 2, 3, 4, 6, 12, 23, 24
_SEQUENCE, _SET = 0x30, 0x31
_VERSION, _EXTENSIONS = 0xA0, 0xA3
_KEY_IDENTIFIER, _DNS_NAME, _IP_ADDRESS = 0x80, 0x82, 0x87

_COMMON_NAME = bytes.fromhex("550403")
_ORGANIZATION = bytes.fromhex("55040a")
_SUBJECT_KEY_IDENTIFIER = bytes.fromhex("551d0e")
_KEY_USAGE = bytes.fromhex("551d0f")
_ALTERNATIVE_NAMES = bytes.fromhex("551d11")
_BASIC_CONSTRAINTS = bytes.fromhex("551d13")
_AUTHORITY_KEY_IDENTIFIER = bytes.fromhex("551d23")
_EXTENDED_KEY_USAGE = bytes.fromhex("551d25")
_SERVER_AUTH = bytes.fromhex("2b06010505070301")
_CLIENT_AUTH = bytes.fromhex("2b06010505070302")
_ECDSA_WITH_SHA256 = bytes.fromhex("300a06082a8648ce3d040302")
_SIGNS_DATA = b"\x07\x80"
"""KeyUsage: how many of the last bits count for nothing, then digitalSignature."""
_SIGNS_CERTIFICATES = b"\x01\x06"
"""KeyUsage: keyCertSign and cRLSign. Verifiers that hold to RFC 5280, such as Python 3.13, want it in an authority."""


class Pair(msgspec.Struct, frozen=True):
    """A certificate and its private key, as PEM."""

    certificate: str
    key: str

    def signs(self, certificate: str) -> bool:
        """Return whether this authority has signed `certificate`. ValueError when one of them is no PEM."""
        from cryptography import x509  # who asks has read certificates before
        from cryptography.exceptions import InvalidSignature

        authority = x509.load_pem_x509_certificate(self.certificate.encode())
        leaf = x509.load_pem_x509_certificate(certificate.encode())
        try:
            leaf.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            return False  # another name, another sort of key, another key
        return True


def make_authority(common_name: str, now: datetime, organization: str = "") -> Pair:
    """Return a new self-signed authority that signs leaves only."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _distinguished([(_ORGANIZATION, organization), (_COMMON_NAME, common_name[:MAX_COMMON_NAME])])
    constraints = _tlv(_SEQUENCE, _tlv(_BOOLEAN, b"\xff"), _tlv(_INTEGER, b"\0"))
    extensions = [
        _extension(_BASIC_CONSTRAINTS, constraints, critical=True),
        _extension(_KEY_USAGE, _tlv(_BITS, _SIGNS_CERTIFICATES), critical=True),
    ]
    return _signed(name, name, key, key, now, extensions)


def issue(
    authority: Pair, common_name: str, hosts: Sequence[str], now: datetime, addresses: Sequence[str] = ()
) -> Pair:
    """Return a new serving certificate for DNS names `hosts` and IP `addresses`, signed by `authority`.

    Raises:
        ValueError: the authority is no PEM pair with an elliptic-curve key.
    """
    names = _tlv(
        _SEQUENCE,
        *(_tlv(_DNS_NAME, host.encode("ascii")) for host in hosts),
        *(_tlv(_IP_ADDRESS, ipaddress.ip_address(address).packed) for address in addresses),
    )
    subject = _distinguished([(_COMMON_NAME, common_name[:MAX_COMMON_NAME])])
    return _leaf(authority, subject, _SERVER_AUTH, now, [_extension(_ALTERNATIVE_NAMES, names)])


def issue_client(authority: Pair, common_name: str, organizations: Sequence[str], now: datetime) -> Pair:
    """Return a new certificate that shows a client to be the user `common_name` in the groups `organizations`.

    Raises:
        ValueError: the authority is no PEM pair with an elliptic-curve key, or a name is too long.
    """
    if not 1 <= len(common_name.encode()) <= _MAX_COMMON_NAME_BYTES:
        raise ValueError(f"a common name has 1 to {_MAX_COMMON_NAME_BYTES} bytes")
    names = [(_ORGANIZATION, text) for text in organizations] + [(_COMMON_NAME, common_name)]
    return _leaf(authority, _distinguished(names), _CLIENT_AUTH, now, [])


def new_key() -> str:
    """Return a new private key as PEM."""
    return _private_pem(ec.generate_private_key(ec.SECP256R1()))


def read_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Return the elliptic-curve key that a file holds; one as `new_key` writes it needs no further library.

    Raises:
        ValueError: there is no such key.
    """
    begin, _, rest = pem.strip().partition(b"\n")
    body, _, end = rest.rpartition(b"\n")
    if (begin, end) == (b"-----BEGIN PRIVATE KEY-----", b"-----END PRIVATE KEY-----"):
        der = base64.b64decode(body)
        if der.startswith(_PRIVATE_DER):
            number = der[len(_PRIVATE_DER) :][:_COORDINATE_BYTES]
            return ec.derive_private_key(int.from_bytes(number, "big"), ec.SECP256R1())
    from cryptography.hazmat.primitives import serialization  # 0.6 MiB, most of it for keys of SSH

    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is not an elliptic-curve key")
    return key


def _leaf(authority: Pair, subject: bytes, usage: bytes, now: datetime, more: Sequence[bytes]) -> Pair:
    signer = read_key(authority.key.encode())
    issuer = _subject_of(authority.certificate)
    identifier = _tlv(_SEQUENCE, _tlv(_KEY_IDENTIFIER, _identifier(signer)))
    extensions = [
        _extension(_BASIC_CONSTRAINTS, _tlv(_SEQUENCE), critical=True),
        _extension(_KEY_USAGE, _tlv(_BITS, _SIGNS_DATA), critical=True),
        _extension(_EXTENDED_KEY_USAGE, _tlv(_SEQUENCE, _tlv(_OID, usage))),
        *more,
        _extension(_AUTHORITY_KEY_IDENTIFIER, identifier),
    ]
    return _signed(subject, issuer, ec.generate_private_key(ec.SECP256R1()), signer, now, extensions)


def _signed(
    subject: bytes,
    issuer: bytes,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    now: datetime,
    extensions: Sequence[bytes],
) -> Pair:
    """Return a certificate of version 3 for `key`, on P-256 (RFC 5280, 4.1)."""
    identifier = _extension(_SUBJECT_KEY_IDENTIFIER, _tlv(_OCTETS, _identifier(key)))
    told = _tlv(
        _SEQUENCE,
        _tlv(_VERSION, _tlv(_INTEGER, b"\2")),
        _tlv(_INTEGER, _positive(secrets.randbits(159))),
        _ECDSA_WITH_SHA256,
        issuer,
        _tlv(_SEQUENCE, _moment(now - BACKDATED), _moment(now + VALID_FOR)),
        subject,
        _PUBLIC_DER + _coordinates(key),
        _tlv(_EXTENSIONS, _tlv(_SEQUENCE, identifier, *extensions)),
    )
    signature = signer.sign(told, ec.ECDSA(hashes.SHA256()))
    certificate = _tlv(_SEQUENCE, told, _ECDSA_WITH_SHA256, _tlv(_BITS, b"\0", signature))
    return Pair(_pem("CERTIFICATE", certificate), _private_pem(key))


def _distinguished(parts: Sequence[tuple[bytes, str]]) -> bytes:
    """Return a name of those parts that are not empty."""
    named = [(kind, text) for kind, text in parts if text]
    return _tlv(
        _SEQUENCE,
        *(_tlv(_SET, _tlv(_SEQUENCE, _tlv(_OID, kind), _tlv(_UTF8, text.encode()))) for kind, text in named),
    )


def _extension(kind: bytes, value: bytes, *, critical: bool = False) -> bytes:
    marks = _tlv(_BOOLEAN, b"\xff") if critical else b""
    return _tlv(_SEQUENCE, _tlv(_OID, kind), marks, _tlv(_OCTETS, value))


def _identifier(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return how certificates name a key: the SHA-1 of its point (RFC 5280, 4.2.1.2), which keeps nothing safe."""
    return hashlib.sha1(b"\4" + _coordinates(key), usedforsecurity=False).digest()


def _coordinates(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return x and y of the public key."""
    numbers = key.public_key().public_numbers()
    size = (key.curve.key_size + 7) // 8
    return numbers.x.to_bytes(size, "big") + numbers.y.to_bytes(size, "big")


def _moment(time: datetime) -> bytes:
    """Return a time to the second: with two digits of the year up to 2049 (RFC 5280, 4.1.2.5)."""
    utc = time.astimezone(UTC)
    if 1950 <= utc.year < 2050:
        return _tlv(_UTC_TIME, f"{utc:%y%m%d%H%M%SZ}".encode())
    return _tlv(_TIME, f"{utc.year:04}{utc:%m%d%H%M%SZ}".encode())


def _positive(number: int) -> bytes:
    """Return the number with a first bit that is 0: others are negative."""
    return number.to_bytes(number.bit_length() // 8 + 1, "big")


def _tlv(tag: int, *contents: bytes) -> bytes:
    """Return what a tag and a length make of contents (X.690, 8.1)."""
    content = b"".join(contents)
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def _subject_of(certificate: str) -> bytes:
    """Return the name of whom a PEM certificate is for, as DER. Raises ValueError."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    _, found, rest = certificate.partition(begin)
    body, ended, _ = rest.partition(end)
    try:
        if not found or not ended:
            raise ValueError("no PEM")
        told = _parts(base64.b64decode(body))[0]
        fields = _parts(told)
        # The version stands only in those from version 2 on; serial, algorithm, issuer and validity before the subject.
        return fields[5 if fields[0][0] == _VERSION else 4]
    except (IndexError, binascii.Error, ValueError) as error:
        raise ValueError("the authority's certificate is none") from error


def _parts(der: bytes) -> list[bytes]:
    """Return the values in the value `der` begins with, each whole. IndexError where it is cut off."""
    start, stop = _content(der, 0)
    out: list[bytes] = []
    while start < stop:
        _, after = _content(der, start)
        out.append(der[start:after])
        start = after
    return out


def _content(der: bytes, at: int) -> tuple[int, int]:
    """Return where the contents of the value at `at` begin and end. IndexError where it is cut off."""
    size, start = der[at + 1], at + 2
    if size & 0x80:
        wide = size & 0x7F
        size, start = int.from_bytes(der[start : start + wide], "big"), start + wide
    if start + size > len(der):
        raise IndexError(at)
    return start, start + size


def _private_pem(key: ec.EllipticCurvePrivateKey) -> str:
    """Return the key, on P-256, as unencrypted PKCS #8."""
    number = key.private_numbers().private_value.to_bytes(_COORDINATE_BYTES, "big")
    return _pem("PRIVATE KEY", _PRIVATE_DER + number + _PRIVATE_POINT_DER + _coordinates(key))


def _pem(what: str, der: bytes) -> str:
    text = base64.b64encode(der).decode()
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join((f"-----BEGIN {what}-----", *lines, f"-----END {what}-----", ""))
