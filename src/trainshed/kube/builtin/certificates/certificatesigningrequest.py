"""CertificateSigningRequests. What X.509 says in `spec.request` is read by the admission of the API server.

Source of rules and texts: `pkg/apis/certificates/validation/validation.go`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import STATUS, Builtin, row
from trainshed.kube.builtin.parts.columns import NONE, Columns, age, define
from trainshed.kube.meta import causes, names
from trainshed.kube.meta.duration import human
from trainshed.kube.meta.equality import repeated
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.fieldselectors import paths
from trainshed.kube.meta.objects import Object, name_of, objects, spec_of, status_of
from trainshed.kube.meta.resourceinfo import SubresourceInfo
from trainshed.kube.meta.resources import CERTIFICATESIGNINGREQUESTS

_KINDS = ("Approved", "Denied", "Failed")
_MIN_SECONDS = 600
_USAGES = frozenset(
    [
        "signing",
        "digital signature",
        "content commitment",
        "key encipherment",
        "key agreement",
        "data encipherment",
        "cert sign",
        "crl sign",
        "encipher only",
        "decipher only",
        "any",
        "server auth",
        "client auth",
        "code signing",
        "email protection",
        "s/mime",
        "ipsec end system",
        "ipsec tunnel",
        "ipsec user",
        "timestamping",
        "ocsp signing",
        "microsoft sgc",
        "netscape sgc",
    ]
)


def _defaults(obj: Object) -> None:
    obj.setdefault("status", {})


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = spec_of(obj)
    if old is None:
        yield from _spec(spec)
    else:
        for field in (
            "request",
            "signerName",
            "usages",
            "expirationSeconds",
            "username",
            "uid",
            "groups",
            "extra",
        ):
            if spec.get(field) != spec_of(old).get(field):
                yield causes.invalid(f"spec.{field}", spec.get(field), "field is immutable")
    yield from _conditions(obj, old)
    certificate = status_of(obj).get("certificate")
    if certificate and b"-----BEGIN CERTIFICATE-----" not in base64.b64decode(certificate):
        text = "must contain at least one CERTIFICATE PEM block"
        yield causes.invalid("status.certificate", "<certificate data>", text)


def _spec(spec: Object) -> Iterator[Cause]:
    if not spec.get("request"):
        text = "PEM block type must be CERTIFICATE REQUEST"
        yield causes.invalid_shown("spec.request", "[]byte(nil)", text)
    usages = spec.get("usages") or []
    if not usages:
        yield causes.required("spec.usages")
    again = repeated(usages)
    for index, usage in enumerate(usages):
        if usage not in _USAGES:
            yield causes.unsupported(f"spec.usages[{index}]", usage, sorted(_USAGES))
        if index in again:
            yield causes.duplicate(f"spec.usages[{index}]", usage)
    signer = spec.get("signerName") or ""
    if signer == "kubernetes.io/legacy-unknown":
        text = "the legacy signerName is not allowed via this API version"
        yield causes.invalid("spec.signerName", signer, text)
    else:
        yield from _signer(signer)
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _MIN_SECONDS:
        text = f"may not specify a duration less than {_MIN_SECONDS} seconds (10 minutes)"
        yield causes.invalid("spec.expirationSeconds", seconds, text)


def _signer(signer: str) -> Iterator[Cause]:
    at = "spec.signerName"
    if not signer:
        yield causes.required(at)
        return
    domain, slash, path = signer.partition("/")
    if not slash or "/" in path:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield causes.invalid(at, signer, text)
        return
    if "." not in domain:
        text = "should be a domain with at least two segments separated by dots"
        yield causes.invalid(at, domain, text)
    for why in names.dns_subdomain(domain):
        yield causes.invalid(at, domain, f"validating label {domain!r}: {why}".replace("'", '"'))
    for why in names.dns_subdomain(path):
        yield causes.invalid(at, path, why)


def _conditions(obj: Object, old: Object | None) -> Iterator[Cause]:
    at, conditions = "status.conditions", objects(status_of(obj), "conditions")
    before = {one.get("type") for one in objects(status_of(old), "conditions")} if old is not None else set()
    seen: set[Any] = set()
    for index, one in enumerate(conditions):
        where, kind = f"{at}[{index}]", one.get("type")
        if not one.get("status"):
            yield causes.required(f"{where}.status")
        elif kind in _KINDS and one["status"] != "True":
            yield causes.unsupported(f"{where}.status", one["status"], ("True",))
        if kind in seen:
            yield causes.duplicate(f"{where}.type", kind)
        seen.add(kind)
        opposite = {"Approved": "Denied", "Denied": "Approved"}.get(str(kind))
        if opposite in seen:
            text = "Approved and Denied conditions are mutually exclusive"
            yield causes.invalid(f"{where}.type", kind, text)
    for kind in _KINDS:
        if kind in before and kind not in seen:
            yield causes.forbidden(at, f'updates may not remove a condition of type "{kind}"')


def _row(obj: Object, now: float) -> list[Any]:
    request = spec_of(obj)
    kinds = [item.get("type") for item in status_of(obj).get("conditions") or ()]
    shown = [kind for kind in _KINDS if kind in kinds] or ["Pending"]
    if status_of(obj).get("certificate"):
        shown.append("Issued")
    seconds = request.get("expirationSeconds")
    return [
        name_of(obj),
        age(obj, now),
        request.get("signerName") or NONE,
        request.get("username", ""),
        NONE if seconds is None else human(seconds),
        ",".join(shown),
    ]


KIND = Builtin(
    info=row(
        CERTIFICATESIGNINGREQUESTS,
        "csr",
        subresources={"approval": SubresourceInfo(("get", "patch", "update")), **STATUS},
    ),
    does="approved ones are signed for clients and nodes (`kubernetes.io/kube-apiserver-client`, "
    "`-client-kubelet`, `kubelet-serving`); cleaned up later",
    lacks="nothing is approved by itself, nodes' requests neither",
    defaults=_defaults,
    check=_check,
    columns=Columns(define("Name, Age, SignerName, Requestor, RequestedDuration, Condition"), _row),
    fields=paths("spec.signerName"),
)
