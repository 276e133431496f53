"""What becomes of a CertificateSigningRequest: which signer is for it, whether that signs, when the request goes.

Source: `pkg/controller/certificates/signer`, `pkg/controller/certificates/cleaner`, `pkg/apis/certificates/helpers.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from trainshed.kube.meta.objects import Object, objects, spec_of, status_of
from trainshed.kube.meta.times import time_or_none

if TYPE_CHECKING:
    from trainshed.cluster.signing import Asked

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
LONGEST_SECONDS = 365 * 24 * 3600
"""`--cluster-signing-duration`: what a request may ask for at most, and gets when it asks for nothing."""
_SHORTEST_SECONDS = 600
BACKDATED_SECONDS = 300
_DECIDED_SECONDS, _PENDING_SECONDS = 3600, 24 * 3600
_NODES, _NODE = "system:nodes", "system:node:"


class Sign(msgspec.Struct, frozen=True):
    """Give it a certificate that counts from `begins` to `ends` (seconds since the epoch)."""

    usages: tuple[str, ...]
    begins: float
    ends: float


class Refuse(msgspec.Struct, frozen=True):
    """It never gets one; the text says why."""

    message: str


def conditions(obj: Object) -> set[str]:
    """Return the types of a request's conditions that hold."""
    return {
        str(one.get("type")) for one in objects(status_of(obj), "conditions") if one.get("status") == "True"
    }


def is_due(obj: Object) -> bool:
    """Return whether a request is approved and waits for a signer of this cluster."""
    held = conditions(obj)
    waits = "Approved" in held and not held & {"Denied", "Failed"} and not status_of(obj).get("certificate")
    return waits and spec_of(obj).get("signerName") in (CLIENT, KUBELET_CLIENT, KUBELET_SERVING)


def answer_to(obj: Object, asked: Asked, now: float) -> Sign | Refuse:
    """Return what a signer does with an approved request, which asks for `asked`."""
    spec = spec_of(obj)
    usages = tuple(str(one) for one in spec.get("usages") or ())
    problem = _RULES[spec["signerName"]](asked, usages)
    if problem:
        return Refuse(problem)
    seconds = spec.get("expirationSeconds")
    lasts = LONGEST_SECONDS if seconds is None else min(max(seconds, _SHORTEST_SECONDS), LONGEST_SECONDS)
    return Sign(usages, now - BACKDATED_SECONDS, now + lasts)


def ends_at(obj: Object, certificate_ends: float | None) -> float | None:
    """Return when a request is cleaned up, in seconds since the epoch; None while it waits for another's signer."""
    held = objects(status_of(obj), "conditions")
    times = [] if certificate_ends is None else [certificate_ends]
    if not held:
        times.append(_PENDING_SECONDS + (time_or_none(obj["metadata"].get("creationTimestamp")) or 0.0))
    issued = bool(status_of(obj).get("certificate"))
    for one in held:
        changed = time_or_none(one.get("lastUpdateTime"))
        if changed is None:
            continue
        if one.get("type") in ("Denied", "Failed") or (one.get("type") == "Approved" and issued):
            times.append(changed + _DECIDED_SECONDS)
    return min(times, default=None)


def _client(asked: Asked, usages: Sequence[str]) -> str:
    for usage in usages:
        if usage not in ("digital signature", "key encipherment", "client auth"):
            return f"invalid usage for client certificate: {usage}"
    return "" if "client auth" in usages else "missing required usage for client certificate: client auth"


def _kubelet_client(asked: Asked, usages: Sequence[str]) -> str:
    if asked.organizations != (_NODES,):
        return f"subject organization is not {_NODES}"
    for found, text in (
        (asked.dns_names, "DNS subjectAltNames are not allowed"),
        (asked.emails, "Email subjectAltNames are not allowed"),
        (asked.addresses, "IP subjectAltNames are not allowed"),
        (asked.uris, "URI subjectAltNames are not allowed"),
    ):
        if found:
            return text
    return _node_name(asked) or _node_usages(usages, "client auth")


def _kubelet_serving(asked: Asked, usages: Sequence[str]) -> str:
    if asked.organizations != (_NODES,):
        return f"subject organization is not {_NODES}"
    if not asked.dns_names and not asked.addresses:
        return "DNS or IP subjectAltName is required"
    if asked.emails:
        return "Email subjectAltNames are not allowed"
    if asked.uris:
        return "URI subjectAltNames are not allowed"
    return _node_usages(usages, "server auth") or _node_name(asked)


def _node_name(asked: Asked) -> str:
    return "" if asked.common_name.startswith(_NODE) else f"subject common name does not begin with {_NODE}"


def _node_usages(usages: Sequence[str], purpose: str) -> str:
    needed = {"digital signature", purpose}
    if set(usages) in (needed, needed | {"key encipherment"}):
        return ""
    return f"usages did not match [{' '.join(sorted(needed))}]"


_RULES = {CLIENT: _client, KUBELET_CLIENT: _kubelet_client, KUBELET_SERVING: _kubelet_serving}
