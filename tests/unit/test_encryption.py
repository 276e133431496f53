"""Encryption at rest: configurations, what is on the disk, rotation, and keys that do not fit."""

from __future__ import annotations

import base64
import importlib.util
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from trainshed.cluster import encryption
from trainshed.cluster.store import Store, StoreError
from trainshed.cluster.store.backup import dump, read, restore, sealed
from trainshed.cluster.store.transform import PLAIN, Transformer, Undecipherable
from trainshed.kube.meta.objects import Object

SECRET, MAP, CUSTOM = "/core/secrets/default/s", "/core/configmaps/default/m", "/example.com/things/default/t"
VALUE = b'{"data":{"p":"NEEDLE"}}'
NEEDLE = b"NEEDLE"


def keys(*names: str, size: int = 32) -> Object:
    secrets = ((name, base64.b64encode(name.encode().ljust(size, b"-")).decode()) for name in names)
    return {"keys": [{"name": name, "secret": secret} for name, secret in secrets]}


def configuration(*providers: Object, resources: tuple[str, ...] = ("secrets",)) -> Object:
    entry = {"resources": list(resources), "providers": list(providers)}
    return {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [entry],
    }


def importable(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


WITH_PYNACL = pytest.mark.skipif(
    not importable("nacl"), reason="PyNaCl is not installed; ./check installs it"
)


@pytest.mark.parametrize(
    ("provider", "size"),
    [
        *((provider, size) for provider in ("aesgcm", "aescbc") for size in (16, 24, 32)),
        pytest.param("secretbox", 32, marks=WITH_PYNACL),
    ],
)
def test_what_is_written_can_be_read_and_is_not_readable(provider: str, size: int) -> None:
    made = encryption.read(configuration({provider: keys("key1", size=size)}))
    written = made.written(SECRET, VALUE)
    assert written.startswith(f"k8s:enc:{provider}:v1:key1:".encode()) and NEEDLE not in written
    assert made.written(SECRET, VALUE) != written  # nothing tells that two are equal
    assert made.read(SECRET, written) == VALUE
    assert made.written(MAP, VALUE) == VALUE
    for at in (len(written) - 1, written.index(b"key1:") + 6):
        changed = bytearray(written)
        changed[at] ^= 1
        if provider != "aescbc":
            with pytest.raises(Undecipherable, match="message authentication failed"):
                made.read(SECRET, bytes(changed))


def test_one_ciphertext_cannot_stand_in_the_place_of_another() -> None:
    made = encryption.read(configuration({"aesgcm": keys("key1")}))
    with pytest.raises(Undecipherable):
        made.read("/core/secrets/default/other", made.written(SECRET, VALUE))


def test_the_first_provider_writes_and_all_read() -> None:
    old = encryption.read(configuration({"aescbc": keys("old")}))
    new = encryption.read(
        configuration({"aesgcm": keys("new", "newer")}, {"aescbc": keys("old")}, {"identity": {}})
    )
    before = old.written(SECRET, VALUE)
    assert new.read(SECRET, before) == new.read(SECRET, VALUE) == VALUE
    assert new.is_stale(SECRET, before) and new.is_stale(SECRET, VALUE)
    assert not new.is_stale(SECRET, new.written(SECRET, VALUE)) and not new.is_stale(MAP, VALUE)
    with pytest.raises(
        Undecipherable, match="/core/secrets/default/s is encrypted by aesgcm with the key 'new'"
    ):
        old.read(SECRET, new.written(SECRET, VALUE))
    with pytest.raises(Undecipherable, match="is encrypted by aesgcm with the key '\ufffd"):
        old.read(SECRET, new.written(SECRET, VALUE).replace(b":new:", b":\xffew:"))
    off = encryption.read(configuration({"identity": {}}, {"aescbc": keys("old")}))
    assert off.is_stale(SECRET, before) and off.written(SECRET, off.read(SECRET, before)) == VALUE
    with pytest.raises(Undecipherable, match="by aescbc with the key old, and no key is at hand"):
        PLAIN.read(SECRET, before)


@pytest.mark.parametrize(
    ("resources", "encrypted"),
    [
        (("secrets",), {SECRET}),
        (("things.example.com",), {CUSTOM}),
        (("*.",), {SECRET, MAP}),
        (("*.example.com",), {CUSTOM}),
        (("*.*",), {SECRET, MAP, CUSTOM}),
    ],
)
def test_resources_and_wildcards(resources: tuple[str, ...], encrypted: set[str]) -> None:
    made = encryption.read(configuration({"aesgcm": keys("k")}, resources=resources))
    assert {key for key in (SECRET, MAP, CUSTOM) if made.written(key, VALUE) != VALUE} == encrypted


def test_a_name_counts_before_a_wildcard() -> None:
    document = configuration({"aesgcm": keys("k")}, resources=("*.*",))
    document["resources"].append({"resources": ["configmaps"], "providers": [{"identity": {}}]})
    made = encryption.read(document)
    assert made.written(MAP, VALUE) == VALUE != made.written(SECRET, VALUE)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kind": "Other"}, "it is no apiserver.config.k8s.io/v1 EncryptionConfiguration"),
        ({"resources": []}, "must contain at least one resource"),
        ({"resources": [{"providers": [{"identity": {}}]}]}, "at least one resource is required"),
        ({"resources": [{"resources": ["secrets"]}]}, "at least one provider is required"),
        (
            {"resources": [{"resources": ["*"], "providers": [{"identity": {}}]}]},
            "use '*.' for the core group",
        ),
        (configuration({}), "exactly one of aescbc, aesgcm, secretbox and identity"),
        (configuration({"identity": {}, "aesgcm": keys("a")}), "exactly one of"),
        (configuration({"aesgcm": {"keys": []}}), "at least one key is required"),
        (configuration({"aesgcm": keys("a", "a")}), "names must differ"),
        (configuration({"aesgcm": keys("a:b")}), "without colons"),
        (configuration({"aesgcm": keys("a", size=20)}), "is 20 bytes long, must be one of 16, 24, 32"),
        (configuration({"aescbc": {"keys": [{"name": "a", "secret": "!"}]}}), "must be base64 encoded"),
        (configuration({"secretbox": keys("a", size=16)}), "is 16 bytes long, must be one of 32"),
        (configuration({"kms": {"name": "x"}}), "kms is not served: no plugin is asked for keys"),
        ({"extra": 1}, "unknown field `extra`"),
    ],
)
def test_a_configuration_is_checked(change: Object, why: str) -> None:
    with pytest.raises(ValueError) as refused:
        encryption.read({**configuration({"identity": {}}), **change})
    assert why in str(refused.value)


