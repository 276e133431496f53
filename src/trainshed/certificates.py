"""X.509: what certificates and keys say that are there. PEM; no files and no clock. `issuing` makes them."""

from __future__ import annotations

from datetime import datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


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
