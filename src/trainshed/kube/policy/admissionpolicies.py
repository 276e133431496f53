"""ValidatingAdmissionPolicies: which of them a request concerns, and what is wrong with it. Pure.

Source: "Validating Admission Policy" in the Kubernetes documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from trainshed.kube.meta.objects import Object, name_of, objects, section, spec_of
from trainshed.kube.policy.webhooks import Admitted, conditions_hold, matching, selected, variables_of

CODES = {"Unauthorized": 401, "Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}


class Violation(msgspec.Struct, frozen=True):
    """What a policy has against a request."""

    policy: str
    binding: str
    message: str
    reason: str
    actions: tuple[str, ...]

    def denial(self) -> str:
        """Return the text of a refusal."""
        return f"ValidatingAdmissionPolicy '{self.policy}' with binding '{self.binding}' denied request: {self.message}"

    def record(self) -> Object:
        """Return the entry of an audit log."""
        return {
            "message": self.message,
            "policy": self.policy,
            "binding": self.binding,
            "validationActions": list(self.actions),
        }

    def warning(self) -> str:
        """Return the text of a warning."""
        who = f"ValidatingAdmissionPolicy '{self.policy}' with binding '{self.binding}'"
        return f"Validation failed for {who}: {self.message}"


def applies(policy: Object, binding: Object, asked: Admitted) -> str | None:
    """Return the version in which a binding brings its policy to bear on a request; None where it does not.

    Match conditions are another matter.
    """
    if asked.resource.group == "admissionregistration.k8s.io":
        return None
    version = _chosen(section(spec_of(policy), "matchConstraints"), asked)
    narrowed = section(spec_of(binding), "matchResources")
    if version is None or not narrowed:
        return version
    return None if _chosen(narrowed, asked) is None else version


def _chosen(match: Object, asked: Admitted) -> str | None:
    """Return the version in which a match chooses a request, its own where no rule says another; None: it does not."""
    policy = match.get("matchPolicy")

    def named(field: str) -> str | None:
        return matching([rule for rule in objects(match, field) if _names(rule, asked)], asked, policy)

    version = named("resourceRules") if match.get("resourceRules") else asked.resource.version
    if version is None or named("excludeResourceRules") is not None or not selected(match, asked):
        return None
    return version


def _names(rule: Object, asked: Admitted) -> bool:
    names = rule.get("resourceNames") or ()
    return not names or asked.name in names


class Outcome(msgspec.Struct, frozen=True):
    """What a policy that applies says of a request."""

    violations: Sequence[Violation] = ()
    annotations: Mapping[str, str] = {}
    """For the audit log, by `<policy>/<key>`."""


def outcome_of(
    policy: Object, binding: Object, asked: Admitted, params: Object | None, namespace: Object | None
) -> Outcome:
    """Return what a policy that applies says of the request."""
    spec, run = spec_of(policy), _Budget().run
    variables: dict[str, Any] = {
        **variables_of(asked),
        "params": params,
        "namespaceObject": namespace,
        "variables": {},
    }

    def violation(message: str, reason: object = "Invalid") -> Violation:
        actions = tuple(spec_of(binding).get("validationActions") or ())
        return Violation(name_of(policy), name_of(binding), message, str(reason or "Invalid"), actions)

    strict = spec.get("failurePolicy") != "Ignore"
    try:
        if not conditions_hold(objects(spec, "matchConditions"), variables):
            return Outcome()
    except ValueError as error:
        return Outcome([violation(str(error))] if strict else [])
    _define(objects(spec, "variables"), variables, run)
    out = []
    for rule in objects(spec, "validations"):
        expression = str(rule.get("expression", ""))
        try:
            if run(expression, variables) is not True:
                out.append(violation(_message(rule, variables, run), rule.get("reason")))
        except ValueError as error:
            if strict:
                out.append(violation(f"expression '{expression}' resulted in error: {error}"))
    annotations: dict[str, str] = {}
    for annotation in objects(spec, "auditAnnotations"):
        expression = str(annotation.get("valueExpression", ""))
        try:
            value = run(expression, variables)
        except ValueError as error:
            if strict:
                out.append(violation(f"expression '{expression}' resulted in error: {error}"))
            continue
        if isinstance(value, str) and value.strip():
            annotations[f"{name_of(policy)}/{annotation.get('key')}"] = value.strip()[:_LONGEST_ANNOTATION]
    return Outcome(out, annotations)


_LONGEST_ANNOTATION = 10 * 1024
Run: TypeAlias = Callable[[str, Mapping[str, Any]], Any]


class _Budget:
    """What the expressions of a policy may cost together for one request."""

    def __init__(self) -> None:
        from trainshed.kube.cel.program import BUDGET  # the language is loaded with the first expression

        self._left = BUDGET

    def run(self, expression: str, variables: Mapping[str, Any]) -> Any:
        """Return the value of an expression; ValueError says why there is none."""
        from trainshed.kube.cel.program import OUT_OF_BUDGET, compiled

        if self._left <= 0:
            raise ValueError(OUT_OF_BUDGET)
        value, cost = compiled(expression).run(variables)
        self._left -= cost
        if self._left < 0:
            raise ValueError(OUT_OF_BUDGET)
        return value


def _define(declared: Sequence[Object], variables: dict[str, Any], run: Run) -> None:
    """Compute the variables in order. One that has no value is missing: whoever names it fails, as upstream."""
    known: dict[str, Any] = variables["variables"]
    for variable in declared:
        try:
            known[str(variable.get("name"))] = run(str(variable.get("expression", "")), variables)
        except ValueError:
            continue


def _message(rule: Mapping[str, Any], variables: dict[str, Any], run: Run) -> str:
    if rule.get("messageExpression"):
        try:
            computed = run(str(rule["messageExpression"]), variables)
        except ValueError:
            computed = None
        if isinstance(computed, str) and computed.strip() and "\n" not in computed:
            return computed.strip()
    return str(rule.get("message") or f"failed expression: {str(rule.get('expression', '')).strip()}")
