"""What roles share, and what bindings share.

Source of rules and texts: `pkg/apis/rbac/validation/validation.go` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.meta import causes, golang, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, section
from trainshed.kube.schema.metadata import selector_causes

_GROUP = "rbac.authorization.k8s.io"


def role_defaults(obj: Object) -> None:
    """Show that a role has no rules."""
    obj["rules"] = obj.get("rules") or None


def role_causes(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a Role or ClusterRole; of an update twice, as Kubernetes tells it."""
    found = list(_role(obj))
    yield from found
    if old is not None:
        yield from found


def _role(obj: Object) -> Iterator[Cause]:
    namespaced = obj.get("kind") != "ClusterRole"
    for index, rule in enumerate(obj.get("rules") or ()):
        at = f"rules[{index}]"
        if not rule.get("verbs"):
            yield causes.required(f"{at}.verbs", "verbs must contain at least one value")
        if rule.get("nonResourceURLs"):
            shown = golang.text_list(rule["nonResourceURLs"])
            if namespaced:
                text = "namespaced rules cannot apply to non-resource URLs"
                yield causes.invalid_shown(f"{at}.nonResourceURLs", shown, text)
            if any(rule.get(key) for key in ("apiGroups", "resources", "resourceNames")):
                text = "rules cannot apply to both regular resources and non-resource URLs"
                yield causes.invalid_shown(f"{at}.nonResourceURLs", shown, text)
            continue
        if not rule.get("apiGroups"):
            yield causes.required(f"{at}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield causes.required(f"{at}.resources", "resource rules must supply at least one resource")
    aggregation = obj.get("aggregationRule")
    if aggregation is not None:
        selectors = aggregation.get("clusterRoleSelectors") or ()
        if not selectors:
            text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            yield causes.required("aggregationRule.clusterRoleSelectors", text)
        for index, selector in enumerate(selectors):
            at = f"aggregationRule.clusterRoleSelectors[{index}]"
            wrong = list(selector_causes(selector, at))
            yield from wrong
            if wrong:
                yield causes.invalid(at, "null", "invalid label selector.")


def binding_defaults(obj: Object) -> None:
    """Fill in the API groups that a binding may leave out."""
    role = section(obj, "roleRef")
    if not role.get("apiGroup"):
        obj["roleRef"] = {**role, "apiGroup": "rbac.authorization.k8s.io"}
    for subject in obj.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = "rbac.authorization.k8s.io"


def binding_causes(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a RoleBinding or ClusterRoleBinding; of an update twice, as Kubernetes tells it."""
    found = list(_binding(obj))
    yield from found
    role = section(obj, "roleRef")
    if old is not None:
        yield from found
        if role != section(old, "roleRef"):
            fields = {"APIGroup": "apiGroup", "Kind": "kind", "Name": "name"}
            shown = ", ".join(f"{name}:{golang.text(role.get(field))}" for name, field in fields.items())
            yield causes.invalid_shown("roleRef", f"rbac.RoleRef{{{shown}}}", "cannot change roleRef")


def _binding(obj: Object) -> Iterator[Cause]:
    role = section(obj, "roleRef")
    kinds = ("ClusterRole",) if obj.get("kind") == "ClusterRoleBinding" else ("Role", "ClusterRole")
    if role.get("apiGroup") != _GROUP:
        yield causes.unsupported("roleRef.apiGroup", role.get("apiGroup") or "", (_GROUP,))
    if role.get("kind") not in kinds:
        yield causes.unsupported("roleRef.kind", role.get("kind") or "", kinds)
    if not role.get("name"):
        yield causes.required("roleRef.name")
    else:
        for why in names.path_segment(role["name"]):
            yield causes.invalid("roleRef.name", role["name"], why)
    namespaced = obj.get("kind") != "ClusterRoleBinding"
    for index, subject in enumerate(obj.get("subjects") or ()):
        yield from _subject(subject, f"subjects[{index}]", namespaced=namespaced)


def _subject(subject: Object, path: str, *, namespaced: bool) -> Iterator[Cause]:
    kind, name, group = subject.get("kind"), subject.get("name"), subject.get("apiGroup") or ""
    if not name:
        yield causes.required(f"{path}.name")
    if kind == "ServiceAccount":
        for why in names.dns_subdomain(name) if name else ():
            yield causes.invalid(f"{path}.name", name, why)
        if group:
            yield causes.unsupported(f"{path}.apiGroup", group, ("",))
        if not subject.get("namespace") and not namespaced:  # in a namespace that of the binding is meant
            yield causes.required(f"{path}.namespace")
    elif kind in ("User", "Group"):
        if group != _GROUP:
            yield causes.unsupported(f"{path}.apiGroup", group, (_GROUP,))
    else:
        yield causes.unsupported(f"{path}.kind", kind or "", ("ServiceAccount", "User", "Group"))


def _binding_row(obj: Object, now: float) -> list[Any]:
    role = section(obj, "roleRef")
    subjects: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in obj.get("subjects") or ():
        text = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount":
            text = f"{subject.get('namespace', '')}/{text}"
        subjects.setdefault(subject.get("kind", ""), []).append(text)
    columns = (", ".join(subjects[kind]) for kind in ("User", "Group", "ServiceAccount"))
    return [name_of(obj), f"{role.get('kind', '')}/{role.get('name', '')}", age(obj, now), *columns]


BINDINGS = Columns(define("Name, Role, Age, Users*, Groups*, ServiceAccounts*"), _binding_row)
