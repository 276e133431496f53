"""Certificate signing requests, and what certificates of clients say: X.509 in and out, no files and no clock."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from trainshed.certificates import Pair

KEY_USAGES = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
"""Usages of certificates.k8s.io that are bits of the key usage, with their names in `x509.KeyUsage`."""
EXTENDED_USAGES: dict[str, ObjectIdentifier] = {
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "ipsec end system": ObjectIdentifier("1.3.6.1.5.5.7.3.5"),
    "ipsec tunnel": ObjectIdentifier("1.3.6.1.5.5.7.3.6"),
    "ipsec user": ObjectIdentifier("1.3.6.1.5.5.7.3.7"),
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
    "microsoft sgc": ObjectIdentifier("1.3.6.1.4.1.311.10.3.3"),
    "netscape sgc": ObjectIdentifier("2.16.840.1.113730.4.1"),
}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a signing request asks a certificate for."""

    common_name: str = ""
    organizations: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()
    addresses: int = 0
    emails: int = 0
    uris: int = 0


def read(pem: bytes) -> Asked:
    """Return what a PEM signing request asks for. ValueError when it is none, or not signed by its own key."""
    request = _loaded(pem)
    names = _alternatives(request)
    return Asked(
        common_name=_common_name(request.subject),
        organizations=_organizations(request.subject),
        dns_names=tuple(names.get_values_for_type(x509.DNSName)),
        addresses=len(names.get_values_for_type(x509.IPAddress)),
        emails=len(names.get_values_for_type(x509.RFC822Name)),
        uris=len(names.get_values_for_type(x509.UniformResourceIdentifier)),
    )


def sign(authority: Pair, pem: bytes, usages: Sequence[str], begins: datetime, ends: datetime) -> str:
    """Return the certificate, as PEM, that an authority gives to a signing request: its subject and alternative names.

    Raises:
        ValueError: the request or the authority cannot be read.
    """
    request = _loaded(pem)
    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    signer = serialization.load_pem_private_key(authority.key.encode(), None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is not an elliptic-curve key")
    wanted = {KEY_USAGES[one] for one in usages if one in KEY_USAGES}
    bits = {name: name in wanted for name in KEY_USAGES.values()}
    extended = [EXTENDED_USAGES[one] for one in usages if one in EXTENDED_USAGES]
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = (
        x509.CertificateBuilder()
        .subject_name(request.subject)
        .issuer_name(issuer.subject)
        .public_key(request.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(min(ends, issuer.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(identifier, critical=False)
    )
    if wanted:
        # These two say something of a key agreement only.
        if not bits["key_agreement"]:
            bits |= {"encipher_only": False, "decipher_only": False}
        builder = builder.add_extension(x509.KeyUsage(**bits), critical=True)
    if extended:
        builder = builder.add_extension(x509.ExtendedKeyUsage(list(dict.fromkeys(extended))), critical=False)
    names = _alternatives(request)
    if list(names):
        builder = builder.add_extension(names, critical=False)
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


class Holder(msgspec.Struct, frozen=True):
    """Whom a client's certificate shows, and when it counts (seconds since the epoch)."""

    common_name: str
    organizations: tuple[str, ...]
    begins: float
    ends: float
    digest: str


def holder(certificate: bytes) -> Holder:
    """Return whom a certificate, as DER, shows. ValueError when it is none."""
    read_ = x509.load_der_x509_certificate(certificate)
    return Holder(
        _common_name(read_.subject),
        _organizations(read_.subject),
        read_.not_valid_before_utc.timestamp(),
        read_.not_valid_after_utc.timestamp(),
        hashlib.sha256(certificate).hexdigest(),
    )


def _loaded(pem: bytes) -> x509.CertificateSigningRequest:
    if not pem.lstrip().startswith(
        (b"-----BEGIN CERTIFICATE REQUEST", b"-----BEGIN NEW CERTIFICATE REQUEST")
    ):
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    try:
        request = x509.load_pem_x509_csr(pem)
        request.public_key()
        _alternatives(request)
        signed = request.is_signature_valid
    except (UnsupportedAlgorithm, TypeError, x509.DuplicateExtension) as error:
        raise ValueError(str(error)) from error
    if not signed:
        raise ValueError("the request is not signed by its key")
    return request


def _alternatives(request: x509.CertificateSigningRequest) -> x509.SubjectAlternativeName:
    try:
        return request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return x509.SubjectAlternativeName([])


def _common_name(subject: x509.Name) -> str:
    found = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return _text(found[-1]) if found else ""


def _organizations(subject: x509.Name) -> tuple[str, ...]:
    return tuple(_text(one) for one in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))


def _text(attribute: x509.NameAttribute[str | bytes]) -> str:
    value = attribute.value
    return value if isinstance(value, str) else value.decode(errors="replace")
