"""ServiceAccount tokens: JSON Web Tokens signed with ES256, bound to an account and perhaps to a pod.

Source: the TokenRequest API reference; RFC 7515/7518 for the signature (r and s as 32 bytes each).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from trainshed.cluster.sandbox.addresses import DOMAIN
from trainshed.kube.meta.objects import Object

ISSUER = f"https://kubernetes.default.svc.{DOMAIN}"
LEGACY_ISSUER = "kubernetes/serviceaccount"
"""The issuer of tokens in Secrets, which have no end."""
LEGACY = "kubernetes.io/serviceaccount/"
"""What claims of theirs begin with."""
DEFAULT_AUDIENCE = ISSUER
DEFAULT_SECONDS = 3600
MIN_SECONDS = 600
MAX_SECONDS = 1 << 32
JWKS_PATH = "/openid/v1/jwks"
"""Where those who are shown a token find the keys to check it with."""
_COORDINATE_BYTES = 32
_PUBLIC_DER = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004")
"""What a SubjectPublicKeyInfo of P-256 begins with (RFC 5480); x and y follow."""
_PRIVATE_DER = bytes.fromhex("308187020100301306072a8648ce3d020106082a8648ce3d030107046d306b0201010420")
"""What a PKCS #8 key of P-256 with its public key begins with (RFC 5958, RFC 5915); the number follows."""


def openid_configuration() -> Object:
    """Return the discovery document of the issuer of ServiceAccount tokens (OpenID Connect Discovery 1.0)."""
    return {
        "issuer": ISSUER,
        "jwks_uri": f"{ISSUER}{JWKS_PATH}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    }


class InvalidToken(Exception):
    """Not a token of ours, or one that no longer counts."""


class TokenIssuer:
    """Signs and verifies tokens with one key."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self._public = key.public_key()
        numbers = self._public.public_numbers()
        self._point = tuple(n.to_bytes(_COORDINATE_BYTES, "big") for n in (numbers.x, numbers.y))
        der = _PUBLIC_DER + b"".join(self._point)
        self._key_id = _b64(hashlib.sha256(der).digest())
        self._header = _b64(msgspec.json.encode({"alg": "ES256", "kid": self._key_id, "typ": "JWT"}))
        self._verified: dict[str, dict[str, Any]] = {}

    def key_set(self) -> Object:
        """Return the public key as a JSON Web Key Set (RFC 7517)."""
        x, y = map(_b64, self._point)
        key = {"use": "sig", "kty": "EC", "kid": self._key_id, "crv": "P-256", "alg": "ES256", "x": x, "y": y}
        return {"keys": [key]}

    @classmethod
    def load(cls, path: Path) -> TokenIssuer:
        """Return the issuer of the PEM key in a file."""
        return cls(_private_key(path.read_bytes()))

    def issue(
        self,
        account: Object,
        *,
        audiences: Sequence[str],
        seconds: int,
        now: float,
        bound: Mapping[str, Object] | None = None,
    ) -> str:
        """Return a token for a ServiceAccount object, valid for `seconds` from `now`, at most for as long as what it is
        bound to is there: a `pod`, which may have its `node` with it, a `secret` or a `node`.
        """
        metadata = account["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        named = {part: _reference(obj) for part, obj in (bound or {}).items()}
        claims = {
            "aud": list(audiences),
            "exp": int(now) + seconds,
            "iat": int(now),
            "iss": ISSUER,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": {"namespace": namespace, "serviceaccount": _reference(account), **named},
            "nbf": int(now),
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        return self._signed(claims)

    def issue_for(self, account: Object, secret: Object) -> str:
        """Return a token for a ServiceAccount that counts for as long as the Secret holds it."""
        whose, held = account["metadata"], secret["metadata"]
        return self._signed(
            {
                "iss": LEGACY_ISSUER,
                f"{LEGACY}namespace": whose["namespace"],
                f"{LEGACY}secret.name": held["name"],
                f"{LEGACY}service-account.name": whose["name"],
                f"{LEGACY}service-account.uid": whose["uid"],
                "sub": f"system:serviceaccount:{whose['namespace']}:{whose['name']}",
            }
        )

    def _signed(self, claims: Object) -> str:
        signed = f"{self._header}.{_b64(msgspec.json.encode(claims))}"
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        raw = r.to_bytes(_COORDINATE_BYTES, "big") + s.to_bytes(_COORDINATE_BYTES, "big")
        return f"{signed}.{_b64(raw)}"

    def verify(self, token: str, *, audiences: Sequence[str], now: float) -> dict[str, Any]:
        """Return the claims of a token signed by this key, not expired at `now`, for one of `audiences`.

        `nbf` does not count: the signature says that the token was issued, so a clock that is before it was set back
        since, and pods must not lose the API until it has caught up.

        Raises:
            InvalidToken: anything else. The caller still has to look whether what it is bound to exists.
        """
        claims = self._verified.get(token) or self._check_signature(token)
        if claims["iss"] == LEGACY_ISSUER:
            claims = {**claims, "exp": math.inf, "aud": [DEFAULT_AUDIENCE]}
        if now >= claims.get("exp", 0):
            raise InvalidToken("token has expired")
        if not set(claims.get("aud") or ()) & set(audiences):
            raise InvalidToken("token audiences do not match")
        return claims

    def _check_signature(self, token: str) -> dict[str, Any]:
        parts = token.split(".")
        if len(parts) != 3:
            raise InvalidToken("not a JSON Web Token")
        try:
            header = msgspec.json.decode(_unb64(parts[0]))
            claims: dict[str, Any] = msgspec.json.decode(_unb64(parts[1]), type=dict[str, Any])
            signature = _unb64(parts[2])
        except (ValueError, binascii.Error, msgspec.DecodeError) as error:
            raise InvalidToken("malformed token") from error
        if (
            not isinstance(header, dict)
            or header.get("alg") != "ES256"
            or claims.get("iss") not in (ISSUER, LEGACY_ISSUER)
        ):
            raise InvalidToken("not a token of this cluster")
        if len(signature) != 2 * _COORDINATE_BYTES:
            raise InvalidToken("malformed signature")
        der = encode_dss_signature(
            int.from_bytes(signature[:_COORDINATE_BYTES], "big"),
            int.from_bytes(signature[_COORDINATE_BYTES:], "big"),
        )
        try:
            self._public.verify(der, f"{parts[0]}.{parts[1]}".encode(), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature as error:
            raise InvalidToken("bad signature") from error
        if len(self._verified) >= 1024:
            self._verified.clear()
        self._verified[token] = claims
        return claims


def _reference(obj: Object) -> Object:
    """Return how a token names an object; a node that is gone has no uid."""
    metadata = obj["metadata"]
    return {key: metadata[key] for key in ("name", "uid") if key in metadata}


def _private_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Return the key on P-256 that a file holds; one as `certificates.new_key` writes it needs no further library."""
    begin, _, rest = pem.strip().partition(b"\n")
    body, _, end = rest.rpartition(b"\n")
    if (begin, end) == (b"-----BEGIN PRIVATE KEY-----", b"-----END PRIVATE KEY-----"):
        der = base64.b64decode(body)
        if der.startswith(_PRIVATE_DER):
            number = der[len(_PRIVATE_DER) :][:_COORDINATE_BYTES]
            return ec.derive_private_key(int.from_bytes(number, "big"), ec.SECP256R1())
    from cryptography.hazmat.primitives import serialization  # 0.6 MiB, most of it for keys of SSH

    key = serialization.load_pem_private_key(pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unb64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
