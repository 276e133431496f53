"""ResourceQuotas: bounds of what a namespace may hold; admission charges them, a controller counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import STATUS, Builtin, row
from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.meta import causes, golang, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, objects, section, spec_of
from trainshed.kube.meta.quantity import parse
from trainshed.kube.meta.resources import RESOURCEQUOTAS


def _defaults(obj: Object) -> None:
    obj.setdefault("status", {})


_NAMES = frozenset(
    """cpu memory ephemeral-storage requests.cpu requests.memory requests.ephemeral-storage requests.storage
    limits.cpu limits.memory limits.ephemeral-storage pods services services.nodeports services.loadbalancers
    replicationcontrollers resourcequotas secrets configmaps persistentvolumeclaims""".split()  # noqa: SIM905
)
_COMPUTED = frozenset({"cpu", "memory", "ephemeral-storage"})
_WHOLE = (
    _NAMES
    - _COMPUTED
    - {f"{kind}.{name}" for kind in ("requests", "limits") for name in (*_COMPUTED, "storage")}
)
_SCOPES = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
)


def _in_scope(scope: str, name: str) -> bool:
    """Return whether a scope can narrow what is counted of a resource: pods always, amounts where pods have some."""
    amounts = name.removeprefix("requests.").removeprefix("limits.") in _COMPUTED
    return scope not in _SCOPES or name == "pods" or (amounts and scope != "BestEffort")


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = spec_of(obj)
    for name, amount in sorted(section(spec, "hard").items()):
        at = f"spec.hard[{name}]"
        for why in names.qualified_name(name):
            yield causes.invalid(at, name, why)
        bare = name.removeprefix("requests.").removeprefix("limits.")
        if "/" not in name and name not in _NAMES and not bare.startswith("hugepages-"):
            yield causes.invalid_shown(at, name, "must be a standard resource type or fully qualified")
            yield causes.invalid_shown(at, name, "must be a standard resource for quota")
        if parse(amount) < 0:
            yield causes.invalid(at, str(amount), causes.NON_NEGATIVE)
        if name in _WHOLE and parse(amount) % 1:
            yield causes.invalid_shown(at, golang.quantity(amount), "must be an integer")
    scopes = spec.get("scopes") or []
    shown = f"[]core.ResourceQuotaScope{{{', '.join(map(golang.text, scopes))}}}"
    for scope in scopes:
        if scope not in _SCOPES:
            yield causes.invalid_shown("spec.scopes", shown, "unsupported scope")
        for name in section(spec, "hard"):
            if name in _NAMES and not _in_scope(scope, name):
                yield causes.invalid_shown("spec.scopes", shown, "unsupported scope applied to resource")
    for one, other in (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")):
        if one in scopes and other in scopes:
            yield causes.invalid_shown("spec.scopes", shown, "conflicting scopes")
    rules = objects(section(spec, "scopeSelector"), "matchExpressions")
    for rule in rules:
        at = "spec.scopeSelector.matchExpressions"
        scope, operator = rule.get("scopeName"), rule.get("operator")
        if scope not in _SCOPES:
            yield causes.invalid(f"{at}.scopeName", scope, "unsupported scope")
        elif scope != "PriorityClass" and operator != "Exists":
            text = "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating,"
            text += " ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort,"
            text += " ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
            yield causes.invalid(f"{at}.operator", operator, text)
        if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            yield causes.invalid(f"{at}.operator", operator, "not a valid selector operator")
        elif operator in ("In", "NotIn") and not rule.get("values"):
            text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield causes.required(f"{at}.values", text)
        elif operator in ("Exists", "DoesNotExist") and rule.get("values"):
            text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield causes.invalid(f"{at}.values", rule["values"], text)
        for name in section(spec, "hard"):
            if scope in _SCOPES and name in _NAMES and not _in_scope(scope, name):
                yield causes.invalid_shown(at, _selector(rules), "unsupported scope applied to resource")
    if old is not None and set(scopes) != set(spec_of(old).get("scopes") or []):
        yield causes.invalid_shown("spec.scopes", shown, "field is immutable")


def _selector(rules: list[Object]) -> str:
    of = "core.ScopedResourceSelectorRequirement"
    shown = ", ".join(
        f"{of}{{ScopeName:{golang.text(rule.get('scopeName'))}, Operator:{golang.text(rule.get('operator'))},"
        f" Values:{golang.text_list(rule.get('values'))}}}"
        for rule in rules
    )
    return f"core.ScopeSelector{{MatchExpressions:[]{of}{{{shown}}}}}"


def _row(obj: Object, now: float) -> list[Any]:
    hard, used = section(obj, "status", "hard"), section(obj, "status", "used")
    requests: list[str] = []
    limits: list[str] = []
    for key in sorted(hard):
        text = f"{key}: {used.get(key, '0')}/{hard[key]}"
        (limits if key.startswith("limits.") else requests).append(text)
    return [name_of(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


KIND = Builtin(
    info=row(RESOURCEQUOTAS, "quota", subresources=STATUS),
    does="bounds what a namespace holds: counts, requests and limits, storage, scopes; refused with 403 beyond",
    defaults=_defaults,
    check=_check,
    columns=Columns(define("Name, Request, Limit, Age"), _row),
    viewed=("",),
    returns_deleted=True,
)
