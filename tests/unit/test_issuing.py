"""Certificates that are written here are, to the byte, those that the library would write."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trainshed import certificates, issuing

NOW = datetime(2027, 1, 15, 8, 30, 59, 999, tzinfo=UTC)
TIMES = (
    NOW,
    datetime(1980, 1, 1, tzinfo=UTC),
    datetime(2049, 6, 1, tzinfo=UTC),
    datetime(2106, 2, 7, tzinfo=UTC),
)
P384 = ec.generate_private_key(ec.SECP384R1())


def read(pem: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem.encode())


def library(
    made: x509.Certificate,
    signer: ec.EllipticCurvePrivateKey,
    extensions: list[tuple[x509.ExtensionType, bool]],
    now: datetime,
) -> bytes:
    """Return what is signed, as the library writes it for the names, the number and the key of `made`."""
    key = made.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    builder = (
        x509.CertificateBuilder()
        .subject_name(made.subject)
        .issuer_name(made.issuer)
        .public_key(key)
        .serial_number(made.serial_number)
        .not_valid_before(now - issuing.BACKDATED)
        .not_valid_after(now + issuing.VALID_FOR)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(signer, hashes.SHA256()).tbs_certificate_bytes


def usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(not signs, False, False, False, False, signs, signs, False, False)


def key_of(pair: issuing.Pair) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pair.key.encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


@pytest.mark.parametrize("now", TIMES, ids=lambda time: str(time.year))
@pytest.mark.parametrize(
    ("common_name", "organization"), [("ca", ""), ("x" * 70, "Größe GmbH"), ("ö" * 32, "")]
)
def test_an_authority(common_name: str, organization: str, now: datetime) -> None:
    pair = issuing.make_authority(common_name, now, organization)
    made = read(pair.certificate)
    constraints = x509.BasicConstraints(ca=True, path_length=0)
    expected = library(made, key_of(pair), [(constraints, True), (usage(signs=True), True)], now)
    assert made.tbs_certificate_bytes == expected
    made.verify_directly_issued_by(made)
    names = [(a.oid, a.value) for a in made.subject]
    organizations = [(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    assert names == [*organizations, (NameOID.COMMON_NAME, common_name[:64])]


def leaf_extensions(
    signer: ec.EllipticCurvePrivateKey, purpose: x509.ObjectIdentifier, *more: x509.ExtensionType
) -> list[tuple[x509.ExtensionType, bool]]:
    return [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (usage(signs=False), True),
        (x509.ExtendedKeyUsage([purpose]), False),
        *((extension, False) for extension in more),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False),
    ]


@pytest.mark.parametrize(
    "hosts", [["a"], ["localhost", "x" * 63 + ".example"], [f"host-{n}" for n in range(40)]]
)
def test_a_serving_certificate(hosts: list[str]) -> None:
    authority = issuing.make_authority("ca", NOW, "us")
    pair = issuing.issue(authority, hosts[0] * 9, hosts, NOW, ("127.0.0.1", "::1"))
    made, signer = read(pair.certificate), key_of(authority)
    addresses = [x509.IPAddress(ipaddress.ip_address(text)) for text in ("127.0.0.1", "::1")]
    names = x509.SubjectAlternativeName([*map(x509.DNSName, hosts), *addresses])
    extensions = leaf_extensions(signer, ExtendedKeyUsageOID.SERVER_AUTH, names)
    assert made.tbs_certificate_bytes == library(made, signer, extensions, NOW)
    assert made.issuer == read(authority.certificate).subject
    assert key_of(pair).public_key() == made.public_key()
    assert authority.signs(pair.certificate)
    assert certificates.hosts_of(pair.certificate) == hosts


def test_a_certificate_of_a_client() -> None:
    authority = issuing.make_authority("ca", NOW)
    pair = issuing.issue_client(authority, "anna", ("devs", "system:masters"), NOW)
    made, signer = read(pair.certificate), key_of(authority)
    assert [a.value for a in made.subject] == ["devs", "system:masters", "anna"]
    expected = library(made, signer, leaf_extensions(signer, ExtendedKeyUsageOID.CLIENT_AUTH), NOW)
    assert made.tbs_certificate_bytes == expected
    assert authority.signs(pair.certificate)


@pytest.mark.parametrize("name", ["", "x" * 65, "ö" * 33])
def test_names_of_clients_that_are_none(name: str) -> None:
    with pytest.raises(ValueError, match="common name"):
        issuing.issue_client(issuing.make_authority("ca", NOW), name, (), NOW)


def foreign(key: ec.EllipticCurvePrivateKey) -> issuing.Pair:
    """Return an authority that others made: on another curve perhaps, with a name in which more stands."""
    name = x509.Name(
        [x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"), x509.NameAttribute(NameOID.COMMON_NAME, "o")]
    )
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    span = builder.serial_number(1).not_valid_before(NOW).not_valid_after(NOW + timedelta(days=1))
    certificate = span.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
    sec1 = serialization.PrivateFormat.TraditionalOpenSSL
    pem = key.private_bytes(serialization.Encoding.PEM, sec1, serialization.NoEncryption()).decode()
    return issuing.Pair(f"a comment\n{certificate}", pem)


@pytest.mark.parametrize("key", [P384, ec.generate_private_key(ec.SECP256R1())], ids=["P-384", "SEC 1"])
def test_an_authority_that_others_made_signs(key: ec.EllipticCurvePrivateKey) -> None:
    authority = foreign(key)
    pair = issuing.issue(authority, "a", ["a"], NOW)
    made = read(pair.certificate)
    made.verify_directly_issued_by(read(authority.certificate))
    names = x509.SubjectAlternativeName([x509.DNSName("a")])
    extensions = leaf_extensions(key, ExtendedKeyUsageOID.SERVER_AUTH, names)
    assert made.tbs_certificate_bytes == library(made, key, extensions, NOW)


@pytest.mark.parametrize(
    "certificate", ["", "x", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"]
)
def test_what_is_no_authority(certificate: str) -> None:
    good = issuing.make_authority("ca", NOW)
    with pytest.raises(ValueError, match="certificate"):
        issuing.issue(issuing.Pair(certificate, good.key), "a", ["a"], NOW)
    with pytest.raises(ValueError):
        issuing.issue(issuing.Pair(good.certificate, certificate), "a", ["a"], NOW)


def test_keys() -> None:
    pem = issuing.new_key()
    key = serialization.load_pem_private_key(pem.encode(), None)
    plain = serialization.NoEncryption()
    written = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    assert written.decode() == pem
    assert issuing.read_key(pem.encode()).private_numbers() == key.private_numbers()  # type: ignore[union-attr]
    other = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain
    assert issuing.read_key(P384.private_bytes(*other)).private_numbers() == P384.private_numbers()
