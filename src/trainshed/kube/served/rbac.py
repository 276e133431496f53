"""Role-based access control: whether the rules bound to a user allow a request.

Pure evaluation of Role, ClusterRole and their bindings. `Policy` indexes them by subject once; a request then only
looks at the bindings that name its user or groups.

Source: the API reference's "Using RBAC Authorization" page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, metadata_of, section
from trainshed.kube.meta.selectors import LabelSelector
from trainshed.kube.policy.attributes import Attributes

MASTERS = "system:masters"
"""Group whose members may do everything, whatever roles exist: the way back in after a mistake."""

_ALL = "*"


class _Grant(msgspec.Struct, frozen=True):
    """A binding seen from a subject: `namespace` is empty when the grant holds everywhere."""

    namespace: str
    role: tuple[str, str]
    reason: str


def authorize(
    attributes: Attributes,
    *,
    roles: Iterable[Object] = (),
    role_bindings: Iterable[Object] = (),
    cluster_roles: Iterable[Object] = (),
    cluster_role_bindings: Iterable[Object] = (),
) -> tuple[bool, str]:
    """Return (allowed, why). Callers with many requests keep a `Policy` instead."""
    return Policy(roles, role_bindings, cluster_roles, cluster_role_bindings).authorize(attributes)


def allowed(rules: Iterable[Mapping[str, Any]], attributes: Attributes) -> bool:
    """Return whether any of the `rules` of a role allows the request."""
    return any(_rule_allows(rule, attributes) for rule in rules)


class Policy:
    """The roles and bindings of a cluster, ready to be asked. Build a new one when any of them changes."""

    def __init__(
        self,
        roles: Iterable[Object] = (),
        role_bindings: Iterable[Object] = (),
        cluster_roles: Iterable[Object] = (),
        cluster_role_bindings: Iterable[Object] = (),
    ) -> None:
        everywhere = list(cluster_roles)
        # (namespace, name) of a Role; ("", name) of a ClusterRole.
        self._rules: dict[tuple[str, str], list[Any]] = {
            (_meta(role, "namespace"), _meta(role, "name")): role.get("rules") or [] for role in roles
        }
        for role in everywhere:
            self._rules["", _meta(role, "name")] = aggregated_rules(role, everywhere)
        self._grants: dict[tuple[str, str], list[_Grant]] = {}
        for binding in cluster_role_bindings:
            self._add(binding, "ClusterRoleBinding", "")
        for binding in role_bindings:
            self._add(binding, "RoleBinding", _meta(binding, "namespace"))

    def authorize(self, attributes: Attributes) -> tuple[bool, str]:
        """Return (allowed, why); the reason is empty when no rule does."""
        if MASTERS in attributes.groups:
            return True, ""
        for grant in self._granted(attributes.user, attributes.groups):
            # A RoleBinding speaks for the resources of its own namespace only, never for paths.
            if grant.namespace and (grant.namespace != attributes.namespace or attributes.path):
                continue
            if allowed(self._rules.get(grant.role, ()), attributes):
                return True, f"RBAC: allowed by {grant.reason}"
        return False, ""

    def rules_for(self, user: str, groups: Sequence[str], namespace: str) -> Object:
        """Return the `status` of a SelfSubjectRulesReview: what the user may do in `namespace`."""
        resources: list[Object] = []
        paths: list[Object] = []
        if MASTERS in groups:
            resources.append({"verbs": [_ALL], "apiGroups": [_ALL], "resources": [_ALL]})
            paths.append({"verbs": [_ALL], "nonResourceURLs": [_ALL]})
        else:
            for grant in self._granted(user, groups):
                if grant.namespace and grant.namespace != namespace:
                    continue
                for rule in self._rules.get(grant.role, ()):
                    if rule.get("resources"):
                        resources.append(_only(rule, "verbs", "apiGroups", "resources", "resourceNames"))
                    if rule.get("nonResourceURLs") and not grant.namespace:
                        paths.append(_only(rule, "verbs", "nonResourceURLs"))
        return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}

    def role_rules(self, namespace: str, name: str) -> list[Any] | None:
        """Return the rules of a Role, or with an empty namespace of a ClusterRole; None when there is none."""
        return self._rules.get((namespace, name))

    def _granted(self, user: str, groups: Sequence[str]) -> Iterator[_Grant]:
        held = [*self._grants.get(("User", user), ())]
        for group in groups:
            held += self._grants.get(("Group", group), ())
        # Bindings of the cluster first; the sort keeps what is said of each in order.
        yield from sorted(held, key=lambda grant: bool(grant.namespace))

    def _add(self, binding: Object, kind: str, namespace: str) -> None:
        reference = section(binding, "roleRef")
        role_kind, role_name = reference.get("kind", ""), reference.get("name", "")
        role = (namespace if role_kind == "Role" else "", role_name)
        name = _meta(binding, "name")
        where = f'{name}/{namespace}"' if namespace else f'{name}"'
        for subject in binding.get("subjects") or ():
            found = _subject(subject, namespace)
            if found is None:
                continue
            to = f'{subject["kind"]} "{_printed(subject, namespace)}"'
            reason = f'{kind} "{where} of {role_kind} "{role_name}" to {to}'
            self._grants.setdefault(found, []).append(_Grant(namespace, role, reason))


def aggregated_rules(cluster_role: Object, all_cluster_roles: Iterable[Object]) -> list[Any]:
    """Return the rules of a ClusterRole; with an `aggregationRule`, those of all ClusterRoles that it selects.

    Aggregation goes over as many levels as roles aggregate each other (view → edit → admin).
    """
    if not cluster_role.get("aggregationRule"):
        return cluster_role.get("rules") or []
    everywhere = list(all_cluster_roles)
    rules: dict[bytes, Any] = {}
    seen: set[str] = set()
    pending = [cluster_role]
    while pending:
        role = pending.pop(0)
        if _meta(role, "name") in seen:
            continue
        seen.add(_meta(role, "name"))
        aggregation = role.get("aggregationRule")
        if not aggregation:
            # By their text: a role may have tens of thousands, too many to compare each with each.
            for rule in role.get("rules") or ():
                rules.setdefault(_text(rule), rule)
            continue
        for selector in aggregation.get("clusterRoleSelectors") or ():
            try:
                parsed = LabelSelector.from_object(selector)
            except ApiError:
                continue  # one malformed role must not lock everybody else out
            pending.extend(other for other in everywhere if parsed.matches(metadata_of(other).get("labels")))
    return list(rules.values())


def _text(rule: Any) -> bytes:
    return msgspec.json.encode(rule, order="deterministic")


def _rule_allows(rule: Mapping[str, Any], attributes: Attributes) -> bool:
    verbs = rule.get("verbs") or ()
    if attributes.verb not in verbs and _ALL not in verbs:
        return False
    if attributes.path:
        return any(_path_matches(pattern, attributes.path) for pattern in rule.get("nonResourceURLs") or ())
    groups = rule.get("apiGroups") or ()
    if attributes.group not in groups and _ALL not in groups:
        return False
    if not _resource_matches(rule.get("resources") or (), attributes.resource, attributes.subresource):
        return False
    names = rule.get("resourceNames")
    return not names or attributes.name in names


def _path_matches(pattern: str, path: str) -> bool:
    if pattern in (_ALL, path):
        return True
    return pattern.endswith(_ALL) and path.startswith(pattern[:-1])


def _resource_matches(patterns: Sequence[str], resource: str, subresource: str) -> bool:
    """`pods` does not speak for `pods/log`; `*` speaks for everything, `*/scale` for that subresource of all."""
    wanted = f"{resource}/{subresource}" if subresource else resource
    for pattern in patterns:
        if pattern in (_ALL, wanted):
            return True
        if subresource and pattern == f"*/{subresource}":
            return True
    return False


def _subject(subject: Mapping[str, Any], namespace: str) -> tuple[str, str] | None:
    name = subject.get("name", "")
    match subject.get("kind"):
        case "User" | "Group" as kind:
            return kind, name
        case "ServiceAccount":
            where = subject.get("namespace") or namespace
            return ("User", f"system:serviceaccount:{where}:{name}") if where else None
    return None


def _printed(subject: Mapping[str, Any], namespace: str) -> str:
    name = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        return f"{name}/{subject.get('namespace') or namespace}"
    return str(name)


def _only(rule: Mapping[str, Any], *fields: str) -> Object:
    return {field: rule[field] for field in fields if rule.get(field)}


def _meta(obj: Object, field: str) -> str:
    return str(metadata_of(obj).get(field, ""))
