"""A connection to one registry for one repository: requests with whatever it asks for to authenticate."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import aiohttp

from trainshed.cluster.images import oci
from trainshed.cluster.images.reference import DEFAULT_DOMAIN, Reference
from trainshed.cluster.images.registry import challenge
from trainshed.cluster.images.registry.credentials import Credentials
from trainshed.cluster.images.registry.errors import RegistryError

CERTIFICATES = ("~/.config/containers/certs.d", "/etc/containers/certs.d", "/etc/docker/certs.d")
"""Where podman and docker keep the authorities of single registries, a directory each, and certificates for them."""
ACCEPT = ", ".join((*oci.MANIFESTS, *oci.INDEXES))
_HOSTS = {DEFAULT_DOMAIN: "registry-1.docker.io"}
_SILENT_SECONDS = 60.0
"""How long a registry may say nothing in the middle of an answer."""
_MAX_ERROR = 64 << 10
_BUFFER = 1 << 20
"""Bytes of an answer that wait to be read: with fewer a layer stops and goes at every second piece."""


class Registry:
    """One repository of one registry. `credentials` are tried one after the other; without any it is anonymous."""

    def __init__(
        self,
        name: Reference,
        credentials: Sequence[Credentials],
        session: aiohttp.ClientSession,
        *,
        insecure: bool = False,
    ) -> None:
        self._name = name
        self._credentials = list(credentials)
        self._session = session
        self._base = ""
        self._authorization = ""
        self._asked = asyncio.Lock()
        host = _HOSTS.get(name.domain, name.domain)
        self._bases = [f"https://{host}"]
        if insecure or _is_loopback(host):
            self._bases.append(f"http://{host}")  # as docker does for registries of this machine

    @asynccontextmanager
    async def request(
        self, method: str, path: str, *, actions: str = "pull", ok: Sequence[int] = (200,), **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the answer to a request below `/v2/<repository>/`, or to a whole URL. Raises RegistryError.

        `actions` is what a token is asked for: `pull`, or `pull,push`. `ok` are the status codes that are answers.
        """
        data = options.pop("data", None)
        try:
            base = await self._find_base()
            url = path if "://" in path else f"{base}/v2/{self._name.path}/{path}"
            headers = options.pop("headers", {})
            for attempt in range(len(self._credentials) + 2):
                sent = {**headers, **self._headers_for(url)}
                body = data() if callable(data) else data
                async with self._session.request(method, url, headers=sent, data=body, **options) as answer:
                    may_try = answer.status == 401 and attempt <= len(self._credentials)
                    if may_try and await self._authenticate(answer, actions, attempt):
                        continue
                    if answer.status not in ok:
                        raise await _refusal(answer, f"{method} {urlsplit(url).path}")
                    yield answer
                    return
            raise RegistryError(f"{self._name.domain} does not accept these credentials", 401)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise RegistryError(f"{self._name.domain}: {_reason(error)}") from error

    def location(self, answer: aiohttp.ClientResponse) -> str:
        """Return where the registry said to go on."""
        return urljoin(str(answer.url), answer.headers.get("Location", ""))

    def _headers_for(self, url: str) -> dict[str, str]:
        same = urlsplit(url)[:2] == urlsplit(self._base)[:2]
        return {"Authorization": self._authorization} if self._authorization and same else {}

    async def _find_base(self) -> str:
        async with self._asked:
            if not self._base:
                problems: list[Exception] = []
                for base in self._bases:
                    try:
                        async with self._session.get(f"{base}/v2/"):
                            self._base = base
                            break
                    except aiohttp.ClientConnectorCertificateError:
                        raise  # it does speak TLS, as somebody else
                    except (aiohttp.ClientError, TimeoutError, OSError) as error:
                        problems.append(error)
                else:
                    raise problems[-1]
        return self._base

    async def _authenticate(self, answer: aiohttp.ClientResponse, actions: str, attempt: int) -> bool:
        """Take what the registry asks for; return whether there is something to try."""
        asked = challenge.parse(answer.headers.get("WWW-Authenticate", ""))
        # Anonymous tokens come last: with credentials a registry shows more.
        known = self._credentials[attempt] if attempt < len(self._credentials) else None
        if asked is None or (asked.scheme == "basic" and known is None):
            return False
        if asked.scheme == "basic":
            assert known is not None
            self._authorization = known.basic
            return True
        token = await self._token(asked, actions, known)
        self._authorization = f"Bearer {token}" if token else ""
        return True

    async def _token(self, asked: challenge.Challenge, actions: str, known: Credentials | None) -> str:
        realm = asked.parameters["realm"]
        if urlsplit(realm).scheme != "https" and not realm.startswith("http://"):
            raise RegistryError(
                f"{self._name.domain} names a token service that is no address: {realm[:100]}"
            )
        if urlsplit(realm).scheme == "http" and not self._base.startswith("http://"):
            raise RegistryError(
                f"{self._name.domain} would have credentials sent unencrypted to {realm[:100]}"
            )
        scope = asked.parameters.get("scope") or f"repository:{self._name.path}:{actions}"
        query = {"service": asked.parameters.get("service", ""), "scope": scope}
        if known is not None and known.identity_token:
            form = {
                "grant_type": "refresh_token",
                "refresh_token": known.identity_token,
                "client_id": "trainshed",
            }
            request = self._session.post(realm, data={**form, **query})
        else:
            headers = {"Authorization": known.basic} if known is not None else {}
            request = self._session.get(realm, params=query, headers=headers)
        async with request as answer:
            if answer.status in (401, 403):
                return ""
            if answer.status != 200:
                raise await _refusal(answer, "the token service")
            try:
                fields = json.loads(await answer.content.read(oci.MAX_DOCUMENT))
                return str(fields.get("token") or fields["access_token"])
            except (ValueError, KeyError, AttributeError) as error:
                raise RegistryError(f"the token service of {self._name.domain} gives no token") from error


