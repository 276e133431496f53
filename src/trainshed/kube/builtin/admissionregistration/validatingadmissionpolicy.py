"""ValidatingAdmissionPolicies: what requests have to be, in CEL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import STATUS, Builtin, row
from trainshed.kube.builtin.parts.columns import UNSET, Columns, age, define
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.builtin.parts.webhooks import match_causes, match_defaults
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, objects, section, spec_of
from trainshed.kube.meta.resources import VALIDATINGADMISSIONPOLICIES
from trainshed.kube.schema.cel import syntax_error

_REASONS = ("Unauthorized", "Forbidden", "Invalid", "RequestEntityTooLarge")


def _defaults(obj: Object) -> None:
    spec = setdefault(obj, "spec", {})
    setdefault(spec, "failurePolicy", "Fail")
    match_defaults(spec.get("matchConstraints"))
    obj.setdefault("status", {})


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    if subresource == "status":
        return
    spec = spec_of(obj)
    if not objects(section(spec, "matchConstraints"), "resourceRules"):
        yield causes.required(
            "spec.matchConstraints.resourceRules" if spec.get("matchConstraints") else "spec.matchConstraints"
        )
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        text = "validations or auditAnnotations must contain at least one item"
        yield causes.required("spec.validations", text)
    yield from match_causes(section(spec, "matchConstraints"), "spec.matchConstraints")
    yield from causes.one_of(spec, "spec", "failurePolicy", ("Fail", "Ignore"))
    for field in ("validations", "variables", "matchConditions"):
        for index, item in enumerate(objects(spec, field)):
            at = f"spec.{field}[{index}]"
            expression = str(item.get("expression") or "")
            problem = syntax_error(expression) if expression.strip() else ""
            if not expression.strip():
                yield causes.required(f"{at}.expression", "expression is not specified")
            elif problem:
                yield causes.invalid(f"{at}.expression", expression, problem)
            if field == "validations":
                yield from causes.one_of(item, at, "reason", _REASONS)
            elif not item.get("name"):
                yield causes.required(f"{at}.name")


def _row(obj: Object, now: float) -> list[Any]:
    kind = section(spec_of(obj), "paramKind")
    shown = f"{kind.get('apiVersion')}/{kind.get('kind')}" if kind else UNSET
    return [name_of(obj), len(objects(spec_of(obj), "validations")), shown, age(obj, now)]


KIND = Builtin(
    info=row(
        VALIDATINGADMISSIONPOLICIES, categories=("api-extensions",), subresources=STATUS, generation=True
    ),
    does="evaluated for what their bindings choose: deny, warn; without `authorizer` and audit annotations",
    lacks="no `authorizer`, no audit annotations",
    defaults=_defaults,
    check=_check,
    columns=Columns(define("Name, Validations#, ParamKind, Age"), _row),
)
