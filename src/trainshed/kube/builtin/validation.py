"""Rules of built-in kinds: `validate_object` finds everything that is wrong with an object at once.

The rules of each family are in `kube.builtin.validation_*`; those of `metadata`, which custom resources share, are in
`kube.schema.metadata`. Objects arrive conformed (`kube.schema.decode`) and defaulted (`kube.builtin.defaults`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trainshed.kube.builtin.parts.pod.rules import pod_causes, template_causes
from trainshed.kube.builtin.validation_core import (
    config_map_causes,
    endpoint_slice_causes,
    event_causes,
    node_causes,
    secret_causes,
    service_causes,
)
from trainshed.kube.builtin.validation_rbac import binding_causes, role_causes
from trainshed.kube.builtin.validation_storage import claim_causes, storage_class_causes, volume_causes
from trainshed.kube.builtin.validation_workloads import (
    cron_job_causes,
    daemon_set_causes,
    deployment_causes,
    job_causes,
    replica_set_causes,
    replication_controller_causes,
    stateful_set_causes,
)
from trainshed.kube.meta import causes
from trainshed.kube.meta.causes import non_negative, one_of
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import Resource
from trainshed.kube.schema.metadata import validate_metadata

__all__ = ["validate_metadata", "validate_object"]

Check = Callable[[Object, Object | None, str], Iterator[Cause]]

_SYSTEM_PRIORITY = 1_000_000_000


def validate_object(
    resource: Resource, obj: Object, old: Object | None, *, subresource: str = ""
) -> list[Cause]:
    """Return all causes to refuse a built-in object; empty when it is valid.

    Args:
        old: the object before an update, None on create.
        subresource: through which path the write comes: `status`, `ephemeralcontainers`, `resize` or empty.
    """
    out = validate_metadata(resource, obj, old)
    check = _CHECKS.get((resource.group, resource.kind))
    if check is not None:
        out += check(obj, old, subresource)
    return out


def _pod_template(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    yield from template_causes(obj.get("template") or {}, "template")


def _lease(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = obj.get("spec") or {}
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield causes.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    yield from non_negative(spec, "spec", "leaseTransitions")
    if spec.get("holderIdentity") == "":
        yield causes.invalid("spec.holderIdentity", "", "must not be empty")


def _priority_class(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    name, value = (obj.get("metadata") or {}).get("name") or "", obj.get("value") or 0
    known = ("system-cluster-critical", "system-node-critical")
    if name.startswith("system-"):
        if name not in known:
            yield causes.forbidden(
                "metadata.name",
                "priority class names with 'system-' prefix are reserved for system use only. "
                f"error: {name} is not a known system priority class",
            )
    elif value > _SYSTEM_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {_SYSTEM_PRIORITY}"
        yield causes.forbidden("value", text)
    yield from one_of(obj, "", "preemptionPolicy", ("Never", "PreemptLowerPriority"))
    if old is not None:
        if value != (old.get("value") or 0):
            yield causes.forbidden("value", "may not be changed in an update.")
        if obj.get("preemptionPolicy") != old.get("preemptionPolicy"):
            yield causes.invalid("preemptionPolicy", obj.get("preemptionPolicy"), "field is immutable")


def _autoscaler(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    if subresource == "status":
        return
    spec = obj.get("spec") or {}
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 1:
        yield causes.invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        yield causes.invalid("spec.maxReplicas", most, "must be greater than 0")
    elif least is not None and most < least:
        text = "must be greater than or equal to `minReplicas`"
        yield causes.invalid("spec.maxReplicas", most, text)
    target = spec.get("scaleTargetRef") or {}
    for key in ("kind", "name"):
        if not target.get(key):
            yield causes.required(f"spec.scaleTargetRef.{key}")


def _disruption_budget(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = obj.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        text = "minAvailable and maxUnavailable cannot be both set"
        yield causes.invalid("spec", spec, text)


def _events_event(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    if old is None and not obj.get("eventTime"):
        yield causes.required("eventTime")


_RBAC = "rbac.authorization.k8s.io"
_CHECKS: dict[tuple[str, str], Check] = {
    ("", "ConfigMap"): config_map_causes,
    ("", "Event"): event_causes,
    ("", "Node"): node_causes,
    ("", "PersistentVolume"): volume_causes,
    ("", "PersistentVolumeClaim"): claim_causes,
    ("", "Pod"): pod_causes,
    ("", "PodTemplate"): _pod_template,
    ("", "ReplicationController"): replication_controller_causes,
    ("", "Secret"): secret_causes,
    ("", "Service"): service_causes,
    ("apps", "DaemonSet"): daemon_set_causes,
    ("apps", "Deployment"): deployment_causes,
    ("apps", "ReplicaSet"): replica_set_causes,
    ("apps", "StatefulSet"): stateful_set_causes,
    ("autoscaling", "HorizontalPodAutoscaler"): _autoscaler,
    ("batch", "CronJob"): cron_job_causes,
    ("batch", "Job"): job_causes,
    ("coordination.k8s.io", "Lease"): _lease,
    ("discovery.k8s.io", "EndpointSlice"): endpoint_slice_causes,
    ("events.k8s.io", "Event"): _events_event,
    ("policy", "PodDisruptionBudget"): _disruption_budget,
    (_RBAC, "ClusterRole"): role_causes,
    (_RBAC, "ClusterRoleBinding"): binding_causes,
    (_RBAC, "Role"): role_causes,
    (_RBAC, "RoleBinding"): binding_causes,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    ("storage.k8s.io", "StorageClass"): storage_class_causes,
}
