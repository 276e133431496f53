"""X.509: an authority and the serving certificates that it signs. PEM in, PEM out; no files and no clock.

Elliptic-curve keys: making one takes a millisecond.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_FOR = timedelta(days=3650)
BACKDATED = timedelta(days=30)
"""Certificates are valid from that long ago: clocks differ, and are set back."""
MAX_COMMON_NAME = 64
"""Characters; verifiers read the alternative names."""


class Pair(msgspec.Struct, frozen=True):
    """A certificate and its private key, as PEM."""

    certificate: str
    key: str

    def signs(self, certificate: str) -> bool:
        """Return whether this authority has signed `certificate`. ValueError when one of them is no PEM."""
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
    name = _name(common_name, organization)
    certificate = (
        _builder(name, name, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Pair(_pem(certificate), _private_pem(key))


def issue(
    authority: Pair, common_name: str, hosts: Sequence[str], now: datetime, addresses: Sequence[str] = ()
) -> Pair:
    """Return a new serving certificate for DNS names `hosts` and IP `addresses`, signed by `authority`.

    Raises:
        ValueError: the authority is no PEM pair with an elliptic-curve key.
    """
    issuer, signer = _signer(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    names = [
        *(x509.DNSName(host) for host in hosts),
        *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses),
    ]
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    certificate = (
        _builder(_name(common_name), issuer.subject, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(identifier, critical=False)
        .sign(signer, hashes.SHA256())
    )
    return Pair(_pem(certificate), _private_pem(key))


def issue_client(authority: Pair, common_name: str, organizations: Sequence[str], now: datetime) -> Pair:
    """Return a new certificate that shows a client to be the user `common_name` in the groups `organizations`.

    Raises:
        ValueError: the authority is no PEM pair with an elliptic-curve key, or a name is too long.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    names = [(NameOID.ORGANIZATION_NAME, text) for text in organizations] + [
        (NameOID.COMMON_NAME, common_name)
    ]
    subject = x509.Name([x509.NameAttribute(oid, text) for oid, text in names])
    issuer, signer = _signer(authority)
    certificate = (
        _builder(subject, issuer.subject, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    return Pair(_pem(certificate), _private_pem(key))


def _signer(authority: Pair) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    signer = serialization.load_pem_private_key(authority.key.encode(), None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is not an elliptic-curve key")
    return issuer, signer


def ends(certificate: str) -> datetime:
    """Return when a PEM certificate ends. ValueError when it is none."""
    return x509.load_pem_x509_certificate(certificate.encode()).not_valid_after_utc


def in_force(certificate: str, now: datetime) -> bool:
    """Return whether a PEM certificate counts at `now`. ValueError when it is none."""
    read = x509.load_pem_x509_certificate(certificate.encode())
    return read.not_valid_before_utc <= now < read.not_valid_after_utc


def hosts_of(certificate: str) -> list[str]:
    """Return the DNS names that a PEM certificate speaks for. ValueError when it is none."""
    extensions = x509.load_pem_x509_certificate(certificate.encode()).extensions
    try:
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return names.get_values_for_type(x509.DNSName)


def is_certificate(pem: str) -> bool:
    """Return whether this is a certificate as PEM."""
    try:
        x509.load_pem_x509_certificate(pem.encode())
    except ValueError:
        return False
    return True


def is_key(pem: str) -> bool:
    """Return whether this is an unencrypted private key on an elliptic curve, as PEM."""
    try:
        key = serialization.load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return isinstance(key, ec.EllipticCurvePrivateKey)


def new_key() -> str:
    """Return a new private key as PEM."""
    return _private_pem(ec.generate_private_key(ec.SECP256R1()))


def _private_pem(key: ec.EllipticCurvePrivateKey) -> str:
    """Return the key as unencrypted PKCS #8."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _name(common_name: str, organization: str = "") -> x509.Name:
    parts = [(NameOID.ORGANIZATION_NAME, organization), (NameOID.COMMON_NAME, common_name[:MAX_COMMON_NAME])]
    return x509.Name([x509.NameAttribute(oid, text) for oid, text in parts if text])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + VALID_FOR)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """Return what the key is for. Verifiers that hold to RFC 5280, such as Python 3.13's, want it in an authority."""
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
