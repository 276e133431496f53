"""APIServices: those that stand for what this server serves itself, and what their status says.

Source: `kube-aggregator/pkg/controllers/status/remote` and `autoregister`; the priorities are those of
`pkg/controlplane/apiserver/aggregator.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from trainshed.kube.meta.objects import Object, labels_of, objects, section, spec_of, status_of
from trainshed.kube.meta.resources import APISERVICES
from trainshed.kube.served.registry import CRD_PRIORITY, Registry

AUTOMANAGED = "kube-aggregator.kubernetes.io/automanaged"
REPLACEABLE = frozenset({"metrics.k8s.io"})
"""Built-in groups that another server may take over, as metrics-server does: no APIService stands for them."""
_PRIORITIES = {
    "": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
}
_VERSION_PRIORITIES = {("", "v1"): 1, ("autoscaling", "v2"): 30, ("authentication.k8s.io", "v1beta1"): 9}


class Availability(msgspec.Struct, frozen=True):
    """Whether an APIService can be asked."""

    holds: bool
    reason: str
    message: str


LOCAL = Availability(True, "Local", "Local APIServices are always available")
PASSED = Availability(True, "Passed", "all checks passed")


def name(group: str, version: str) -> str:
    """Return the name that the APIService of a group and version has to have."""
    return f"{version}.{group}"


def local(registry: Registry, now: str) -> dict[str, Object]:
    """Return the APIServices of what is served here, by name, without metadata that differs per object."""
    out: dict[str, Object] = {}
    builtin = set(registry.builtin_groups())
    for group in registry.groups():
        if group in REPLACEABLE or group == APISERVICES.group:
            continue  # upstream registers no APIService for its own group either
        for version in registry.versions(group):
            if registry.external(group, version) is not None:
                continue
            own = group in builtin
            spec = {
                "group": group,
                "groupPriorityMinimum": _PRIORITIES.get(group, 16000) if own else CRD_PRIORITY,
                "version": version,
                "versionPriority": _VERSION_PRIORITIES.get((group, version), 15) if own else 100,
            }
            if not group:
                del spec["group"]
            labels = {AUTOMANAGED: "onstart" if own else "true"}
            made = {
                "apiVersion": APISERVICES.api_version,
                "kind": APISERVICES.kind,
                "metadata": {"name": name(group, version), "labels": labels},
                "spec": spec,
                "status": {},
            }
            out[name(group, version)] = {**made, "status": with_condition(made, LOCAL, now)}
    return out


def is_automanaged(obj: Object) -> bool:
    """Return whether the server made an APIService by itself."""
    return AUTOMANAGED in (labels_of(obj) or {})


def with_condition(obj: Object, found: Availability, now: str) -> Object:
    """Return the status of an APIService with the condition Available."""
    status = status_of(obj)
    held = objects(status, "conditions")
    before = next((one for one in held if one.get("type") == "Available"), None)
    wanted = "True" if found.holds else "False"
    since = before.get("lastTransitionTime", now) if before and before.get("status") == wanted else now
    condition = {
        "lastTransitionTime": since,
        "message": found.message,
        "reason": found.reason,
        "status": wanted,
        "type": "Available",
    }
    return {**status, "conditions": [*(one for one in held if one.get("type") != "Available"), condition]}


def is_available(obj: Object) -> bool:
    """Return whether the status of an APIService says that it can be asked."""
    return any(
        one.get("type") == "Available" and one.get("status") == "True"
        for one in objects(status_of(obj), "conditions")
    )


def unreachable(obj: Object, service: Object | None, has_pod: bool) -> Availability | None:
    """Return why the Service of an APIService leads nowhere, None where there is a pod to ask."""
    reference = section(spec_of(obj), "service")
    wanted, namespace, port = reference.get("name"), reference.get("namespace"), reference.get("port", 443)
    what = f'service/{wanted} in "{namespace}"'
    if service is None:
        return Availability(False, "ServiceNotFound", f"{what} is not present")
    ports = objects(spec_of(service), "ports")
    found = next((one for one in ports if one.get("port") == port), None)
    if found is None:
        return Availability(False, "ServicePortError", f"{what} is not listening on port {port}")
    if not has_pod:
        text = f'endpoints for {what} have no addresses with port name "{found.get("name", "")}"'
        return Availability(False, "MissingEndpoints", text)
    return None


def resources_of(document: object) -> tuple[Object, ...] | None:
    """Return the entries of an APIResourceList, None where it is none."""
    entries = document.get("resources") if isinstance(document, Mapping) else None
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        return None
    return tuple(dict(entry) for entry in entries if isinstance(entry, Mapping) and _is_entry(entry))


def _is_entry(entry: Mapping[str, object]) -> bool:
    verbs = entry.get("verbs")
    texts = all(isinstance(entry.get(key), str) and entry[key] for key in ("name", "kind"))
    lists = (entry.get(key) for key in ("verbs", "shortNames", "categories"))
    return (
        texts
        and isinstance(verbs, list)
        and all(
            one is None or (isinstance(one, list) and all(isinstance(text, str) for text in one))
            for one in lists
        )
    )
