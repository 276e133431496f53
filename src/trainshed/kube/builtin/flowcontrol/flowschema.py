"""FlowSchemas: which requests belong to which priority level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from trainshed.kube.builtin.kind import STATUS, Builtin, row
from trainshed.kube.builtin.parts import flowcontrol
from trainshed.kube.builtin.parts.columns import NONE, Columns, age, define
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.meta import causes, golang, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, objects, section, spec_of, status_of
from trainshed.kube.meta.resources import FLOWSCHEMAS

_LAST = 10000
_ANY = "*"
_METHODS = ("ByNamespace", "ByUser")
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_SUBJECTS = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}
_NAMESPACE = "each member of this list must be '*' or a DNS-1123 label; "


def _defaults(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    setdefault(spec, "matchingPrecedence", 1000)
    for rule in objects(spec, "rules"):
        for each in objects(rule, "resourceRules"):
            each["namespaces"] = each.get("namespaces") or None
    obj.setdefault("status", {})


def _check(obj: Object) -> Iterator[Cause]:
    """Yield what is wrong with a FlowSchema.

    Source of rules and texts: `pkg/apis/flowcontrol/validation/validation.go` of Kubernetes.
    """
    name, spec = name_of(obj), spec_of(obj)
    precedence, path = spec.get("matchingPrecedence") or 0, "spec.matchingPrecedence"
    if precedence <= 0:
        yield causes.invalid(path, precedence, "must be a positive value")
    if precedence > _LAST:
        yield causes.invalid(path, precedence, f"must not be greater than {_LAST}")
    if precedence == 1 and name != flowcontrol.EXEMPT:
        yield causes.invalid(path, 1, "only the schema named 'exempt' may have matchingPrecedence 1")
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in _METHODS:
        yield causes.unsupported("spec.distinguisherMethod.type", method, _METHODS)
    level, path = (
        section(spec, "priorityLevelConfiguration").get("name"),
        "spec.priorityLevelConfiguration.name",
    )
    if not level:
        yield causes.required(path, "must reference a priority level")
    else:
        for why in names.dns_subdomain(level):
            yield causes.invalid(path, level, why)
    for index, rule in enumerate(spec.get("rules") or ()):
        yield from _rule(rule, f"spec.rules[{index}]")
    yield from flowcontrol.changed_spec(name, spec, flowcontrol.FLOW_SCHEMAS)


def _rule(rule: Object, at: str) -> Iterator[Cause]:
    subjects = rule.get("subjects") or ()
    if not subjects:
        yield causes.required(f"{at}.subjects", "subjects must contain at least one value")
    for index, subject in enumerate(subjects):
        yield from _subject(subject, f"{at}.subjects[{index}]")
    resources, others = rule.get("resourceRules") or (), rule.get("nonResourceRules") or ()
    if not resources and not others:
        yield causes.required(at, "at least one of resourceRules and nonResourceRules has to be non-empty")
    for index, each in enumerate(resources):
        yield from _resource_rule(each, f"{at}.resourceRules[{index}]")
    for index, each in enumerate(others):
        yield from _path_rule(each, f"{at}.nonResourceRules[{index}]")


def _subject(subject: Object, at: str) -> Iterator[Cause]:
    kind = subject.get("kind") or ""
    field = _SUBJECTS.get(kind)
    if field is None:
        yield causes.unsupported(f"{at}.kind", kind, sorted(_SUBJECTS))
        return
    who = subject.get(field)
    if who is None:
        yield causes.required(f"{at}.{field}", f"{field} is required when subject kind is '{kind}'")
    else:
        name = who.get("name") or ""
        if not name:
            yield causes.required(f"{at}.{field}.name")
        elif field == "serviceAccount" and name != _ANY:
            for why in names.dns_subdomain(name):
                yield causes.invalid(f"{at}.{field}.name", name, why)
        if field == "serviceAccount":
            yield from _namespace(who.get("namespace") or "", f"{at}.{field}.namespace")
    for other_kind, other in _SUBJECTS.items():
        if other != field and subject.get(other) is not None:
            text = f"{other} is forbidden when subject kind is not '{other_kind}'"
            yield causes.forbidden(f"{at}.{other}", text)


def _namespace(namespace: str, path: str) -> Iterator[Cause]:
    if not namespace:
        yield causes.required(path, "must specify namespace for service account")
    else:
        for why in names.dns_label(namespace):
            yield causes.invalid(path, namespace, why)


def _verbs(rule: Object, at: str) -> Iterator[Cause]:
    verbs = rule.get("verbs") or []
    if not verbs:
        yield causes.required(f"{at}.verbs", "verbs must contain at least one value")
    elif _ANY in verbs:
        yield from _alone(verbs, f"{at}.verbs", "verbs")
    elif not set(verbs) <= set(_VERBS):
        yield causes.unsupported(f"{at}.verbs", verbs, _VERBS)


def _alone(values: Sequence[str], path: str, what: str) -> Iterator[Cause]:
    if len(values) > 1 and _ANY in values:
        text = f"if '*' is present, must not specify other {what}"
        yield causes.invalid_shown(path, golang.text_list(values), text)


def _resource_rule(rule: Object, at: str) -> Iterator[Cause]:
    yield from _verbs(rule, at)
    for field, one, more in (
        ("apiGroups", "api group", "api groups"),
        ("resources", "resource", "resources"),
    ):
        values = rule.get(field) or []
        if not values:
            yield causes.required(f"{at}.{field}", f"resource rules must supply at least one {one}")
        yield from _alone(values, f"{at}.{field}", more)
    namespaces = rule.get("namespaces") or []
    path = f"{at}.namespaces"
    if not namespaces and not rule.get("clusterScope"):
        text = "resource rules that are not cluster scoped must supply at least one namespace"
        yield causes.required(path, text)
    elif _ANY in namespaces:
        yield from _alone(namespaces, path, "namespaces")
    else:
        for index, namespace in enumerate(namespaces):
            for why in names.dns_label(namespace):
                yield causes.invalid(f"{path}[{index}]", namespace, f"{_NAMESPACE}{why}")


def _path_rule(rule: Object, at: str) -> Iterator[Cause]:
    yield from _verbs(rule, at)
    urls = rule.get("nonResourceURLs") or []
    path = f"{at}.nonResourceURLs"
    if not urls:
        yield causes.required(path, "nonResourceURLs must contain at least one value")
    elif _ANY in urls:
        yield from _alone(urls, path, "non-resource URLs")
    else:
        for index, url in enumerate(urls):
            if why := _url(url):
                yield causes.invalid(f"{path}[{index}]", url, why)


def _url(url: str) -> str:
    """Return what is wrong with a path of a rule; empty when nothing is."""
    wrong = {
        "must not be empty": not url,
        "must start with slash": not url.startswith("/"),
        "must not contain white-space": " " in url,
        "must not contain double slash": "//" in url,
        "wildcard can only do suffix matching": _ANY in url
        and (url.count(_ANY) > 1 or not url.endswith("/*")),
    }
    return next((why for why, found in wrong.items() if found), "")


def _row(obj: Object, now: float) -> list[Any]:
    spec = spec_of(obj)
    dangling = [c for c in status_of(obj).get("conditions") or () if c.get("type") == "Dangling"]
    return [
        name_of(obj),
        section(spec, "priorityLevelConfiguration").get("name", ""),
        spec.get("matchingPrecedence", 0),
        section(spec, "distinguisherMethod").get("type") or NONE,
        age(obj, now),
        dangling[0].get("status", "") if dangling else "?",
    ]


KIND = Builtin(
    info=row(FLOWSCHEMAS, subresources=STATUS, generation=True),
    inert=True,
    defaults=_defaults,
    check=flowcontrol.but_for_status(_check),
    columns=Columns(
        define("Name, PriorityLevel, MatchingPrecedence, DistinguisherMethod, Age, MissingPL"),
        _row,
        order=lambda schema: (spec_of(schema).get("matchingPrecedence", 0), name_of(schema)),
    ),
)
