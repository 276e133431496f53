"""An OpenID Connect provider: signs tokens, and tells its keys."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
from aiohttp import web
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from trainshed.kube.meta.objects import Object


def encoded(data: bytes) -> str:
    """Return data as tokens have it."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int) -> str:
    """Return a number as keys have it."""
    return encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def token_of(header: Object, claims: Object, sign: Any) -> str:
    """Return a token; `sign` takes bytes and returns their signature."""
    text = ".".join(encoded(msgspec.json.encode(part)) for part in (header, claims))
    return f"{text}.{encoded(sign(text.encode()))}"


class Provider:
    """An issuer with RSA keys, of which the last one signs."""

    def __init__(self) -> None:
        self.url = ""
        self.asked = 0
        self.keys: dict[str, rsa.RSAPrivateKey] = {}
        self.add_key("one")

    def add_key(self, name: str) -> None:
        self.keys[name] = rsa.generate_private_key(65537, 2048)

    async def handle(self, request: web.Request) -> web.Response:
        if request.path == "/.well-known/openid-configuration":
            return web.json_response({"issuer": self.url, "jwks_uri": f"{self.url}/keys"})
        self.asked += 1
        listed = []
        for name, key in self.keys.items():
            public = key.public_key().public_numbers()
            entry = {"kty": "RSA", "kid": name, "n": number(public.n), "e": number(public.e)}
            listed.append({**entry, "use": "sig", "alg": "RS256"})
        return web.json_response({"keys": [{"kty": "oct", "k": "eA"}, *listed]})

    def token(self, now: float, **claims: Any) -> str:
        """Return a token of Anna's, for an hour; a claim that is None is left out."""
        wanted = {
            "iss": self.url,
            "aud": "cluster",
            "exp": int(now) + 3600,
            "sub": "anna",
            "teams": ["devs"],
            **claims,
        }
        name, key = list(self.keys.items())[-1]
        header = {"alg": "RS256", "kid": name, "typ": "JWT"}
        kept = {field: value for field, value in wanted.items() if value is not None}
        return token_of(header, kept, lambda data: key.sign(data, padding.PKCS1v15(), hashes.SHA256()))
