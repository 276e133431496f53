"""Which signing requests are signed, for how long, and when they are cleaned up."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from trainshed.certificates import make_authority
from trainshed.cluster import signing
from trainshed.cluster.controllers.signers import (
    CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    Refuse,
    Sign,
    answer_to,
    ends_at,
    is_due,
)
from trainshed.cluster.signing import Asked
from trainshed.kube.builtin import registry
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import CERTIFICATESIGNINGREQUESTS
from trainshed.kube.meta.times import format_time

NOW = 1_800_000_000.0
DAY = 24 * 3600


def request(signer: str = CLIENT, usages: tuple[str, ...] = ("client auth",), **spec: Any) -> Object:
    return {
        "metadata": {"name": "r", "creationTimestamp": format_time(NOW)},
        "spec": {"request": "eA==", "signerName": signer, "usages": list(usages), **spec},
        "status": {},
    }


def with_condition(obj: Object, kind: str, certificate: str = "") -> Object:
    condition = {"type": kind, "status": "True", "lastUpdateTime": format_time(NOW)}
    status: Object = {"conditions": [condition]}
    if certificate:
        status["certificate"] = certificate
    return {**obj, "status": status}


NODE = Asked(common_name="system:node:a", organizations=("system:nodes",))
SERVING = Asked(common_name="system:node:a", organizations=("system:nodes",), dns_names=("a",))
TLS = ("digital signature", "key encipherment")


@pytest.mark.parametrize(
    ("signer", "asked", "usages", "why"),
    [
        (CLIENT, Asked(common_name="anna"), ("client auth",), ""),
        (CLIENT, Asked(common_name="anna"), ("client auth", *TLS), ""),
        (CLIENT, Asked(), ("server auth",), "invalid usage for client certificate: server auth"),
        (CLIENT, Asked(), TLS, "missing required usage for client certificate: client auth"),
        (KUBELET_CLIENT, NODE, ("client auth", "digital signature"), ""),
        (KUBELET_CLIENT, NODE, ("client auth", *TLS), ""),
        (KUBELET_CLIENT, Asked(), ("client auth",), "subject organization is not system:nodes"),
        (KUBELET_CLIENT, SERVING, ("client auth", *TLS), "DNS subjectAltNames are not allowed"),
        (KUBELET_CLIENT, NODE, ("client auth",), "usages did not match [client auth digital signature]"),
        (
            KUBELET_CLIENT,
            Asked(common_name="a", organizations=("system:nodes",)),
            ("client auth", *TLS),
            "subject common name does not begin with system:node:",
        ),
        (KUBELET_SERVING, SERVING, ("server auth", *TLS), ""),
        (KUBELET_SERVING, NODE, ("server auth", *TLS), "DNS or IP subjectAltName is required"),
        (
            KUBELET_SERVING,
            SERVING,
            ("client auth", *TLS),
            "usages did not match [digital signature server auth]",
        ),
    ],
)
def test_each_signer_has_its_rules(signer: str, asked: Asked, usages: tuple[str, ...], why: str) -> None:
    decision = answer_to(request(signer, usages), asked, NOW)
    assert decision == (Refuse(why) if why else Sign(usages, NOW - 300, NOW + 365 * DAY))


def test_it_lasts_as_long_as_asked_and_a_year_at_most() -> None:
    def lasts(seconds: int) -> float:
        decision = answer_to(request(expirationSeconds=seconds), Asked(common_name="a"), NOW)
        assert isinstance(decision, Sign)
        return decision.ends - NOW

    assert [lasts(3600), lasts(10 * 365 * DAY)] == [3600, 365 * DAY]


def test_only_approved_requests_of_these_signers_are_due() -> None:
    assert is_due(with_condition(request(), "Approved"))
    assert not is_due(request())
    assert not is_due(with_condition(request(), "Denied"))
    assert not is_due(with_condition(request(), "Approved", "held"))
    assert not is_due(with_condition(request("example.com/own"), "Approved"))


def test_old_requests_go() -> None:
    assert ends_at(request(), None) == NOW + DAY
    for kind in ("Denied", "Failed"):
        assert ends_at(with_condition(request(), kind), None) == NOW + 3600
    issued = with_condition(request(), "Approved", "held")
    assert ends_at(issued, NOW + DAY) == NOW + 3600
    assert ends_at(issued, NOW + 600) == NOW + 600
    assert ends_at(with_condition(request(), "Approved"), None) is None


def causes(new: Object, old: Object | None = None, subresource: str = "") -> list[str]:
    found = registry.validate_object(CERTIFICATESIGNINGREQUESTS, new, old, subresource=subresource)
    return [f"{cause.field}: {cause.message}" for cause in found]


def test_a_request_is_checked() -> None:
    assert causes(request()) == []
    wrong = request("no-domain", ("client auth", "client auth", "fly"), expirationSeconds=599)
    del wrong["spec"]["request"]
    assert [text.partition(":")[0] for text in causes(wrong)] == [
        "spec.request",
        "spec.usages[1]",
        "spec.usages[2]",
        "spec.signerName",
        "spec.expirationSeconds",
    ]
    legacy = causes(request("kubernetes.io/legacy-unknown"))
    assert legacy[0].endswith("the legacy signerName is not allowed via this API version")


def test_what_was_decided_stays() -> None:
    approved = with_condition(request(), "Approved")
    both = with_condition(request(), "Approved")
    both["status"]["conditions"].append({"type": "Denied", "status": "True"})
    assert "mutually exclusive" in causes(both, approved, "approval")[0]
    undone = causes(request(), approved, "approval")
    assert undone == ['status.conditions: Forbidden: updates may not remove a condition of type "Approved"']
    no = with_condition(request(), "Approved")
    no["status"]["conditions"][0]["status"] = "False"
    assert 'Unsupported value: "False"' in causes(no, None, "approval")[0]


def made_request(*names: x509.GeneralName) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "devs"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "ops"),
        x509.NameAttribute(NameOID.COMMON_NAME, "anna"),
    ]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_a_certificate_has_what_was_asked_for() -> None:
    pem = made_request(x509.DNSName("a.example.com"))
    asked = signing.read(pem)
    assert (asked.common_name, asked.organizations, asked.dns_names) == (
        "anna",
        ("devs", "ops"),
        ("a.example.com",),
    )
    begins, ends = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    authority = make_authority("test", begins)
    usages = ("digital signature", "client auth")
    made = signing.sign(authority, pem, usages, begins, ends)
    assert authority.signs(made)
    read = x509.load_pem_x509_certificate(made.encode())
    assert (read.not_valid_before_utc, read.not_valid_after_utc) == (begins, ends)
    usage = read.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.digital_signature and not usage.key_encipherment
    assert list(read.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH
    ]
    assert not read.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    shown = signing.holder(read.public_bytes(serialization.Encoding.DER))
    assert (shown.common_name, shown.organizations) == ("anna", ("devs", "ops"))


EMPTY = b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"


@pytest.mark.parametrize("text", [b"", b"x", EMPTY])
def test_what_is_no_request_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        signing.read(text)


def test_a_request_that_its_key_has_not_signed_is_refused() -> None:
    der = bytearray(base64.b64decode(b"".join(made_request().splitlines()[1:-1])))
    at = der.index(b"anna")
    der[at : at + 4] = b"evil"
    body = base64.encodebytes(bytes(der))
    pem = b"-----BEGIN CERTIFICATE REQUEST-----\n" + body + b"-----END CERTIFICATE REQUEST-----\n"
    with pytest.raises(ValueError, match="not signed by its key"):
        signing.read(pem)