@WITH_PYNACL
def test_secretbox_is_that_of_kubernetes() -> None:
    """Made with golang.org/x/crypto's test vector of `secretbox`, as kube-apiserver calls it."""
    box = base64.b64encode(b"\x01" * 32).decode()
    made = encryption.read(configuration({"secretbox": {"keys": [{"name": "k", "secret": box}]}}))
    sealed_by_go = bytes.fromhex(
        "8442bc313f4626f1359e3b50122b6ce6fe66ddfe7d39d14e637eb4fd5b45beadab55198df6ab5368439792a23c87db70"
        "acb6156dc5ef957ac04f6276cf6093b84be77ff0849cc33e34b7254d5a8f65ad"
    )
    stored = b"k8s:enc:secretbox:v1:k:" + b"\x02" * 24 + sealed_by_go
    assert made.read(SECRET, stored) == b"\x03" * 64


def test_secretbox_without_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nacl.secret", None)
    with pytest.raises(ValueError, match=r"pip install 'trainshed\[secretbox\]'"):
        encryption.read(configuration({"secretbox": keys("a")}))


def secret(text: str) -> Object:
    return {"kind": "Secret", "metadata": {"name": "s"}, "data": {"p": text}}


async def opened(path: Path, transformer: Transformer = PLAIN) -> Store:
    return await Store.open(path, transformer=transformer)


def on_disk(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


async def test_nothing_of_a_secret_is_on_the_disk(tmp_path: Path) -> None:
    made = encryption.read(encryption.generated())
    store = await opened(tmp_path / "store.db", made)
    await store.create(SECRET, secret("NEEDLE"))
    await store.create(MAP, secret("PUBLIC"))
    assert NEEDLE not in on_disk(tmp_path) and b"PUBLIC" in on_disk(tmp_path)
    lines = list(sealed(dump(*store.list("/"), store.transformer)))
    assert NEEDLE not in b"".join(lines) and b"PUBLIC" in b"".join(lines)
    await store.close()
    restore(tmp_path / "restored.db", read(lines))
    again = await opened(tmp_path / "restored.db", made)
    found = again.get(SECRET)
    assert found is not None and found.obj["data"] == {"p": "NEEDLE"}
    await again.close()
    assert NEEDLE not in on_disk(tmp_path)


async def test_what_was_there_before_is_written_anew_and_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = await opened(path)
    for number in range(20):
        made = await store.create(f"{SECRET}{number}", secret("NEEDLE"))
        await store.delete(made.key, made.revision)
    held = await store.create(SECRET, secret("NEEDLE"))
    await store.close()
    assert NEEDLE in on_disk(tmp_path)
    first = configuration({"aescbc": keys("one")}, {"identity": {}})
    store = await opened(path, encryption.read(first))
    assert NEEDLE not in on_disk(tmp_path) and b"aescbc:v1:one" in on_disk(tmp_path)
    await store.close()
    rotated = configuration({"aesgcm": keys("two")}, {"aescbc": keys("one")})
    store = await opened(path, encryption.read(rotated))
    assert b"aescbc:v1:one" not in on_disk(tmp_path)
    await store.close()
    store = await opened(path, encryption.read(configuration({"aesgcm": keys("two")})))  # the old key may go
    found = store.get(SECRET)
    assert found is not None and (found.obj["data"], found.revision) == ({"p": "NEEDLE"}, held.revision)
    await store.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_key_that_does_not_fit_is_said_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    right, wrong = (encryption.read(configuration({"aesgcm": keys("k", size=size)})) for size in (16, 32))
    store = await opened(path, right)
    await store.create(SECRET, secret("NEEDLE"))
    await store.close()
    other: Any
    for other in (wrong, PLAIN):
        with pytest.raises(
            StoreError, match=r"cannot read the store .* is encrypted by aesgcm with the key"
        ) as refused:
            await opened(path, other)
        assert "--encryption-provider-config" in refused.value.hint
    store = await opened(path, right)
    assert store.get(SECRET) is not None
    await store.close()
