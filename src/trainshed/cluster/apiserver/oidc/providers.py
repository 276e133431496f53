"""Issuers and their keys: read when a token comes, and again for a key that is not known, each ten seconds at most.

Signatures, issuer, audience and the end of a token are PyJWT's part. Source: OpenID Connect Discovery 1.0;
`apiserver/plugin/pkg/authenticator/token/oidc`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from trainshed.cluster.apiserver.access import User
from trainshed.cluster.apiserver.oidc.configuration import Authority, Configuration
from trainshed.cluster.apiserver.oidc.mapping import user_of
from trainshed.cluster.apiserver.tokens import InvalidToken

if TYPE_CHECKING:
    from jwt import PyJWK

log = logging.getLogger(__name__)

DISCOVERY = "/.well-known/openid-configuration"
ASK_AGAIN_SECONDS = 10.0
ANSWER_SECONDS = 10.0
EARLY_SECONDS = 300.0
"""How far `nbf` may lie ahead: clocks differ."""
MIN_RSA_BITS = 2048
_ALGORITHMS: Mapping[str, tuple[str, ...]] = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
}


class Token(msgspec.Struct, frozen=True):
    """A token, not verified yet. `key_id` is empty where it names no key."""

    text: str
    key_id: str
    issuer: str


def read_token(text: str) -> Token | None:
    """Return what a token says of itself, None where it is none."""
    import jwt  # half a MiB, for those who have an issuer only

    try:
        header = jwt.get_unverified_header(text)
        claims = jwt.decode(text, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError):
        return None
    return Token(text, str(header.get("kid", "")), str(claims.get("iss", "")))


class Provider:
    """One issuer and its keys."""

    def __init__(self, authority: Authority, clock: Callable[[], float]) -> None:
        self.authority = authority
        self._clock = clock
        self._keys: list[PyJWK] = []
        self._asked = float("-inf")
        self._turn = asyncio.Lock()
        self._problem = ""

    async def prepare(self, token: Token) -> None:
        """Have the keys ready that may have signed a token."""
        if self._candidates(token):
            return
        async with self._turn:
            if self._candidates(token) or self._clock() - self._asked < ASK_AGAIN_SECONDS:
                return
            self._asked = self._clock()
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    self._keys = await self._fetch()
                self._problem = ""
            except (ConnectionError, TimeoutError, ValueError) as error:
                self._problem = str(error) or type(error).__name__
                log.warning("cannot read the keys of %s: %s", self.authority.issuer.url, self._problem)

    def _candidates(self, token: Token) -> list[PyJWK]:
        if not token.key_id:
            return self._keys
        return [key for key in self._keys if key.key_id == token.key_id]

    async def _fetch(self) -> list[PyJWK]:
        issuer = self.authority.issuer
        start = issuer.discovery_url or issuer.url.rstrip("/") + DISCOVERY
        document = _decoded(await _get(start, issuer.certificate_authority))
        if document.get("issuer") != issuer.url:
            raise ValueError(f"its discovery document is of the issuer {document.get('issuer')!r}")
        where = document.get("jwks_uri")
        if not isinstance(where, str) or urlsplit(where).scheme != "https":
            raise ValueError("its discovery document names no keys")
        return _keys(_decoded(await _get(where, issuer.certificate_authority)))

    def identify(self, token: Token, now: float) -> User:
        """Return the user that a token stands for. Raises InvalidToken, and says in the log why."""
        try:
            return user_of(self.authority, self._claims(token, now))
        except InvalidToken as error:
            log.warning("Unable to authenticate the request: invalid bearer token, oidc: %s", error)
            raise

    def _claims(self, token: Token, now: float) -> dict[str, Any]:
        candidates = self._candidates(token)
        if not candidates:
            why = f"no key of {self.authority.issuer.url} has the id {token.key_id!r}"
            raise InvalidToken(f"{why}: {self._problem}" if self._problem else why)
        for key in candidates:
            claims = self._verified(token, key)
            if claims is not None:
                early = claims.get("nbf")
                if isinstance(early, int | float) and now + EARLY_SECONDS < early:
                    raise InvalidToken("token is not valid yet")
                return claims
        raise InvalidToken("failed to verify signature")

    def _verified(self, token: Token, key: PyJWK) -> dict[str, Any] | None:
        """Return the claims, None where the key is not the one that signed. Raises InvalidToken."""
        import jwt

        issuer = self.authority.issuer
        checks: Any = {"require": ["exp", "iss", "aud"], "verify_nbf": False, "verify_iat": False}
        checks |= {"verify_sub": False, "verify_jti": False}
        try:
            return jwt.decode(
                token.text,
                key.key,
                algorithms=_ALGORITHMS[key.key_type or ""],
                audience=issuer.audiences,
                issuer=issuer.url,
                options=checks,
            )
        except (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError, jwt.InvalidKeyError):
            return None
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise InvalidToken(str(error) or type(error).__name__) from error


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"it answers with what is no JSON object: {error}") from error


def _keys(document: Mapping[str, Any]) -> list[PyJWK]:
    """Return the keys of a JSON Web Key Set that verify signatures; those of other sorts are left out."""
    import jwt

    found = []
    listed = document.get("keys")
    for entry in listed if isinstance(listed, list) else []:
        if (
            not isinstance(entry, dict)
            or entry.get("kty") not in _ALGORITHMS
            or entry.get("use", "sig") != "sig"
        ):
            continue
        try:
            key = jwt.PyJWK(entry)
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            continue
        if entry["kty"] != "RSA" or key.key.key_size >= MIN_RSA_BITS:
            found.append(key)
    return found


class Providers:
    """The issuers of a configuration. `clock` returns seconds, of any beginning, that never go back."""

    def __init__(self, configuration: Configuration, clock: Callable[[], float]) -> None:
        self._by_url = {one.issuer.url: Provider(one, clock) for one in configuration.jwt}

    def of(self, text: str) -> tuple[Provider, Token] | None:
        """Return whose token this is, None where it is nobody's here."""
        if text.count(".") != 2:
            return None
        token = read_token(text)
        provider = self._by_url.get(token.issuer) if token is not None else None
        return None if provider is None or token is None else (provider, token)


async def _get(url: str, ca_pem: str) -> bytes:
    """Return the body at an https URL. ConnectionError says why there is none."""
    from trainshed.cluster.apiserver.callbacks import Socket
    from trainshed.cluster.apiserver.outgoing import CallFailed, Exchange, context

    parts = urlsplit(url)
    host = parts.hostname or ""
    stream: Socket | None = None
    try:
        stream = Socket(*await asyncio.open_connection(host, parts.port or 443))
        exchange = Exchange(stream, context(ca_pem.encode()), host)
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        headers = [
            (b"host", parts.netloc.encode()),
            (b"accept", b"application/json"),
            (b"connection", b"close"),
        ]
        head = await exchange.send("GET", target, headers)
        body = await exchange.whole()
    except (CallFailed, OSError) as error:
        raise ConnectionError(f"GET {url}: {error or type(error).__name__}") from error
    finally:
        if stream is not None:
            await stream.close()
    if head.status != 200:
        raise ConnectionError(f"GET {url}: status {head.status}")
    return body
