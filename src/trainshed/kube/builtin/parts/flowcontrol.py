"""What Kubernetes has of priorities and fairness from the start, and what of it may not change.

Source: `pkg/apis/flowcontrol/bootstrap/default.go` of apiserver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, status_of

EXEMPT = "exempt"
CATCH_ALL = "catch-all"


def _limited(shares: int, lendable: int, response: Object) -> Object:
    return {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": shares,
            "limitResponse": response,
            "lendablePercent": lendable,
        },
    }


def _queue(queues: int, hand: int) -> Object:
    return {"type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50}}


PRIORITY_LEVELS: dict[str, Object] = {
    EXEMPT: {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    CATCH_ALL: _limited(5, 0, {"type": "Reject"}),
    "global-default": _limited(20, 50, _queue(128, 6)),
    "leader-election": _limited(10, 0, _queue(16, 4)),
    "node-high": _limited(40, 25, _queue(64, 6)),
    "system": _limited(30, 33, _queue(64, 6)),
    "workload-high": _limited(40, 50, _queue(128, 6)),
    "workload-low": _limited(100, 90, _queue(128, 6)),
}
"""Specs by name."""


def _groups(*names: str) -> list[Object]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


def _users(*names: str) -> list[Object]:
    return [{"kind": "User", "user": {"name": name}} for name in names]


def _accounts(*names: str) -> list[Object]:
    return [
        {"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": name}}
        for name in names
    ]


def _resources(verbs: list[str], group: str, *names: str, cluster: bool = False) -> Object:
    rule: Object = {"verbs": verbs, "apiGroups": [group], "resources": list(names)}
    return {**rule, "clusterScope": True, "namespaces": ["*"]} if cluster else {**rule, "namespaces": ["*"]}


def _paths(verb: str, *paths: str) -> Object:
    return {"verbs": [verb], "nonResourceURLs": list(paths)}


def _schema(
    level: str, precedence: int, by: str, subjects: list[Object], resources: list[Object], *paths: Object
) -> Object:
    rule: Object = {"subjects": subjects}
    if resources:
        rule["resourceRules"] = resources
    if paths:
        rule["nonResourceRules"] = list(paths)
    method = {"distinguisherMethod": {"type": by}} if by else {}
    return {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        **method,
        "rules": [rule],
    }


_ANYBODY = _groups("system:unauthenticated", "system:authenticated")
_MANAGER, _SCHEDULER = "system:kube-controller-manager", "system:kube-scheduler"
_ANY, _ANY_PATH = [_resources(["*"], "*", "*", cluster=True)], _paths("*", "*")
_TO_LEAD = ["get", "create", "update"]
_LEASES = _resources(_TO_LEAD, "coordination.k8s.io", "leases")
_OF_NODES = [
    _resources(["*"], "", "nodes", "nodes/status", cluster=True),
    _resources(["*"], "coordination.k8s.io", "leases"),
]
_BY_USER, _BY_NAMESPACE = "ByUser", "ByNamespace"

# fmt: off
FLOW_SCHEMAS: dict[str, Object] = {
    EXEMPT: _schema(EXEMPT, 1, "", _groups("system:masters"), _ANY, _ANY_PATH),
    "probes": _schema(EXEMPT, 2, "", _ANYBODY, [], _paths("get", "/healthz", "/readyz", "/livez")),
    "system-leader-election": _schema(
        "leader-election", 100, _BY_USER, [*_users(_MANAGER, _SCHEDULER), *_accounts("*")], [_LEASES]),
    "endpoint-controller": _schema(
        "workload-high", 150, _BY_USER,
        [*_users(_MANAGER), *_accounts("endpoint-controller", "endpointslicemirroring-controller")],
        [_resources(_TO_LEAD, "", "endpoints")]),
    "workload-leader-election": _schema(
        "leader-election", 200, _BY_USER, _accounts("*"),
        [_resources(_TO_LEAD, "", "endpoints", "configmaps"), _LEASES]),
    "system-node-high": _schema("node-high", 400, _BY_USER, _groups("system:nodes"), _OF_NODES),
    "system-nodes": _schema("system", 500, _BY_USER, _groups("system:nodes"), _ANY, _ANY_PATH),
    "kube-controller-manager": _schema("workload-high", 800, _BY_NAMESPACE, _users(_MANAGER), _ANY, _ANY_PATH),
    "kube-scheduler": _schema("workload-high", 800, _BY_NAMESPACE, _users(_SCHEDULER), _ANY, _ANY_PATH),
    "kube-system-service-accounts": _schema(
        "workload-high", 900, _BY_NAMESPACE, _accounts("*"), _ANY, _ANY_PATH),
    "service-accounts": _schema(
        "workload-low", 9000, _BY_USER, _groups("system:serviceaccounts"), _ANY, _ANY_PATH),
    "global-default": _schema("global-default", 9900, _BY_USER, _ANYBODY, _ANY, _ANY_PATH),
    CATCH_ALL: _schema(CATCH_ALL, 10000, _BY_USER, _ANYBODY, _ANY, _ANY_PATH),
}
# fmt: on
"""Specs by name."""


def changed_spec(name: str, spec: Object, fixed: Mapping[str, Object]) -> Iterator[Cause]:
    """Yield a cause where one of the two that every server needs has another spec than it must have."""
    if name in (EXEMPT, CATCH_ALL) and spec != fixed[name]:
        yield causes.invalid("spec", spec, f"spec of '{name}' must equal the fixed value")


def but_for_status(
    check: Callable[[Object], Iterator[Cause]],
) -> Callable[[Object, Object | None, str], Iterator[Cause]]:
    """Return a kind's check, where `check` yields what is wrong with all but a status."""

    def checked(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
        return _condition_causes(status_of(obj)) if subresource else check(obj)

    return checked


def _condition_causes(status: Object) -> Iterator[Cause]:
    """Yield what is wrong with the conditions of a status."""
    seen: set[str] = set()
    for index, condition in enumerate(status.get("conditions") or ()):
        kind = condition.get("type") or ""
        if kind in seen:
            yield causes.duplicate(f"status.conditions[{index}].type", kind)
        seen.add(kind)
