"""Encryption of objects at rest: an EncryptionConfiguration, and what it makes of values.

The first provider that is listed for a resource writes, all of them read. Ciphertexts of `aesgcm` are bound to their
key in the store, so that one cannot be put in another's place; those of `secretbox` and `aescbc` cannot be.

Source: "Encrypting Confidential Data at Rest" in the Kubernetes documentation.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from trainshed.cluster.store.keys import place
from trainshed.cluster.store.transform import MARK, Undecipherable

API_VERSIONS = ("apiserver.config.k8s.io/v1", "v1")
KIND = "EncryptionConfiguration"
NO_KMS = "kms is not served: no plugin is asked for keys; use aesgcm or secretbox"
NO_SECRETBOX = "secretbox needs PyNaCl: pip install 'trainshed[secretbox]'"
_BLOCK, _NONCE = 16, 12


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key: its name, which is stored with what it encrypts, and 16, 24 or 32 bytes in base64, 32 for `secretbox`."""

    name: str
    secret: str


class Keys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a provider, the first of which writes."""

    keys: tuple[Key, ...] = ()


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The provider that leaves values as they are."""


class ProviderEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One provider: exactly one of these."""

    aescbc: Keys | None = None
    aesgcm: Keys | None = None
    identity: Nothing | None = None
    secretbox: Keys | None = None
    kms: dict[str, object] | None = None


class ResourceEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Resources, and the providers that they have."""

    resources: tuple[str, ...] = ()
    providers: tuple[ProviderEntry, ...] = ()


