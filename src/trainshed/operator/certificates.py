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

from trainshed import certificates
from trainshed.certificates import Pair
from trainshed.client.client import Client
from trainshed.client.http import load_pem_pair
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.resources import SECRETS, Resource

WEBHOOK_CONFIGURATIONS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
CONFIGURATION_NAME = "validator.training-operator.kubeflow.org"
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
        pems = _decode(section(secret, "data"))
        if not is_usable(pems, self._host, datetime.now(UTC)):
            pems = make_certificates(self._host, datetime.now(UTC))
            data = {key: base64.b64encode(text.encode()).decode() for key, text in pems.items()}
            # A Conflict means that another replica was faster: the caller tries again and finds its work.
            await self._client.update(SECRETS, {**secret, "data": {**section(secret, "data"), **data}})
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
        if all(section(entry, "clientConfig").get("caBundle") == bundle for entry in entries):
            return
        changed = [
            {**entry, "clientConfig": {**section(entry, "clientConfig"), "caBundle": bundle}}
            for entry in entries
        ]
        await self._client.update(WEBHOOK_CONFIGURATIONS, {**configuration, "webhooks": changed})


def make_certificates(host: str, now: datetime) -> dict[str, str]:
    """Return PEM texts: a new authority and a certificate for `host` that it has signed."""
    authority = certificates.make_authority("training-operator-ca", now, organization="training-operator")
    pair = certificates.issue(authority, host, [host], now)
    texts = (authority.certificate, authority.key, pair.certificate, pair.key)
    return dict(zip(_KEYS, texts, strict=True))


def is_usable(pems: Mapping[str, str], host: str, now: datetime) -> bool:
    """Return whether `pems` hold a certificate for `host` that its authority signed and that lasts long enough."""
    if any(not pems.get(key) for key in _KEYS):
        return False
    authority, certificate = Pair(pems["ca.crt"], pems["ca.key"]), pems["tls.crt"]
    try:
        if not authority.signs(certificate) or host not in certificates.hosts_of(certificate):
            return False
        return min(map(certificates.ends, (authority.certificate, certificate))) - now > RENEW_BEFORE
    except Exception:
        return False  # whatever is wrong with it, a new one replaces it


def _decode(data: Mapping[str, str]) -> dict[str, str]:
    out: dict[str, str] = {}
    for key in _KEYS:
        try:
            out[key] = base64.b64decode(data.get(key) or "").decode()
        except (binascii.Error, UnicodeDecodeError):
            out[key] = ""
    return out