@asynccontextmanager
async def connected(
    name: Reference, credentials: Sequence[Credentials], *, insecure: bool = False
) -> AsyncIterator[Registry]:
    """Yield the repository of an image on its registry. `insecure`: whoever answers is believed, by HTTP, too."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=_SILENT_SECONDS)
    connector = aiohttp.TCPConnector(ssl=False if insecure else _tls(name.domain))
    async with aiohttp.ClientSession(
        timeout=timeout,
        connector=connector,
        trust_env=True,
        headers={"User-Agent": "trainshed"},
        read_bufsize=_BUFFER,
    ) as session:
        yield Registry(name, credentials, session, insecure=insecure)


def _tls(domain: str) -> ssl.SSLContext:
    """Return the machine's trust, the authorities that are trusted for this registry, and our own certificate for it.

    Raises RegistryError where a file of these is none.
    """
    context = ssl.create_default_context()
    for place in CERTIFICATES:
        directory = Path(place).expanduser() / domain
        try:
            for file in sorted(directory.glob("*.crt")):
                context.load_verify_locations(file)
            for file in sorted(directory.glob("*.cert")):
                context.load_cert_chain(file, file.with_suffix(".key"))
        except (OSError, ssl.SSLError) as error:
            raise RegistryError(f"{domain}: a certificate in {directory} cannot be used: {error}") from error
    return context


def _is_loopback(host: str) -> bool:
    bare = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return bare in ("localhost", "[::1]") or bare.startswith("127.")


async def _refusal(answer: aiohttp.ClientResponse, what: str) -> RegistryError:
    """Return what the registry says of a request that it refused (distribution-spec, Error Codes)."""
    text = ""
    try:
        fields = json.loads(await answer.content.read(_MAX_ERROR))
        text = "; ".join(str(each.get("message") or each.get("code")) for each in fields["errors"])
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    said = {401: "authentication required", 403: "access is denied"}
    reason = text or said.get(answer.status) or answer.reason or ""
    if answer.status == 401:
        reason += "; docker login or podman login, or an imagePullSecret of the pod"
    port = f":{answer.url.explicit_port}" if answer.url.explicit_port else ""
    return RegistryError(f"{answer.url.host}{port}: {what}: {answer.status} {reason}"[:500], answer.status)


def _reason(error: BaseException) -> str:
    """Return what went wrong, without the words of the library and of Python."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        refused = error.certificate_error
        said = getattr(refused, "verify_message", "")  # of ssl.SSLCertVerificationError
        return f"certificate verify failed: {said or refused}"
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        found = error.os_error
        named = isinstance(found, socket.gaierror) or not found.errno or found.errno < 0
        why = found.strerror if named else os.strerror(found.errno or 0)
        return f"cannot connect to {error.host}:{error.port}: {why or found}"
    return str(error) or type(error).__name__
