"""What the expressions of a ValidatingAdmissionPolicy have against the kinds that it is about: warnings, no refusals.

Source: "Type checking" in the Kubernetes documentation of ValidatingAdmissionPolicies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trainshed.kube.cel.admission import CONDITION
from trainshed.kube.cel.check import check
from trainshed.kube.cel.types import DYN, Type
from trainshed.kube.meta.objects import Object, objects, section, spec_of

MOST_KINDS = 10
"""Kinds of a policy that are looked at."""


class KindType(NamedTuple):
    """A kind, and the type of its objects."""

    api_version: str
    kind: str
    type: Type

    def __str__(self) -> str:
        version = self.api_version if "/" in self.api_version else f"/{self.api_version}"
        return f"{version}, Kind={self.kind}"


def named_kinds(policy: Object) -> set[tuple[str, str, str]]:
    """Return the (group, version, plural) that a policy names; rules with wildcards or subresources name none."""
    found = set()
    for rule in objects(section(spec_of(policy), "matchConstraints"), "resourceRules"):
        parts = [list(map(str, rule.get(field) or ())) for field in ("apiGroups", "apiVersions", "resources")]
        if any("*" in name or (parts[2] is names and "/" in name) for names in parts for name in names):
            continue
        found |= {
            (group, version, plural) for group in parts[0] for version in parts[1] for plural in parts[2]
        }
    return found


def warnings(policy: Object, kinds: Sequence[KindType], params: Type | None) -> list[Object]:
    """Return the `expressionWarnings` of a policy's status."""
    out: list[Object] = []
    ordered = sorted(kinds, key=str)[:MOST_KINDS]
    for index, rule in enumerate(objects(spec_of(policy), "validations")):
        for field in ("expression", "messageExpression"):
            expression = str(rule.get(field) or "")
            said = [
                f"{each}: {wrong}\n"
                for each in ordered
                if (wrong := _wrong(expression, policy, each, params))
            ]
            if said:
                out.append({"fieldRef": f"spec.validations[{index}].{field}", "warning": "\n".join(said)})
    return out


def _wrong(expression: str, policy: Object, about: KindType, params: Type | None) -> str:
    """Return what is wrong with an expression about objects of a kind, empty when nothing is."""
    if not expression:
        return ""
    found: dict[str, Type] = {}
    seen: Mapping[str, Type] = {
        **CONDITION,
        "object": about.type,
        "oldObject": about.type,
        "variables": Type("object", fields=found),
        **({} if params is None else {"params": params}),
    }
    for variable in objects(spec_of(policy), "variables"):
        try:
            found[str(variable.get("name"))] = check(str(variable.get("expression", "")), seen).type
        except (ValueError, SyntaxError, RecursionError):
            found[str(variable.get("name"))] = DYN
    try:
        check(expression, seen)
    except SyntaxError:
        return ""  # validation says so
    except RecursionError:
        return ""
    except ValueError as error:
        return f"{error}\n"
    return ""
