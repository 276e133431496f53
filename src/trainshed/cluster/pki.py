"""Certificates and keys of the cluster, made once, in files that only their owner may read.

    ca.crt ca.key          the authority that clients trust
    server.crt server.key  what the API server shows
    sa.key                 signs ServiceAccount tokens (ES256)
    admin.token            the credential of the user who started the cluster

Elliptic-curve keys: making them takes a millisecond, so the first start does not wait.
"""

from __future__ import annotations

import datetime
import ipaddress
import secrets
import socket
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trainshed.cluster.paths import write_private

VALID_FOR = datetime.timedelta(days=3650)
RENEW_BEFORE = datetime.timedelta(days=30)
SERVICE_IP = "10.96.0.1"
GATEWAY_IP = "10.88.0.1"
_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
_ADDRESSES = ("127.0.0.1", "::1", SERVICE_IP, GATEWAY_IP)


class Pki(msgspec.Struct, frozen=True):
    """Where the files are. All of them exist."""

    directory: Path

    @property
    def ca_certificate(self) -> Path:
        return self.directory / "ca.crt"

    @property
    def server_certificate(self) -> Path:
        return self.directory / "server.crt"

    @property
    def server_key(self) -> Path:
        return self.directory / "server.key"

    @property
    def service_account_key(self) -> Path:
        return self.directory / "sa.key"

    @property
    def admin_token_file(self) -> Path:
        return self.directory / "admin.token"

    @property
    def admin_token(self) -> str:
        """The bearer token of `trainshed-admin`."""
        return self.admin_token_file.read_text().strip()

    @property
    def ca_pem(self) -> str:
        return self.ca_certificate.read_text()


def ensure_pki(directory: Path, now: datetime.datetime | None = None) -> Pki:
    """Create what is missing in `directory` and return it; a serving certificate near its end is renewed.

    Raises:
        OSError: the directory cannot be written.
    """
    now = now or datetime.datetime.now(datetime.UTC)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    pki = Pki(directory)
    ca_key_file = directory / "ca.key"
    if not (pki.ca_certificate.exists() and ca_key_file.exists()):
        key = ec.generate_private_key(ec.SECP256R1())
        write_private(ca_key_file, _pem(key))
        write_private(pki.ca_certificate, _authority(key, now))
        pki.server_certificate.unlink(missing_ok=True)
    if not (pki.server_certificate.exists() and pki.server_key.exists()) or _expires(pki, now):
        ca_key = serialization.load_pem_private_key(ca_key_file.read_bytes(), None)
        assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        ca = x509.load_pem_x509_certificate(pki.ca_certificate.read_bytes())
        write_private(pki.server_key, _pem(key))
        write_private(pki.server_certificate, _serving(key, ca, ca_key, now))
    if not pki.service_account_key.exists():
        write_private(pki.service_account_key, _pem(ec.generate_private_key(ec.SECP256R1())))
    _ensure_token(pki.admin_token_file)
    return pki


def _expires(pki: Pki, now: datetime.datetime) -> bool:
    certificate = x509.load_pem_x509_certificate(pki.server_certificate.read_bytes())
    return certificate.not_valid_after_utc - now < RENEW_BEFORE


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _builder(
    subject: str, issuer: x509.Name | None, key: ec.EllipticCurvePrivateKey, now: datetime.datetime
) -> x509.CertificateBuilder:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer or name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + VALID_FOR)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _authority(key: ec.EllipticCurvePrivateKey, now: datetime.datetime) -> bytes:
    certificate = (
        _builder("trainshed-ca", None, key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


def _serving(
    key: ec.EllipticCurvePrivateKey,
    ca: x509.Certificate,
    ca_key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
) -> bytes:
    names = [x509.DNSName(name) for name in dict.fromkeys((*_NAMES, *_machine_name()))]
    addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in _ADDRESSES]
    certificate = (
        _builder("trainshed-apiserver", ca.subject, key, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([*names, *addresses]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


def _machine_name() -> tuple[str, ...]:
    """Return the host name when it can stand in a certificate."""
    name = socket.gethostname()
    return (name,) if name.isascii() and 0 < len(name) <= 63 else ()


def _ensure_token(path: Path) -> None:
    """Make the file hold a token and nothing else: the Python clients send a newline after it, too."""
    held = path.read_bytes() if path.exists() else b""
    token = held.strip() or secrets.token_urlsafe(32).encode()
    if token != held:
        write_private(path, token)
