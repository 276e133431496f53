"""Pulling and pushing: what a registry may ask for and do, on one of ours, and on Debian's where it is installed."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.fakes.debian_registry import debian_registry
from tests.fakes.images import Archive, digest, put
from tests.fakes.registry import PASSWORD, USER, FakeRegistry
from trainshed.certificates import issue, make_authority
from trainshed.cli.console import warnings_of
from trainshed.cluster.images import oci
from trainshed.cluster.images.oci import InvalidImage
from trainshed.cluster.images.reference import parse
from trainshed.cluster.images.registry import client, transfer
from trainshed.cluster.images.registry.credentials import Credentials, CredentialsError, of_user
from trainshed.cluster.images.registry.errors import RegistryError
from trainshed.cluster.images.store.store import ImageStore

LOCAL = oci.local_platform()
ME = Credentials(USER, PASSWORD)
BIG = Archive().file("big", os.urandom(300_000)).bytes()
SMALL = Archive().file("small", b"2").bytes()


@pytest.fixture
def stores(tmp_path: Path) -> tuple[ImageStore, ImageStore]:
    return ImageStore(tmp_path / "one"), ImageStore(tmp_path / "two")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "RETRY_SECONDS", 0.001)
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("auth", ["none", "basic", "token"])
async def test_what_was_pushed_is_pulled(stores: tuple[ImageStore, ImageStore], auth: str) -> None:
    mine, theirs = stores
    async with FakeRegistry(auth).serving() as registry:
        name = parse(f"{registry.address}/me/app:1")
        image = put(mine, str(name), BIG, SMALL, entrypoint=("x",))
        credentials = [] if auth == "none" else [Credentials(USER, "wrong"), ME]
        assert await transfer.push(mine, image, name, credentials) == image.descriptor.digest
        seen: list[transfer.Progress] = []
        pulled = await transfer.pull(theirs, name, LOCAL, credentials, seen.append)
        assert pulled == image == theirs.find(name)
        assert {one.digest for one in seen if one.what == "done"} == {
            part.digest for part in (image.manifest.config, *image.manifest.layers)
        }
        assert (theirs.lowers(pulled)[0] / "small").read_text() == "2"
        # All of it is there on both sides: only manifests move.
        registry.requests.clear()
        await transfer.pull(theirs, name, LOCAL, credentials)
        await transfer.push(mine, image, name, credentials)
        assert not [line for line in registry.requests if "blobs" in line and not line.startswith("HEAD")]
        by_digest = parse(f"{registry.address}/me/app@{image.descriptor.digest}")
        assert (await transfer.pull(theirs, by_digest, LOCAL, credentials)).id == image.id


async def test_refusals_say_what_and_where(stores: tuple[ImageStore, ImageStore]) -> None:
    mine, theirs = stores
    async with FakeRegistry("token").serving() as registry:
        name = parse(f"{registry.address}/me/app:1")
        for credentials in ([], [Credentials(USER, "wrong")]):
            with pytest.raises(
                RegistryError, match=f"{registry.address}: .* 401 it is unauthorized; docker login or"
            ) as caught:
                await transfer.pull(theirs, name, LOCAL, credentials)
            assert caught.value.status == 401
        with pytest.raises(RegistryError, match="404 it is manifest_unknown"):
            await transfer.pull(theirs, name, LOCAL, [ME])
        with pytest.raises(RegistryError, match="401"):
            await transfer.push(mine, put(mine, str(name), SMALL), name)
    with pytest.raises(RegistryError, match=f"{registry.address}: "):
        await transfer.pull(theirs, name, LOCAL)
    assert not theirs.names.all()


async def test_a_download_goes_on_where_it_broke_off(stores: tuple[ImageStore, ImageStore]) -> None:
    mine, theirs = stores
    async with FakeRegistry().serving() as registry:
        name = parse(f"{registry.address}/me/app:1")
        image = put(mine, str(name), BIG, compress=False)
        await transfer.push(mine, image, name)
        registry.break_after = [100_000, 50_000]
        pulled = await transfer.pull(theirs, name, LOCAL)
        assert pulled.id == image.id and not registry.break_after
        # What a broken connection still delivered is up to the socket; what had come was not asked for again.
        assert [int(begin) for begin in registry.ranges] == sorted({int(begin) for begin in registry.ranges})


async def test_a_download_that_never_ends_is_given_up_and_kept(stores: tuple[ImageStore, ImageStore]) -> None:
    mine, theirs = stores
    async with FakeRegistry().serving() as registry:
        name = parse(f"{registry.address}/me/app:1")
        image = put(mine, str(name), BIG, compress=False)
        await transfer.push(mine, image, name)
        config = image.manifest.config
        theirs.paths.prepare()
        theirs.blobs.add_stream(config, [mine.blobs.path(config.digest).read_bytes()])
        registry.break_after = [100_000, *[0] * 20]
        with pytest.raises(RegistryError):
            await transfer.pull(theirs, name, LOCAL)
        assert not theirs.names.all()
        registry.break_after, registry.ranges = [], []
        assert (await transfer.pull(theirs, name, LOCAL)).id == image.id
        assert len(registry.ranges) == 1 and int(registry.ranges[0]) > 0, "what had come is not fetched again"


async def test_a_registry_that_gives_something_else(stores: tuple[ImageStore, ImageStore]) -> None:
    mine, theirs = stores
    async with FakeRegistry().serving() as registry:
        name = parse(f"{registry.address}/me/app:1")
        image = put(mine, str(name), BIG, compress=False)
        await transfer.push(mine, image, name)
        layer = image.manifest.layers[0].digest
        for wrong in (registry.blobs[layer][:-1] + b"x", registry.blobs[layer] + b"more"):
            registry.blobs[layer] = wrong
            with pytest.raises(InvalidImage, match=r"was expected|has more than"):
                await transfer.pull(theirs, name, LOCAL)
        registry.manifests[f"me/app/{image.descriptor.digest}"] = (oci.OCI_MANIFEST, b"{}")
        with pytest.raises(InvalidImage, match="registry's manifest of"):
            await transfer.pull(theirs, parse(f"{name.repository}@{image.descriptor.digest}"), LOCAL)
        registry.manifests["me/app/1"] = ("application/vnd.docker.distribution.manifest.v1+prettyjws", b"{}")
        with pytest.raises(InvalidImage, match="schema 1"):
            await transfer.pull(theirs, name, LOCAL)
        assert not theirs.names.all() and not list(theirs.paths.layers.iterdir())


async def test_the_platforms_image_is_chosen(stores: tuple[ImageStore, ImageStore]) -> None:
    mine, theirs = stores
    async with FakeRegistry().serving() as registry:
        name = parse(f"{registry.address}/me/app:1")
        entries = []
        for platform in (str(LOCAL), "linux/s390x"):
            image = put(mine, f"x:{platform.replace('/', '-')}", SMALL, platform=platform)
            await transfer.push(mine, image, parse(f"{name.repository}:part"))
            entries.append(
                {"mediaType": oci.OCI_MANIFEST, "digest": image.descriptor.digest, "size": image.descriptor.size,
                 "platform": {"os": "linux", "architecture": image.config.architecture}}
            )  # fmt: skip
        index = json.dumps({"schemaVersion": 2, "manifests": entries}).encode()
        registry.add_manifest("me/app/1", oci.OCI_INDEX, index)
        assert (await transfer.pull(theirs, name, LOCAL)).config.architecture == LOCAL.architecture
        s390x = oci.parse_platform("linux/s390x")
        assert (await transfer.pull(theirs, name, s390x)).config.architecture == "s390x"
        with pytest.raises(InvalidImage, match="it is for linux/"):
            await transfer.pull(theirs, name, oci.parse_platform("windows/amd64"))
        part = parse(f"{name.repository}:part")  # no index: its configuration says what it is for
        assert (await transfer.pull(theirs, part, s390x)).config.architecture == "s390x"
        with pytest.raises(InvalidImage, match=f"part is not for {LOCAL}; it is for linux/s390x"):
            await transfer.pull(theirs, part, LOCAL)


async def test_pulls_of_the_same_image_at_once_fetch_it_once(stores: tuple[ImageStore, ImageStore]) -> None:
    mine, theirs = stores
    async with FakeRegistry().serving() as registry:
        name = parse(f"{registry.address}/me/app:1")
        image = put(mine, str(name), BIG)
        await transfer.push(mine, image, name)
        registry.requests.clear()
        await asyncio.gather(*(transfer.pull(theirs, name, LOCAL) for _ in range(3)))
        fetched = [line for line in registry.requests if line.startswith("GET") and "/blobs/" in line]
        assert len(fetched) == 2, fetched


def test_credentials_of_a_helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = tmp_path / "docker-credential-test"
    helper.write_text(
        f"#!{sys.executable}\nimport json, sys\nserver = sys.stdin.read()\n"
        "known = {'reg.io': ('u', 'p'), 'https://index.docker.io/v1/': ('<token>', 't')}\n"
        "sys.exit('credentials not found') if server not in known else None\n"
        "print(json.dumps({'ServerURL': server, 'Username': known[server][0], 'Secret': known[server][1]}))\n"
    )
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    environ = {"HOME": str(tmp_path), "DOCKER_CONFIG": str(tmp_path)}
    auth = base64.b64encode(b"file:pw").decode()
    config = {
        "credsStore": "test",
        "credHelpers": {"odd.io": "not-there"},
        "auths": {"other.io": {"auth": auth}},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert of_user(parse("reg.io/a"), environ) == Credentials("u", "p")
    assert of_user(parse("busybox"), environ) == Credentials(identity_token="t")
    assert of_user(parse("other.io/a"), environ) == Credentials("file", "pw")
    assert of_user(parse("nobody.io/a"), environ) is None
    with pytest.raises(CredentialsError, match=r"docker-credential-not-there.*is not installed"):
        of_user(parse("odd.io/a"), environ)
    (tmp_path / "config.json").write_text(
        json.dumps({"auths": {"other.io": {"auth": auth}, "reg.io": {"auth": auth}}})
    )
    conf = tmp_path / "registries.conf"
    environ["CONTAINERS_REGISTRIES_CONF"] = str(conf)
    assert of_user(parse("reg.io/a"), environ) == Credentials("file", "pw"), "nobody else is named"
    conf.write_text('credential-helpers = ["not-there", "test", "containers-auth.json"]')
    assert of_user(parse("reg.io/a"), environ) == Credentials("u", "p"), "in the order of registries.conf"
    assert of_user(parse("other.io/a"), environ) == Credentials("file", "pw")
    with pytest.raises(CredentialsError, match=r"docker-credential-not-there.*is not installed"):
        of_user(parse("nobody.io/a"), environ)
    conf.write_text('credential-helpers = ["test"]')
    assert of_user(parse("other.io/a"), environ) is None, "files are not named"
    conf.write_text("[")
    with pytest.raises(CredentialsError, match="cannot be read"):
        of_user(parse("reg.io/a"), environ)
    conf.unlink()
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CredentialsError, match="cannot be read"):
        of_user(parse("reg.io/a"), environ)


async def test_mirrors_are_asked_first(
    stores: tuple[ImageStore, ImageStore],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    mine, theirs = stores
    async with FakeRegistry().serving() as mirror, FakeRegistry("basic").serving() as own:
        mirrored, name = parse(f"{mirror.address}/copy/me/app:1"), parse(f"{own.address}/me/app:1")
        image = put(mine, str(name), SMALL)
        await transfer.push(mine, image, name, [ME])
        settings = tmp_path / "registries.conf"
        settings.write_text(
            f'[[registry]]\nprefix = "{own.address}"\nlocation = "{own.address}"\n'
            f'[[registry.mirror]]\nlocation = "127.0.0.1:1"\n'
            f'[[registry.mirror]]\nlocation = "{mirror.address}/copy"\ninsecure = true\n'
        )
        monkeypatch.setenv("CONTAINERS_REGISTRIES_CONF", str(settings))
        # Neither mirror has it: the registry itself does, with the credentials that were given.
        with warnings_of("trainshed.cluster.images.registry"):
            assert await transfer.pull(theirs, name, LOCAL, [ME]) == image
        passed_over = re.findall(r"warning: mirror (\S+): .*(cannot connect|404)", capsys.readouterr().err)
        assert passed_over == [("127.0.0.1:1", "cannot connect"), (mirror.address, "404")]
        assert any("copy/me/app" in line for line in mirror.requests)
        await transfer.push(mine, image, mirrored)
        theirs.names.remove(str(name))
        own.requests.clear()
        assert await transfer.pull(theirs, name, LOCAL) == image == theirs.find(name)
        assert own.requests == [] and theirs.find(mirrored) is None
        settings.write_text("[[registry")
        with pytest.raises(RegistryError, match=r"registries\.conf cannot be read"):
            await transfer.pull(theirs, name, LOCAL)


async def test_debians_registry(stores: tuple[ImageStore, ImageStore], tmp_path: Path) -> None:
    """The same on the reference implementation: storage, uploads, digests and parts are its own."""
    mine, theirs = stores
    with debian_registry(tmp_path) as address:
        name = parse(f"{address}/me/app:1")
        image = put(mine, str(name), BIG, SMALL)
        await transfer.push(mine, image, name)
        partial = theirs.paths.prepare().partial / f"pull-{image.manifest.layers[0].digest[7:]}"
        partial.write_bytes(mine.blobs.path(image.manifest.layers[0].digest).read_bytes()[:1000])
        assert (await transfer.pull(theirs, name, LOCAL)) == image
        with pytest.raises(RegistryError, match="404 manifest unknown"):
            await transfer.pull(theirs, parse(f"{address}/me/app:2"), LOCAL)
        assert digest(SMALL) in image.config.rootfs.diff_ids


HTPASSWD = f"{USER}:$2b$05$abcdefghijklmnopqrstuuj5DaoYnUxZnCxcpQ8vG/UCDkJIC0IC2\n"
"""Of PASSWORD, by bcrypt with few rounds."""


async def test_debians_registry_with_tls_and_a_password(
    stores: tuple[ImageStore, ImageStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    authority = make_authority("registry", now)
    serving = issue(authority, "registry", [], now, ["127.0.0.1"])
    (tmp_path / "pair.crt").write_text(serving.certificate)
    (tmp_path / "pair.key").write_text(serving.key)
    (tmp_path / "htpasswd").write_text(HTPASSWD)
    monkeypatch.setattr(client, "CERTIFICATES", (str(tmp_path / "certs.d"),))
    tls = {"certificate": str(tmp_path / "pair.crt"), "key": str(tmp_path / "pair.key")}
    auth = {"htpasswd": {"realm": "here", "path": str(tmp_path / "htpasswd")}}
    mine, theirs = stores
    with debian_registry(tmp_path, tls=tls, auth=auth) as address:
        name = parse(f"{address}/me/app:1")
        image = put(mine, str(name), BIG, SMALL)
        with pytest.raises(RegistryError, match=r"^127[0-9.:]+ certificate verify failed: unable to get"):
            await transfer.push(mine, image, name, [ME])
        trusted = tmp_path / "certs.d" / address
        trusted.mkdir(parents=True)
        (trusted / "ca.crt").write_text("no certificate")
        with pytest.raises(RegistryError, match=r"a certificate in .* cannot be used"):
            await transfer.push(mine, image, name, [ME])
        (trusted / "ca.crt").write_text(authority.certificate)
        for wrong in ([], [Credentials(USER, "wrong")]):
            with pytest.raises(RegistryError, match="401") as caught:
                await transfer.push(mine, image, name, wrong)
            assert caught.value.status == 401
        await transfer.push(mine, image, name, [ME])
        login = {"auths": {address: {"auth": base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()}}}
        (tmp_path / "config.json").write_text(json.dumps(login))
        own = of_user(name, {"DOCKER_CONFIG": str(tmp_path)})
        assert own == ME and (await transfer.pull(theirs, name, LOCAL, [own])) == image
