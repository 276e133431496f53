"""Certificates: who they speak for, who may read them, when they are renewed."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtensionOID

from trainshed.certificates import VALID_FOR
from trainshed.cluster.paths import StateError
from trainshed.cluster.pki import RENEW_BEFORE, Pki, ensure_pki

NOW = datetime.datetime(2027, 1, 15, 8, tzinfo=datetime.UTC)


def names(pki: Pki) -> tuple[set[str], set[str]]:
    certificate = x509.load_pem_x509_certificate(pki.server_certificate.read_bytes())
    found = certificate.extensions.get_extension_for_oid(ExtensionOID.SUBJECT_ALTERNATIVE_NAME).value
    assert isinstance(found, x509.SubjectAlternativeName)
    addresses = found.get_values_for_type(x509.IPAddress)
    return set(found.get_values_for_type(x509.DNSName)), {str(a) for a in addresses}


def contents(pki: Pki) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in pki.directory.iterdir()}


def test_names_and_modes(tmp_path: Path) -> None:
    pki = ensure_pki(tmp_path / "pki", NOW)
    dns, addresses = names(pki)
    assert {"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"} <= dns
    assert {"127.0.0.1", "10.96.0.1", "10.88.0.1"} <= addresses
    assert all(ipaddress.ip_address(address) for address in addresses)
    assert (tmp_path / "pki").stat().st_mode & 0o777 == 0o700
    for path in pki.directory.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600, path
    assert len(pki.admin_token) >= 32


def test_the_chain_is_one_that_tls_accepts(tmp_path: Path) -> None:
    pki = ensure_pki(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pki.server_certificate, pki.server_key)
    client = ssl.create_default_context(cadata=pki.ca_pem)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    far = server.wrap_bio(to_server, to_client, server_side=True)
    done: set[object] = set()
    for _ in range(10):
        for side in (near, far):
            if side not in done:
                try:
                    side.do_handshake()
                    done.add(side)
                except ssl.SSLWantReadError:
                    continue
    assert done == {near, far}


def test_files_are_made_once(tmp_path: Path) -> None:
    before = contents(ensure_pki(tmp_path, NOW))
    assert contents(ensure_pki(tmp_path, NOW + datetime.timedelta(days=30))) == before


def test_a_serving_certificate_near_its_end_is_renewed(tmp_path: Path) -> None:
    before = contents(ensure_pki(tmp_path, NOW))
    after = contents(ensure_pki(tmp_path, NOW + VALID_FOR - RENEW_BEFORE / 2))
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"server.crt", "server.key"}


@pytest.mark.parametrize("damage", [b"", b"\n", b"token\n"])
def test_the_token_file_holds_a_token_and_nothing_else(tmp_path: Path, damage: bytes) -> None:
    """Clients read it by `tokenFile`, some of them with its newline; an empty one would let nobody in."""
    pki = ensure_pki(tmp_path)
    pki.admin_token_file.write_bytes(damage)
    pki = ensure_pki(tmp_path)
    held = pki.admin_token_file.read_bytes()
    assert held and held == held.strip() and pki.admin_token.encode() == held
    assert not damage.strip() or held == damage.strip(), "a token that was given out stays valid"


FILES = {
    "ca.crt": "certificate",
    "ca.key": "private key",
    "server.crt": "certificate",
    "server.key": "private key",
    "sa.key": "private key",
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [b"", b"junk", b"\xff\x00", "another"])
def test_a_file_that_holds_something_else_is_named_and_can_be_deleted(
    tmp_path: Path, name: str, damage: bytes | str
) -> None:
    ensure_pki(tmp_path, NOW)
    other = "ca.crt" if FILES[name] == "private key" else "ca.key"
    (tmp_path / name).write_bytes((tmp_path / other).read_bytes() if isinstance(damage, str) else damage)
    with pytest.raises(StateError) as caught:
        ensure_pki(tmp_path, NOW)
    assert caught.value.message == f"{tmp_path / name} holds no {FILES[name]}"
    (tmp_path / name).unlink()
    names(ensure_pki(tmp_path, NOW))


def test_an_authority_made_with_a_wrong_clock_is_made_again(tmp_path: Path) -> None:
    """The clock said 2005 at the first start, or is set back by months."""
    for made, now in ((NOW.replace(year=2005), NOW), (NOW, NOW - datetime.timedelta(days=200))):
        directory = tmp_path / str(made.year)
        before = contents(ensure_pki(directory, made))
        after = contents(ensure_pki(directory, now))
        assert before["ca.crt"] != after["ca.crt"] and before["server.crt"] != after["server.crt"]
        assert before["admin.token"] == after["admin.token"] and before["sa.key"] == after["sa.key"]
        assert contents(ensure_pki(directory, now)) == after


def test_certificates_count_when_the_clock_is_set_back(tmp_path: Path) -> None:
    before = contents(ensure_pki(tmp_path, NOW))
    assert contents(ensure_pki(tmp_path, NOW - datetime.timedelta(days=20))) == before
