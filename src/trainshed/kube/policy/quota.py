"""ResourceQuotas: what an object counts for, which quotas it concerns, and whether they have room for it. Pure.

Source: "Resource Quotas" in the Kubernetes documentation; the ResourceQuota admission plug-in for words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from trainshed.kube.meta.amounts import Amounts, add, held_amounts, numbers, spelled
from trainshed.kube.meta.objects import Object, objects, section, spec_of, status_of
from trainshed.kube.meta.pods import is_finished
from trainshed.kube.meta.quantity import parse
from trainshed.kube.meta.times import time_or_none

_COUNTED_BY_NAME = frozenset(
    [
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
    ]
)
"""Resources of the core group that a quota may also name without `count/`."""
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_MUST_BE_SAID = frozenset(["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"])
"""What each container has to ask for where a quota counts it."""
_CLASS = ".storageclass.storage.k8s.io/"


def usage(group: str, plural: str, obj: Object, now: float) -> Amounts:
    """Return what an object counts for, by the names that quotas use. `now`: seconds since the epoch."""
    out: Amounts = {f"count/{plural}.{group}" if group else f"count/{plural}": Decimal(1)}
    if group:
        return out
    if plural == "pods":
        if _holds_nothing(obj, now):
            return out
        add(out, _pod(obj))
    elif plural == "persistentvolumeclaims":
        add(out, _claim(obj))
    elif plural == "services":
        add(out, _service(spec_of(obj)))
    if plural in _COUNTED_BY_NAME:
        out[plural] = Decimal(1)
    return out


def _holds_nothing(pod: Object, now: float) -> bool:
    """Return whether a pod is over, or should have been by now: a node that is gone must not hold a quota for ever."""
    metadata = section(pod, "metadata")
    ends = time_or_none(metadata.get("deletionTimestamp"))
    overdue = ends is not None and now > ends + int(metadata.get("deletionGracePeriodSeconds") or 0)
    return is_finished(pod) or overdue


def _pod(pod: Object) -> Amounts:
    out: Amounts = {}
    for name, amount in held_amounts(pod, "requests").items():
        out[f"requests.{name}"] = amount
        if name in _COMPUTE or name.startswith("hugepages-"):
            out[name] = amount
    for name, amount in held_amounts(pod, "limits").items():
        if name in _COMPUTE:
            out[f"limits.{name}"] = amount
    return out


def _claim(claim: Object) -> Amounts:
    spec = spec_of(claim)
    asked = section(spec, "resources", "requests").get("storage")
    amount = parse(asked) if asked is not None else Decimal(0)
    held = section(status_of(claim), "allocatedResources").get("storage")
    if held is not None:
        amount = max(amount, parse(held))
    out = {"requests.storage": amount}
    if spec.get("storageClassName"):
        prefix = f"{spec['storageClassName']}{_CLASS}"
        out |= {f"{prefix}requests.storage": amount, f"{prefix}persistentvolumeclaims": Decimal(1)}
    return out


def _service(spec: Object) -> Amounts:
    kind, ports = spec.get("type"), len(objects(spec, "ports"))
    if kind == "LoadBalancer":
        node_ports = sum(1 for port in objects(spec, "ports") if port.get("nodePort"))
        return {"services.loadbalancers": Decimal(1), "services.nodeports": Decimal(node_ports)}
    return {"services.nodeports": Decimal(ports)} if kind == "NodePort" else {}


def hard(quota: Object) -> Amounts:
    """Return the bounds of a quota."""
    return numbers(section(quota, "spec", "hard"))


def counted_kinds(quota: Object) -> set[tuple[str, str]]:
    """Return group and plural of everything that a quota counts."""
    out: set[tuple[str, str]] = set()
    for name in section(quota, "spec", "hard"):
        if name.startswith("count/"):
            plural, _, group = name.removeprefix("count/").partition(".")
            out.add((group, plural))
        elif name.endswith((f"{_CLASS}persistentvolumeclaims", "requests.storage")):
            out.add(("", "persistentvolumeclaims"))
        elif name.startswith("services"):
            out.add(("", "services"))
        elif name in _COUNTED_BY_NAME:
            out.add(("", name))
        else:
            out.add(("", "pods"))
    return out


def concerns(quota: Object, group: str, plural: str, obj: Object) -> bool:
    """Return whether a quota counts this object: it names something of it, and its scopes select it."""
    if (group, plural) not in counted_kinds(quota):
        return False
    spec = spec_of(quota)
    wanted: list[Object] = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    wanted += objects(section(spec, "scopeSelector"), "matchExpressions")
    if not wanted:
        return True
    return plural == "pods" and not group and all(_in_scope(obj, rule) for rule in wanted)


def _in_scope(pod: Object, rule: Object) -> bool:
    spec = spec_of(pod)
    match rule.get("scopeName"):
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return spec.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return status_of(pod).get("qosClass") == "BestEffort"
        case "NotBestEffort":
            return status_of(pod).get("qosClass") != "BestEffort"
        case "PriorityClass":
            return _matches(spec.get("priorityClassName") or "", rule)
        case "CrossNamespacePodAffinity":
            return _crosses_namespaces(spec)
    return False


def _matches(value: str, rule: Object) -> bool:
    match rule.get("operator"):
        case "In":
            return value in (rule.get("values") or ())
        case "NotIn":
            return value not in (rule.get("values") or ())
        case "Exists":
            return bool(value)
        case "DoesNotExist":
            return not value
    return False


def _crosses_namespaces(spec: Object) -> bool:
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = section(spec, "affinity", kind)
        terms = list(objects(affinity, "requiredDuringSchedulingIgnoredDuringExecution"))
        preferred = objects(affinity, "preferredDuringSchedulingIgnoredDuringExecution")
        terms += [section(term, "podAffinityTerm") for term in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


def unsaid(quota: Object, pod: Object) -> str:
    """Return what the containers of a pod have to ask for and do not, empty when nothing: `limits.cpu for: main`."""
    wanted = sorted(_MUST_BE_SAID & section(quota, "spec", "hard").keys())
    lacking = []
    for name in wanted:
        part, _, resource = name.rpartition(".")
        names = {
            str(container.get("name", ""))
            for field in ("containers", "initContainers")
            for container in objects(spec_of(pod), field)
            if resource not in section(container, "resources", part or "requests")
        }
        if names:
            lacking.append(f"{name} for: {','.join(sorted(names))}")
    return "; ".join(lacking)


def exceeded(quota: Object, used: Mapping[str, Decimal], more: Mapping[str, Decimal]) -> str:
    """Return how `more` beside `used` exceeds a quota, empty when it fits: `exceeded quota: q, requested: pods=1, …`.

    Only what grows is looked at, so that an object can always be made smaller.
    """
    bounds = hard(quota)
    over = sorted(
        name
        for name, amount in more.items()
        if name in bounds and amount > 0 and used.get(name, Decimal(0)) + amount > bounds[name]
    )
    if not over:
        return ""

    def listed(amounts: Mapping[str, Any]) -> str:
        return ",".join(f"{name}={spelled(name, amounts.get(name, Decimal(0)))}" for name in over)

    name = quota["metadata"]["name"]
    return (
        f"exceeded quota: {name}, requested: {listed(more)}, used: {listed(used)}, limited: {listed(bounds)}"
    )


def grown(new: Mapping[str, Decimal], old: Mapping[str, Decimal]) -> Amounts:
    """Return by how much each amount of `new` differs from that of `old`; what stays is left out."""
    both = {name: new.get(name, Decimal(0)) - old.get(name, Decimal(0)) for name in new.keys() | old.keys()}
    return {name: amount for name, amount in both.items() if amount}


def status(quota: Object, used: Mapping[str, Decimal]) -> Object:
    """Return the status of a quota of which so much is used."""
    bounds = section(quota, "spec", "hard")
    return {
        "hard": dict(bounds),
        "used": {name: spelled(name, used.get(name, Decimal(0))) for name in sorted(bounds)},
    }


def known_usage(quota: Object) -> Amounts | None:
    """Return what the status says is used; None where it does not say so of everything that the spec bounds."""
    told = status_of(quota)
    bounds = section(quota, "spec", "hard")
    if section(told, "hard") != bounds or section(told, "used").keys() != bounds.keys():
        return None
    return numbers(section(told, "used"))


def total(quota: Object, held: Iterable[tuple[str, str, Object]], now: float) -> Amounts:
    """Return what objects, given with group and plural, use of a quota together."""
    out: Amounts = {}
    for group, plural, obj in held:
        if concerns(quota, group, plural, obj):
            add(out, usage(group, plural, obj, now))
    bounds = section(quota, "spec", "hard")
    return {name: amount for name, amount in out.items() if name in bounds}
