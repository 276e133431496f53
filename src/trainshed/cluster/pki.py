"""Certificates and keys of the cluster, made once, in files that only their owner may read.

    ca.crt ca.key          the authority that clients trust
    server.crt server.key  what the API server shows
    front-proxy-ca.crt     the authority that aggregated API servers trust; its key is not kept
    front-proxy-client.crt what the API server shows to them, with its key
    sa.key                 signs ServiceAccount tokens (ES256)
    admin.token            the credential of the user who started the cluster

Making elliptic-curve keys takes a millisecond, so the first start does not wait.
"""

from __future__ import annotations

import datetime
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trainshed.cluster.paths import StateError, write_private
from trainshed.cluster.sandbox.addresses import API_ADDRESS, DOMAIN, GATEWAY

if TYPE_CHECKING:
    from trainshed.certificates import Pair

FRONT_PROXY = "front-proxy-client"
"""Whom aggregated API servers believe what it says of users."""
RENEW_BEFORE = datetime.timedelta(days=30)
_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    f"kubernetes.default.svc.{DOMAIN}",
)
_ADDRESSES = ("127.0.0.1", "::1", API_ADDRESS, GATEWAY)


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
    def front_proxy_authority(self) -> Path:
        return self.directory / "front-proxy-ca.crt"

    @property
    def front_proxy_certificate(self) -> Path:
        return self.directory / "front-proxy-client.crt"

    @property
    def front_proxy_key(self) -> Path:
        return self.directory / "front-proxy-client.key"

    @property
    def authority(self) -> Pair:
        """The authority of the cluster with its key, which signs certificates of clients and nodes."""
        from trainshed.certificates import Pair  # X.509: where it signs

        return Pair(self.ca_pem, (self.directory / "ca.key").read_text())

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

    An authority that is not in force, as one made while the clock was years off, is made again.

    Raises:
        OSError: the directory cannot be written.
        StateError: a file holds something else than its name says.
    """
    from trainshed import certificates  # X.509: a start does this in a process of its own

    now = now or datetime.datetime.now(datetime.UTC)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    pki = Pki(directory)
    ca_key = directory / "ca.key"
    shown = (pki.front_proxy_authority, pki.front_proxy_certificate)
    for path in (pki.ca_certificate, pki.server_certificate, *shown):
        _look(path, certificates.is_certificate, "certificate")
    for path in (ca_key, pki.server_key, pki.service_account_key, pki.front_proxy_key):
        _look(path, certificates.is_key, "private key")
    if not (pki.ca_certificate.exists() and ca_key.exists() and certificates.in_force(pki.ca_pem, now)):
        authority = certificates.make_authority("trainshed-ca", now)
        write_private(ca_key, authority.key.encode())
        write_private(pki.ca_certificate, authority.certificate.encode())
        pki.server_certificate.unlink(missing_ok=True)
    if not (pki.server_certificate.exists() and pki.server_key.exists()) or _ends_soon(pki, now):
        authority = pki.authority
        hosts = tuple(dict.fromkeys((*_NAMES, *_machine_name())))
        pair = certificates.issue(authority, "trainshed-apiserver", hosts, now, _ADDRESSES)
        write_private(pki.server_key, pair.key.encode())
        write_private(pki.server_certificate, pair.certificate.encode())
    if not pki.service_account_key.exists():
        write_private(pki.service_account_key, certificates.new_key().encode())
    if not pki.front_proxy_key.exists() or not all(
        path.exists() and certificates.in_force(path.read_text(), now) for path in shown
    ):
        authority = certificates.make_authority("trainshed-front-proxy-ca", now)
        pair = certificates.issue_client(authority, FRONT_PROXY, (), now)
        write_private(pki.front_proxy_authority, authority.certificate.encode())
        write_private(pki.front_proxy_key, pair.key.encode())
        write_private(pki.front_proxy_certificate, pair.certificate.encode())
    _ensure_token(pki.admin_token_file)
    return pki


def _look(path: Path, is_one: Callable[[str], bool], what: str) -> None:
    if path.exists() and not is_one(path.read_text(errors="replace")):
        raise StateError(
            f"{path} holds no {what}",
            "put back a copy of it, or delete it: the next `trainshed up` makes a new one, with which clients and pods "
            "that know the old one must be started again",
        )


def _ends_soon(pki: Pki, now: datetime.datetime) -> bool:
    from trainshed import certificates

    return certificates.ends(pki.server_certificate.read_text()) - now < RENEW_BEFORE


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
