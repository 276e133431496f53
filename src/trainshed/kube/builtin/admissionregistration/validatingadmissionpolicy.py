"""ValidatingAdmissionPolicies: what requests have to be, in CEL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from trainshed.kube.builtin.kind import STATUS, Builtin, row
from trainshed.kube.builtin.parts.columns import UNSET, Columns, age, define
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.builtin.parts.webhookrules import condition_list_causes
from trainshed.kube.builtin.parts.webhooks import choice_causes, match_defaults, match_resources_causes
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.names import dns_1035_label, dns_subdomain, qualified_name
from trainshed.kube.meta.objects import Object, name_of, objects, section, spec_of
from trainshed.kube.meta.resources import VALIDATINGADMISSIONPOLICIES

if TYPE_CHECKING:
    from trainshed.kube.cel.types import Type

_MOST_ANNOTATIONS = 20
_LONGEST_VALUE = 5 * 1024
_IDENTIFIER = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_LINE_BREAK = re.compile(r"[\n\r]")
_REASONS = ("Unauthorized", "Forbidden", "Invalid", "RequestEntityTooLarge")


def _defaults(obj: Object) -> None:
    spec = setdefault(obj, "spec", {})
    spec.setdefault("failurePolicy", "Fail")
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
        yield causes.required("spec.auditAnnotations", text)
    match = section(spec, "matchConstraints")
    yield from match_resources_causes(match, "spec.matchConstraints")
    yield from choice_causes(spec, "spec", "failurePolicy", ("Fail", "Ignore"))
    if spec.get("paramKind") is not None:
        yield from _param_kind(spec["paramKind"])
    yield from _expressions(obj, spec)


def _param_kind(given: Object) -> Iterator[Cause]:
    version, kind = given.get("apiVersion") or "", given.get("kind") or ""
    at = "spec.paramKind.apiVersion"
    if not version:
        yield causes.required(at)
    elif version.count("/") > 1:
        yield causes.invalid(at, version, f"unexpected GroupVersion string: {version}")
    else:
        group, _, last = version.rpartition("/") if version != "/" else ("", "", "")
        if group and (why := dns_subdomain(group)):
            yield causes.invalid(at, group, ",".join(why))
        if not last:
            yield causes.invalid(at, version, "version must be specified")
        elif why := dns_1035_label(last):
            yield causes.invalid(at, last, ",".join(why))
    if not kind:
        yield causes.required("spec.paramKind.kind")
    elif why := dns_1035_label(kind.lower()):
        text = f"may have mixed case, but should otherwise match: {','.join(why)}"
        yield causes.invalid("spec.paramKind.kind", kind, text)


def _expressions(obj: Object, spec: Object) -> Iterator[Cause]:
    from trainshed.kube.cel.admission import CONDITION  # the language is loaded with the first expression
    from trainshed.kube.cel.types import DYN, Type

    params = {"params": DYN} if spec.get("paramKind") is not None else {}
    yield from condition_list_causes(spec, "spec.matchConditions", {**CONDITION, **params})
    found: dict[str, Type] = {}
    composed = {"variables": Type("object", fields=found)} if spec.get("variables") else {}
    variables = {**CONDITION, **params, **composed}
    yield from _variables(spec, variables, found)
    for index, rule in enumerate(objects(spec, "validations")):
        yield from _validation(rule, f"spec.validations[{index}]", variables)
    yield from _annotations(obj, variables)


def _variables(spec: Object, variables: Mapping[str, Type], found: dict[str, Type]) -> Iterator[Cause]:
    """Yield what is wrong with variables, each of which sees those before it; put their types into `found`."""
    from trainshed.kube.cel.admission import expression_type

    for index, variable in enumerate(objects(spec, "variables")):
        at, name = f"spec.variables[{index}]", str(variable.get("name") or "")
        if not name.strip():
            yield causes.required(f"{at}.name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(name):
            yield causes.invalid(f"{at}.name", name, "name is not a valid CEL identifier")
        expression = str(variable.get("expression") or "")
        if not expression.strip():
            yield causes.required(f"{at}.expression", "expression is not specified")
            continue
        wrong, found[name] = expression_type(expression, f"{at}.expression", variables)
        yield from wrong


def _validation(rule: Object, at: str, variables: Mapping[str, Type]) -> Iterator[Cause]:
    from trainshed.kube.cel.admission import condition_causes, expression_type

    yield from condition_causes(rule.get("expression"), f"{at}.expression", variables)
    if rule.get("reason") and rule["reason"] not in _REASONS:
        yield causes.unsupported(f"{at}.reason", rule["reason"], _REASONS[1:])
    message, expression = rule.get("message") or "", rule.get("messageExpression") or ""
    if message and not message.strip():
        yield causes.invalid(f"{at}.message", message, "message must be non-empty if specified")
    elif _LINE_BREAK.search(message.strip()):
        yield causes.invalid(f"{at}.message", message, "message must not contain line breaks")
    if expression and not expression.strip():
        yield causes.invalid(f"{at}.messageExpression", expression, "must be non-empty if specified")
    elif expression:
        seen = {name: kind for name, kind in variables.items() if name != "authorizer"}
        yield from expression_type(expression, f"{at}.messageExpression", seen, ("string",))[0]


def _annotations(obj: Object, variables: Mapping[str, Type]) -> Iterator[Cause]:
    from trainshed.kube.cel.admission import expression_type

    keys: set[str] = set()
    annotations = objects(spec_of(obj), "auditAnnotations")
    if len(annotations) > _MOST_ANNOTATIONS:
        text = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
        yield causes.invalid("spec.auditAnnotations", annotations, text)
    for index, annotation in enumerate(annotations):
        at, key = f"spec.auditAnnotations[{index}]", str(annotation.get("key") or "")
        for why in qualified_name(f"{name_of(obj)}/{key}"):
            yield causes.invalid(f"{at}.key", f"{name_of(obj)}/{key}", why)
        if key in keys:
            yield causes.duplicate(f"{at}.key", key)
        keys.add(key)
        expression = str(annotation.get("valueExpression") or "").strip()
        if not expression:
            yield causes.required(f"{at}.valueExpression", "valueExpression is not specified")
        elif len(expression) > _LONGEST_VALUE:
            yield causes.required(
                f"{at}.valueExpression", f"must not exceed {_LONGEST_VALUE} bytes in length"
            )
        else:
            wanted = ("string", "null_type")
            yield from expression_type(expression, f"{at}.valueExpression", variables, wanted)[0]


def _row(obj: Object, now: float) -> list[Any]:
    kind = section(spec_of(obj), "paramKind")
    shown = f"{kind.get('apiVersion')}/{kind.get('kind')}" if kind else UNSET
    return [name_of(obj), len(objects(spec_of(obj), "validations")), shown, age(obj, now)]


KIND = Builtin(
    info=row(
        VALIDATINGADMISSIONPOLICIES, categories=("api-extensions",), subresources=STATUS, generation=True
    ),
    does="evaluated for what their bindings choose: deny, warn, audit; checked against the schemas of kinds",
    defaults=_defaults,
    check=_check,
    columns=Columns(define("Name, Validations#, ParamKind, Age"), _row),
)