class Configuration(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """An EncryptionConfiguration."""

    api_version: str
    kind: str
    resources: tuple[ResourceEntry, ...] = ()


class Cipher(Protocol):
    """One key of one provider."""

    def encrypt(self, key: str, value: bytes) -> bytes: ...

    def decrypt(self, key: str, value: bytes) -> bytes: ...


class _Gcm:
    def __init__(self, secret: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM(secret)

    def encrypt(self, key: str, value: bytes) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, value, key.encode())

    def decrypt(self, key: str, value: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(value[:_NONCE], value[_NONCE:], key.encode())
        except InvalidTag as error:
            raise ValueError("message authentication failed") from error


class _Cbc:
    def __init__(self, secret: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import algorithms

        self._algorithm = algorithms.AES(secret)

    def encrypt(self, key: str, value: bytes) -> bytes:
        from cryptography.hazmat.primitives.ciphers import Cipher, modes

        start = os.urandom(_BLOCK)
        missing = _BLOCK - len(value) % _BLOCK
        writer = Cipher(self._algorithm, modes.CBC(start)).encryptor()
        return start + writer.update(value + bytes([missing]) * missing) + writer.finalize()

    def decrypt(self, key: str, value: bytes) -> bytes:
        from cryptography.hazmat.primitives.ciphers import Cipher, modes

        if len(value) < 2 * _BLOCK or len(value) % _BLOCK:
            raise ValueError("the stored data is not a multiple of the block size")
        reader = Cipher(self._algorithm, modes.CBC(value[:_BLOCK])).decryptor()
        plain = reader.update(value[_BLOCK:]) + reader.finalize()
        missing = plain[-1]
        # Nothing vouches for what CBC gives back, but that it is an object in JSON.
        if not 1 <= missing <= _BLOCK or plain[:1] != b"{" or plain[-missing - 1 : -missing] != b"}":
            raise ValueError("invalid padding on input")
        return plain[:-missing]


class _SecretBox:
    """XSalsa20 and Poly1305, which `cryptography` does not have."""

    def __init__(self, secret: bytes) -> None:
        try:
            from nacl.secret import SecretBox
        except ImportError as error:
            raise ValueError(NO_SECRETBOX) from error
        self._box = SecretBox(secret)

    def encrypt(self, key: str, value: bytes) -> bytes:
        return bytes(self._box.encrypt(value))  # after a nonce of 24 bytes, as upstream

    def decrypt(self, key: str, value: bytes) -> bytes:
        from nacl.exceptions import CryptoError

        try:
            return bytes(self._box.decrypt(value))
        except CryptoError as error:
            raise ValueError("message authentication failed") from error


_CIPHERS: dict[str, type[_Gcm] | type[_Cbc] | type[_SecretBox]] = {
    "aesgcm": _Gcm,
    "aescbc": _Cbc,
    "secretbox": _SecretBox,
}
_SIZES = {"aesgcm": (16, 24, 32), "aescbc": (16, 24, 32), "secretbox": (32,)}


class _Provider:
    """One way of writing. The identity has neither mark nor cipher."""

    def __init__(self, mark: bytes = b"", cipher: Cipher | None = None) -> None:
        self.mark, self.cipher = mark, cipher


class Encryption:
    """The transformer of a store. Raises ValueError, with one sentence, for a configuration that is none."""

    def __init__(self, configuration: Configuration) -> None:
        if configuration.api_version not in API_VERSIONS or configuration.kind != KIND:
            found = f"{configuration.api_version} {configuration.kind}"
            raise ValueError(f"it is no {API_VERSIONS[0]} {KIND}, but {found}")
        if not configuration.resources:
            raise ValueError(
                "resources: Required value: encryption config file must contain at least one resource"
            )
        self._entries = [
            (_patterns(entry, f"resources[{index}]"), _providers(entry, f"resources[{index}]"))
            for index, entry in enumerate(configuration.resources)
        ]
        self._found: dict[tuple[str, str], Sequence[_Provider]] = {}

    def _of(self, key: str) -> Sequence[_Provider]:
        _, group, plural, _ = key.split("/", 3)
        known = self._found.get((group, plural))
        if known is None:
            known = self._found[group, plural] = self._chosen(place(key).group, plural)
        return known

    def _chosen(self, group: str, plural: str) -> Sequence[_Provider]:
        # The first entry that names a resource counts, wildcards only where none does.
        for names in ((f"{plural}.{group}" if group else plural,), (f"*.{group}",), ("*.*",)):
            for patterns, providers in self._entries:
                if patterns & set(names):
                    return providers
        return ()

    def written(self, key: str, value: bytes) -> bytes:
        """Return the value of a key as the first provider writes it."""
        providers = self._of(key)
        if not providers or providers[0].cipher is None:
            return value
        return providers[0].mark + providers[0].cipher.encrypt(key, value)

    def read(self, key: str, value: bytes) -> bytes:
        """Return the value of a key. Raises Undecipherable where no provider can read it."""
        if not value.startswith(MARK):
            return value
        why = "no key of that name"
        for provider in self._of(key):
            if provider.cipher is None or not value.startswith(provider.mark):
                continue
            try:
                return provider.cipher.decrypt(key, value[len(provider.mark) :])
            except ValueError as error:
                why = str(error)
        how = value.split(b":", 5)
        way, name = (how[place].decode(errors="replace") if len(how) == 6 else "" for place in (2, 4))
        named = f"{way} with the key {name!r}" if way else "an unknown way"
        raise Undecipherable(f"{key} is encrypted by {named}: {why}")

    def is_stale(self, key: str, value: bytes) -> bool:
        """Return whether a value is written in another way than the first provider's."""
        providers = self._of(key)
        mark = providers[0].mark if providers else b""
        return not value.startswith(mark) if mark else value.startswith(MARK)


def _patterns(entry: ResourceEntry, at: str) -> frozenset[str]:
    if not entry.resources:
        raise ValueError(f"{at}.resources: Required value: at least one resource is required")
    for index, name in enumerate(entry.resources):
        if name in ("*", "") or (name.count("*") and name not in ("*.*",) and not name.startswith("*.")):
            raise ValueError(
                f"{at}.resources[{index}]: {name!r}: use '*.' for the core group, '*.<group>' or '*.*'"
            )
    return frozenset(entry.resources)


def _providers(entry: ResourceEntry, at: str) -> list[_Provider]:
    if not entry.providers:
        raise ValueError(f"{at}.providers: Required value: at least one provider is required")
    return [
        found
        for index, provider in enumerate(entry.providers)
        for found in _ciphers(provider, f"{at}.providers[{index}]")
    ]


def _ciphers(provider: ProviderEntry, at: str) -> Iterator[_Provider]:
    given = [name for name in provider.__struct_fields__ if getattr(provider, name) is not None]
    if len(given) != 1:
        raise ValueError(f"{at}: exactly one of aescbc, aesgcm, secretbox and identity is needed")
    if given[0] == "kms":
        raise ValueError(f"{at}.{NO_KMS}")
    if given[0] == "identity":
        yield _Provider()
        return
    keys: Keys = getattr(provider, given[0])
    if not keys.keys:
        raise ValueError(f"{at}.{given[0]}.keys: Required value: at least one key is required")
    if len({key.name for key in keys.keys}) < len(keys.keys):
        raise ValueError(f"{at}.{given[0]}.keys: names must differ")
    for index, key in enumerate(keys.keys):
        where = f"{at}.{given[0]}.keys[{index}]"
        if not key.name or ":" in key.name:
            raise ValueError(f"{where}.name: is required, without colons")
        try:
            secret = base64.b64decode(key.secret, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"{where}.secret: must be base64 encoded") from error
        if len(secret) not in _SIZES[given[0]]:
            sizes = ", ".join(str(size) for size in _SIZES[given[0]])
            raise ValueError(f"{where}.secret: is {len(secret)} bytes long, must be one of {sizes}")
        mark = MARK + f"{given[0]}:v1:{key.name}:".encode()
        yield _Provider(mark, _CIPHERS[given[0]](secret))


def read(document: object) -> Encryption:
    """Return the transformer of a decoded file. ValueError, with one sentence, when it is none that is served."""
    try:
        configuration = msgspec.convert(document, Configuration)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    return Encryption(configuration)


def generated() -> dict[str, object]:
    """Return a configuration that encrypts Secrets with a key nobody has seen."""
    secret = base64.b64encode(os.urandom(32)).decode()
    providers = [{"aesgcm": {"keys": [{"name": "key1", "secret": secret}]}}, {"identity": {}}]
    return {
        "apiVersion": API_VERSIONS[0],
        "kind": KIND,
        "resources": [{"resources": ["secrets"], "providers": providers}],
    }
