"""ValidatingAdmissionPolicyBindings: where a policy holds, with which parameters, and what a violation leads to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import UNSET, Columns, age, define
from trainshed.kube.builtin.parts.webhooks import match_defaults, match_resources_causes
from trainshed.kube.meta import causes, golang, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, section, spec_of
from trainshed.kube.meta.resources import VALIDATINGADMISSIONPOLICYBINDINGS
from trainshed.kube.schema.metadata import selector_causes

_ACTIONS = ("Audit", "Deny", "Warn")


def _defaults(obj: Object) -> None:
    match_defaults(spec_of(obj).get("matchResources"))


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = spec_of(obj)
    if not spec.get("policyName"):
        yield causes.required("spec.policyName")
    else:
        for why in names.dns_subdomain(spec["policyName"]):
            yield causes.invalid("spec.policyName", spec["policyName"], why)
    if spec.get("paramRef") is not None:
        yield from _reference(spec["paramRef"])
    yield from match_resources_causes(section(spec, "matchResources"), "spec.matchResources")
    actions = spec.get("validationActions") or []
    if not actions:
        yield causes.required("spec.validationActions", "at least one validation action is required")
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            yield causes.unsupported(f"spec.validationActions[{index}]", action, _ACTIONS)
    if "Deny" in actions and "Warn" in actions:
        text = "must not contain both Deny and Warn (repeating the same validation failure information in the API"
        shown = f"[]admissionregistration.ValidationAction{{{', '.join(map(golang.text, actions))}}}"
        yield causes.invalid_shown(
            "spec.validationActions", shown, f"{text} response and headers serves no purpose)"
        )


def _reference(reference: Object) -> Iterator[Cause]:
    yield from selector_causes(reference.get("selector"), "spec.paramRef.selector")
    for why in names.path_segment(reference.get("name") or ""):
        yield causes.invalid("spec.paramRef.name", reference["name"], why)
    named, selects = bool(reference.get("name")), reference.get("selector") is not None
    if named and selects:
        for field in ("name", "selector"):
            yield causes.forbidden(f"spec.paramRef.{field}", "name and selector are mutually exclusive")
    elif not named and not selects:
        yield causes.required("spec.paramRef", "one of name or selector must be specified")
    if not reference.get("parameterNotFoundAction"):
        yield causes.required("spec.paramRef.parameterNotFoundAction")
    yield from causes.one_of(reference, "spec.paramRef", "parameterNotFoundAction", ("Deny", "Allow"))


def _row(obj: Object, now: float) -> list[Any]:
    reference = section(spec_of(obj), "paramRef")
    where = f"{reference['namespace']}/" if reference.get("namespace") else "*/"
    shown = f"{where}{reference.get('name', '')}" if reference else UNSET
    return [name_of(obj), spec_of(obj).get("policyName", ""), shown, age(obj, now)]


KIND = Builtin(
    info=row(VALIDATINGADMISSIONPOLICYBINDINGS, categories=("api-extensions",), generation=True),
    does="says where a policy holds, with which parameters, and what a violation leads to",
    defaults=_defaults,
    check=_check,
    columns=Columns(define("Name, PolicyName, ParamRef, Age"), _row),
)
