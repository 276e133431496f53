"""Sequences over every built-in kind: the columns of its table, and what a field selector may name."""

from __future__ import annotations

from tests.conformance.recorded.steps import NS, TABLE, Step, get
from trainshed.kube.builtin.registry import RESOURCES
from trainshed.kube.meta.resourceinfo import ResourceInfo

_ABSENT = ("metrics.k8s.io",)
"""Groups that a bare kube-apiserver does not serve."""
_COMPUTED = ("componentstatuses",)
"""What is asked of other servers at that moment."""
_FIELDS = (
    "metadata.namespace=x",
    "spec.nodeName=x",
    "status.phase=x",
    "type=x",
    "reason=x",
    "involvedObject.name=x",
    "spec.unschedulable=true",
    "status.successful=0",
    "status.replicas=0",
    "spec.signerName=x",
    "spec.clusterIP=x",
    "spec.serviceAccountName=x",
)
_SELECTED = ("pods", "events", "nodes", "jobs", "replicasets", "replicationcontrollers", "secrets")
_SELECTED_TOO = ("services", "namespaces", "certificatesigningrequests", "configmaps")


def _path(info: ResourceInfo) -> str:
    resource = info.resource
    group = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    within = f"/namespaces/{NS.rpartition('/')[2]}" if resource.namespaced else ""
    return f"{group}{within}/{resource.plural}"


_LISTED = [
    info
    for info in RESOURCES
    if "list" in info.verbs and info.resource.group not in _ABSENT and info.resource.plural not in _COMPUTED
]
KINDS: dict[str, list[Step]] = {
    "tables": [get(_path(info), TABLE, fieldSelector="metadata.name=nobody") for info in _LISTED],
    "unknown fields": [get(_path(info), fieldSelector="spec.nothing=x") for info in _LISTED],
    "known fields": [
        get(_path(info), fieldSelector=f"metadata.name=nobody,{field}")
        for info in _LISTED
        if info.resource.plural in (*_SELECTED, *_SELECTED_TOO) and info.resource.version == "v1"
        for field in _FIELDS
    ],
}
