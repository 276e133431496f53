"""The webhook's certificate: made once, kept in a Secret, announced in the webhook configuration.

All replicas of the operator share the Secret, so whoever writes it first wins and the others use what they
find. The Secret's keys are those of the training operator v1: ca.crt, ca.key, tls.crt, tls.key.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trainshed.client.client import Client
from trainshed.client.http import load_pem_pair
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import SECRETS, Resource

WEBHOOK_CONFIGURATIONS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
CONFIGURATION_NAME = "validator.training-operator.kubeflow.org"
LIFETIME = timedelta(days=3650)
RENEW_BEFORE = timedelta(days=90)
CHECK_SECONDS = 12 * 3600.0
_KEYS = ("ca.crt", "ca.key", "tls.crt", "tls.key")


class CertificateKeeper:
    """Keeps a valid serving certificate for `<service>.<namespace>.svc` in Secret `namespace`/`secret`."""

    def __init__(self, client: Client, *, namespace: str, secret: str, service: str) -> None:
        self._client = client
        self._namespace = namespace
        self._secret = secret
        self._host = f"{service}.{namespace}.svc"

    async def prepare(self) -> ssl.SSLContext:
        """Return a TLS context that serves the certificate, after the API server was told to trust it.

        ApiError 404 when the Secret is missing: the manifests create it empty.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        await self.renew(context)
        return context

    async def renew(self, context: ssl.SSLContext) -> None:
        """Load the current certificate into `context`, making a new one if the old one ends soon."""
        secret = await self._client.get(SECRETS, self._secret, self._namespace)
        pems = _decode(secret.get("data") or {})
        if not is_usable(pems, self._host, datetime.now(UTC)):
            pems = make_certificates(self._host, datetime.now(UTC))
            data = {key: base64.b64encode(text.encode()).decode() for key, text in pems.items()}
            # A Conflict means that another replica was faster: the caller tries again and finds its work.
            await self._client.update(SECRETS, {**secret, "data": {**(secret.get("data") or {}), **data}})
        load_pem_pair(context, pems["tls.crt"], pems["tls.key"])
        await self._announce(pems["ca.crt"])

    def renewal_seconds(self) -> float:
        """Return after how long to call `renew` again."""
        return CHECK_SECONDS

    async def _announce(self, authority: str) -> None:
        """Put the authority into every entry of the webhook configuration."""
        bundle = base64.b64encode(authority.encode()).decode()
        configuration: Object = await self._client.get(WEBHOOK_CONFIGURATIONS, CONFIGURATION_NAME)
        entries: list[Any] = configuration.get("webhooks") or []
        if all((entry.get("clientConfig") or {}).get("caBundle") == bundle for entry in entries):
            return
        changed = [
            {**entry, "clientConfig": {**(entry.get("clientConfig") or {}), "caBundle": bundle}}
            for entry in entries
        ]
        await self._client.update(WEBHOOK_CONFIGURATIONS, {**configuration, "webhooks": changed})


def make_certificates(host: str, now: datetime) -> dict[str, str]:
    """Return PEM texts: a new authority and a certificate for `host` that it has signed."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    key = ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "training-operator"),
            x509.NameAttribute(NameOID.COMMON_NAME, "training-operator-ca"),
        ]
    )

    def builder(subject: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority_name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + LIFETIME)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        )

    authority = (
        builder(authority_name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    # A common name holds at most 64 characters; verifiers read the alternative name.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])])
    certificate = (
        builder(subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return {
        "ca.crt": authority.public_bytes(pem).decode(),
        "ca.key": _private_pem(authority_key),
        "tls.crt": certificate.public_bytes(pem).decode(),
        "tls.key": _private_pem(key),
    }


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


def is_usable(pems: Mapping[str, str], host: str, now: datetime) -> bool:
    """Say whether `pems` hold a certificate for `host` that its authority signed and that lasts long enough."""
    if any(not pems.get(key) for key in _KEYS):
        return False
    try:
        authority = x509.load_pem_x509_certificate(pems["ca.crt"].encode())
        certificate = x509.load_pem_x509_certificate(pems["tls.crt"].encode())
        certificate.verify_directly_issued_by(authority)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except Exception:
        return False  # whatever is wrong with it, a new one replaces it
    ends = min(authority.not_valid_after_utc, certificate.not_valid_after_utc)
    return host in names.get_values_for_type(x509.DNSName) and ends - now > RENEW_BEFORE


def _private_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _decode(data: Mapping[str, str]) -> dict[str, str]:
    out: dict[str, str] = {}
    for key in _KEYS:
        try:
            out[key] = base64.b64decode(data.get(key) or "").decode()
        except (binascii.Error, UnicodeDecodeError):
            out[key] = ""
    return out
