"""CertificateSigningRequests: who asked is written down, and approving and signing take rights on the signer.

Source: the admission plug-ins CertificateApproval, CertificateSigning and CertificateSubjectRestriction, and the
strategy in `pkg/registry/certificates/certificates`.
"""

from __future__ import annotations

import base64
import binascii

from trainshed.cluster.apiserver.core import Call, Core
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import forbidden, invalid
from trainshed.kube.meta.objects import Object, objects, spec_of, status_of
from trainshed.kube.meta.resources import CERTIFICATESIGNINGREQUESTS as REQUESTS
from trainshed.kube.policy.attributes import Attributes
from trainshed.kube.served.rbac import MASTERS

CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"


async def admit(core: Core, call: Call, obj: Object) -> Object:
    """Return a new request with who makes it. Raises `ApiError` 403, 422."""
    from trainshed.cluster.signing import read

    user = call.user
    kept = {
        key: one for key, one in spec_of(obj).items() if key not in ("username", "uid", "groups", "extra")
    }
    spec = {**kept, "groups": list(user.groups), "username": user.username}
    if user.uid:
        spec["uid"] = user.uid
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra.items()}
    encoded = spec.get("request")
    if encoded:
        try:
            asked = read(base64.b64decode(encoded))
        except (ValueError, binascii.Error) as error:
            held = ", ".join(f"{byte:#x}" for byte in base64.b64decode(encoded))
            cause = causes.invalid_shown("spec.request", f"[]byte{{{held}}}", str(error))
            raise invalid(REQUESTS.kind, REQUESTS.group, obj["metadata"].get("name", ""), [cause]) from error
        if spec.get("signerName") == CLIENT_SIGNER and MASTERS in asked.organizations:
            why = f"use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"
            raise forbidden(REQUESTS.plural, REQUESTS.group, obj["metadata"].get("name", ""), why)
    return {**obj, "spec": spec}


def admit_update(core: Core, call: Call, old: Object, new: Object, subresource: str) -> Object:
    """Return a changed request with what this path may change. Raises `ApiError` 403."""
    new = {**new, "spec": spec_of(old)}
    status, before = dict(status_of(new)), status_of(old)
    if subresource == "approval":
        status.pop("certificate", None)
        if "certificate" in before:
            status["certificate"] = before["certificate"]
        _check(core, call, old, "approve")
    elif subresource == "status":
        if status.get("certificate") != before.get("certificate") or _failed(status) != _failed(before):
            _check(core, call, old, "sign")
        # Who may sign decides nothing about approval.
        decided = [one for one in objects(before, "conditions") if one.get("type") in ("Approved", "Denied")]
        others = [
            one for one in objects(status, "conditions") if one.get("type") not in ("Approved", "Denied")
        ]
        if decided or others:
            status["conditions"] = [*decided, *others]
    else:
        return new
    status["conditions"] = [_stamped(one, before, call.timestamp) for one in objects(status, "conditions")]
    return {**new, "status": {key: one for key, one in status.items() if one or key != "conditions"}}


def _failed(status: Object) -> bool:
    return any(one.get("type") == "Failed" for one in objects(status, "conditions"))


def _stamped(condition: Object, before: Object, now: str) -> Object:
    held = next(
        (one for one in objects(before, "conditions") if one.get("type") == condition.get("type")), {}
    )
    out = {**condition, "lastUpdateTime": condition.get("lastUpdateTime") or now}
    if not out.get("lastTransitionTime"):
        same = held.get("status") == condition.get("status") and held.get("lastTransitionTime")
        out["lastTransitionTime"] = held["lastTransitionTime"] if same else now
    return out


def _check(core: Core, call: Call, obj: Object, verb: str) -> None:
    """Raise 403 unless the user has the right on the signer, or on all signers of its domain."""
    signer = str(spec_of(obj).get("signerName") or "")
    for name in (signer, f"{signer.partition('/')[0]}/*"):
        attributes = Attributes(
            user=call.user.username,
            groups=call.user.groups,
            verb=verb,
            group=REQUESTS.group,
            resource="signers",
            name=name,
        )
        if core.authorizer.authorize(attributes)[0]:
            return
    why = f'user not permitted to {verb} requests with signerName "{signer}"'
    raise forbidden(REQUESTS.plural, REQUESTS.group, obj["metadata"].get("name", ""), why)
