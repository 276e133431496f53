"""CertificateSigningRequests, which nobody approves here."""

from __future__ import annotations

from typing import Any

from trainshed.kube.builtin.kind import STATUS, Builtin, row
from trainshed.kube.builtin.parts.columns import NONE, Columns, age, define
from trainshed.kube.meta.duration import human
from trainshed.kube.meta.fieldselectors import paths
from trainshed.kube.meta.objects import Object, name_of, spec_of, status_of
from trainshed.kube.meta.resourceinfo import SubresourceInfo
from trainshed.kube.meta.resources import Resource


def _row(obj: Object, now: float) -> list[Any]:
    request = spec_of(obj)
    kinds = [item.get("type") for item in status_of(obj).get("conditions") or ()]
    shown = [kind for kind in ("Approved", "Denied", "Failed") if kind in kinds] or ["Pending"]
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
        Resource(
            "certificates.k8s.io",
            "v1",
            "certificatesigningrequests",
            "CertificateSigningRequest",
            namespaced=False,
        ),
        "csr",
        subresources={"approval": SubresourceInfo(("get", "patch", "update")), **STATUS},
    ),
    inert=True,
    columns=Columns(define("Name, Age, SignerName, Requestor, RequestedDuration, Condition"), _row),
    fields=paths("spec.signerName"),
)
