"""The key that ServiceAccount tokens are signed with, as files hold it."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from trainshed.certificates import new_key
from trainshed.cluster.apiserver.tokens import TokenIssuer

ACCOUNT = {"metadata": {"namespace": "default", "name": "robot", "uid": "u1"}}


def older(pem: str) -> str:
    """Return the same key as SEC 1 has it, which other tools write."""
    key = serialization.load_pem_private_key(pem.encode(), None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    ).decode()


@pytest.mark.parametrize("written", [str, older, str.strip], ids=["pkcs8", "sec1", "no newline"])
def test_the_key_of_a_file_signs(written: object, tmp_path: Path) -> None:
    pem, file = new_key(), tmp_path / "sa.key"
    file.write_text(written(pem))  # type: ignore[operator]
    loaded = serialization.load_pem_private_key(pem.encode(), None)
    assert isinstance(loaded, ec.EllipticCurvePrivateKey)
    token = TokenIssuer.load(file).issue(ACCOUNT, audiences=["a"], seconds=600, now=1000.0)
    assert TokenIssuer(loaded).verify(token, audiences=["a"], now=1001.0)["aud"] == ["a"]


def test_the_name_of_a_key_is_the_hash_of_its_public_half(tmp_path: Path) -> None:
    pem, file = new_key(), tmp_path / "sa.key"
    file.write_text(pem)
    public = serialization.load_pem_private_key(pem.encode(), None).public_key()
    der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    expected = base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()
    assert TokenIssuer.load(file).key_set()["keys"][0]["kid"] == expected
