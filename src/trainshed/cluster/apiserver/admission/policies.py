"""ValidatingAdmissionPolicy: requests are held to the CEL of policies, where their bindings say so."""

from __future__ import annotations

import msgspec

from trainshed.cluster.apiserver.admission.webhooks import in_version
from trainshed.cluster.apiserver.conversion import viewed, viewed_one
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.store import keys
from trainshed.kube.meta.errors import Cause, forbidden
from trainshed.kube.meta.objects import Object, section, spec_of
from trainshed.kube.meta.resources import (
    NAMESPACES,
    VALIDATINGADMISSIONPOLICIES,
    VALIDATINGADMISSIONPOLICYBINDINGS,
)
from trainshed.kube.meta.selectors import LabelSelector
from trainshed.kube.policy.admissionpolicies import CODES, Outcome, Violation, applies, outcome_of
from trainshed.kube.policy.webhooks import Admitted

_FAILURE = "validation.policy.admission.k8s.io/validation_failure"
"""What the audit log has of violations whose bindings say `Audit`."""
_BINDINGS = keys.under(VALIDATINGADMISSIONPOLICYBINDINGS)


def exist(core: Core) -> bool:
    """Return whether there are any bindings."""
    return bool(core.store.list(_BINDINGS)[0])


async def check(core: Core, call: Call, request: Admitted) -> None:
    """Raise `ApiError` as a policy denies the request; warn where it only warns."""
    said: dict[str, list[str]] = {}
    try:
        await _check(core, call, request, said)
    finally:
        for key, values in said.items():
            call.request.annotate(key, ", ".join(dict.fromkeys(values)))


async def _check(core: Core, call: Call, request: Admitted, said: dict[str, list[str]]) -> None:
    """Go through the bindings; what policies say for the audit log is put into `said`."""
    for stored in core.store.list(_BINDINGS)[0]:
        binding = stored.obj
        found = core.store.get(
            keys.of(VALIDATINGADMISSIONPOLICIES, None, spec_of(binding).get("policyName", ""))
        )
        version = None if found is None else applies(found.obj, binding, request)
        if found is None or version is None:
            continue
        shown = await in_version(core, call, request, version)
        broken: list[Violation] = []
        for outcome in await _outcomes(core, found.obj, binding, shown):
            broken += outcome.violations
            for key, value in outcome.annotations.items():
                said.setdefault(key, []).append(value)
        audited = [violation.record() for violation in broken if "Audit" in violation.actions]
        if audited:
            call.request.annotate(_FAILURE, msgspec.json.encode(audited).decode())
        for violation in broken:
            if "Warn" in violation.actions:
                call.request.warn(violation.warning())
            if "Deny" in violation.actions:
                raise _denied(call, request, violation)


def _denied(call: Call, request: Admitted, violation: Violation) -> Exception:
    resource = call.kind.resource
    text = violation.denial()
    error = forbidden(resource.plural, resource.group, request.name or "Unknown", text)
    error.code, error.reason = CODES.get(violation.reason, 422), violation.reason
    error.details["causes"] = [{"message": text}]
    error.causes = (Cause("", text),)
    return error


async def _outcomes(core: Core, policy: Object, binding: Object, request: Admitted) -> list[Outcome]:
    place = request.namespace if request.resource.namespaced else ""
    namespace = core.store.get(keys.of(NAMESPACES, None, place)) if place else None
    home = None if namespace is None else namespace.obj
    reference = section(spec_of(binding), "paramRef")
    if not section(spec_of(policy), "paramKind") or not reference:
        return [outcome_of(policy, binding, request, None, home)]
    found = await _params(core, section(spec_of(policy), "paramKind"), reference, place)
    if not found and reference.get("parameterNotFoundAction") != "Allow":
        actions = tuple(spec_of(binding).get("validationActions") or ())
        text = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        names = policy["metadata"]["name"], binding["metadata"]["name"]
        return [Outcome([Violation(*names, text, "Invalid", actions)])]
    return [outcome_of(policy, binding, request, params, home) for params in found]


async def _params(core: Core, kind: Object, reference: Object, namespace: str) -> list[Object]:
    """Return the parameters that a binding names: of its own namespace, or of the request's."""
    info = next(
        (
            info
            for info in core.kinds.registry
            if info.resource.api_version == kind.get("apiVersion") and info.resource.kind == kind.get("kind")
        ),
        None,
    )
    if info is None:
        return []
    served = core.kinds.of(info.resource)
    home = (reference.get("namespace") or namespace or None) if info.resource.namespaced else None
    if info.resource.namespaced and home is None:
        return []
    if reference.get("name"):
        stored = core.store.get(served.key(home, reference["name"]))
        return [] if stored is None else [served.view(await viewed_one(core, served, stored))]
    chosen = LabelSelector.from_object(section(reference, "selector"))
    items = await viewed(core, served, core.store.list(served.prefix(home))[0])
    return [served.view(stored) for stored in items if chosen.matches(stored.labels)]
