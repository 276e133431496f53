"""Defaults of built-in kinds: what the server adds to an object that says less.

Only defaults that follow from the object itself. Cluster state (default storage class, allocated addresses,
priorities of priority classes) is filled in by the API server's admission; for pods the part of it that needs no
lookup is `admit_pod`.

Source: `zz_generated.defaults.go` and `defaults.go` of the API groups of Kubernetes.
Defaulting is idempotent: a defaulted object stays as it is.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from trainshed.kube.builtin.defaults_workloads import (
    cron_job_defaults,
    daemon_set_defaults,
    deployment_defaults,
    job_defaults,
    replica_set_defaults,
    replication_controller_defaults,
    stateful_set_defaults,
)
from trainshed.kube.builtin.parts.pod.defaults import pod_spec_defaults, setdefault
from trainshed.kube.meta.objects import Object, copy_tree
from trainshed.kube.meta.quantity import parse
from trainshed.kube.meta.resources import Resource

__all__ = ["admit_pod", "default_object", "job_identity", "qos_class"]

MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where pods find the token of their service account."""

_UNREACHABLE_SECONDS = 300
_EVICTING_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def default_object(resource: Resource, obj: Object) -> Object:
    """Return `obj` with the defaults of its kind; the input is not changed. Unknown kinds are returned as is."""
    fill = _DEFAULTS.get((resource.group, resource.kind))
    if fill is _autoscaler and resource.version == "v1":
        fill = _autoscaler_v1  # the only kind whose versions differ in what is filled in
    if fill is None:
        return obj
    out: Object = copy_tree(obj)
    fill(out)
    return out


# --------------------------------------------------------------------------------------------------- pods


def _pod(obj: Object) -> None:
    pod_spec_defaults(setdefault(obj, "spec", {}))


def admit_pod(pod: Object, *, token_volume_suffix: str) -> Object:
    """Return a live pod as the admission of upstream leaves it: service account, token, tolerations, status.

    Args:
        pod: defaulted pod; it is not changed. Templates never pass here.
        token_volume_suffix: five random characters; the volume is `kube-api-access-<suffix>`.

    Expected flow: conform, default, `admit_pod`, validate. The caller has checked that the service account
    exists and clears `automountServiceAccountToken` questions that need it: a pod-level false is honoured here.
    """
    out: Object = copy_tree(pod)
    spec = out["spec"]
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = account
    if spec.get("automountServiceAccountToken") is not False:
        _mount_token(spec, f"kube-api-access-{token_volume_suffix}")
    tolerations = spec.setdefault("tolerations", [])
    for key in _EVICTING_TAINTS:
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _UNREACHABLE_SECONDS,
                }
            )
    if not spec.get("priorityClassName"):
        spec.setdefault("priority", 0)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    status = out.setdefault("status", {})
    status.setdefault("phase", "Pending")
    status["qosClass"] = qos_class(spec)
    return out


def _tolerates(toleration: Object, key: str) -> bool:
    held = toleration.get("key")
    return (held in (None, "", key)) and toleration.get("effect") in (None, "", "NoExecute")


def _mount_token(spec: Object, volume: str) -> None:
    wanting = [
        container
        for field in ("initContainers", "containers")
        for container in spec.get(field) or ()
        if all(mount.get("mountPath") != MOUNT_PATH for mount in container.get("volumeMounts") or ())
    ]
    if not wanting:
        return
    sources: list[Object] = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {
            "downwardAPI": {
                "items": [
                    {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                ]
            }
        },
    ]
    spec.setdefault("volumes", []).append(
        {"name": volume, "projected": {"sources": sources, "defaultMode": 420}}
    )
    for container in wanting:
        container.setdefault("volumeMounts", []).append(
            {"name": volume, "readOnly": True, "mountPath": MOUNT_PATH}
        )


def qos_class(spec: Mapping[str, Any]) -> str:
    """Return `Guaranteed`, `Burstable` or `BestEffort` from the CPU and memory of all containers."""
    guaranteed, anything = True, False
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or ():
            resources = container.get("resources") or {}
            limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
            for name in ("cpu", "memory"):
                limit, request = limits.get(name), requests.get(name, limits.get(name))
                bound, floor = _amount(limit), _amount(request)
                anything = anything or bound > 0 or floor > 0
                guaranteed = guaranteed and bound > 0 and bound == floor
    if not anything:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _amount(amount: Any) -> Decimal:
    try:
        return Decimal(0) if amount is None else parse(amount)
    except ValueError:
        return Decimal(0)


# ----------------------------------------------------------------------------------------------- services


def _service(obj: Object) -> None:
    spec = setdefault(obj, "spec", {})
    kind = setdefault(spec, "type", "ClusterIP")
    setdefault(spec, "sessionAffinity", "None")
    if spec["sessionAffinity"] == "ClientIP":
        affinity = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        affinity.setdefault("timeoutSeconds", 10800)
    for port in spec.get("ports") or ():
        setdefault(port, "protocol", "TCP")
        if port.get("targetPort") in (None, 0, "") and "port" in port:
            port["targetPort"] = port["port"]
    if kind != "ExternalName":
        setdefault(spec, "internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        # `None` needs no allocation, so the headless pair is completed here; the rest is the allocator's.
        if spec.get("clusterIP"):
            spec.setdefault("clusterIPs", [spec["clusterIP"]])
        elif spec.get("clusterIPs"):
            spec["clusterIP"] = spec["clusterIPs"][0]
    if kind in ("NodePort", "LoadBalancer"):
        setdefault(spec, "externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    obj.setdefault("status", {}).setdefault("loadBalancer", {})


# ------------------------------------------------------------------------------------------------ storage


def claim_defaults(obj: Object) -> None:
    """Fill in a PersistentVolumeClaim, or a claim template of a StatefulSet."""
    spec = setdefault(obj, "spec", {})
    setdefault(spec, "volumeMode", "Filesystem")
    resources = spec.setdefault("resources", {})
    for name, amount in (resources.get("limits") or {}).items():
        resources.setdefault("requests", {}).setdefault(name, amount)
    setdefault(obj.setdefault("status", {}), "phase", "Pending")


def _claim(obj: Object) -> None:
    claim_defaults(obj)
    _keep(obj, "kubernetes.io/pvc-protection")


def _volume(obj: Object) -> None:
    spec = setdefault(obj, "spec", {})
    setdefault(spec, "persistentVolumeReclaimPolicy", "Retain")
    setdefault(spec, "volumeMode", "Filesystem")
    if spec.get("hostPath") is not None:
        spec["hostPath"].setdefault("type", "")
    if spec.get("claimRef") is not None:
        setdefault(spec["claimRef"], "kind", "PersistentVolumeClaim")
        setdefault(spec["claimRef"], "apiVersion", "v1")
    setdefault(obj.setdefault("status", {}), "phase", "Pending")
    _keep(obj, "kubernetes.io/pv-protection")


def _keep(obj: Object, finalizer: str) -> None:
    """Add a protection finalizer, but never to an object that is on its way out."""
    meta = obj.setdefault("metadata", {})
    if meta.get("deletionTimestamp"):
        return
    finalizers = meta.setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)


def _storage_class(obj: Object) -> None:
    setdefault(obj, "reclaimPolicy", "Delete")
    setdefault(obj, "volumeBindingMode", "Immediate")


# -------------------------------------------------------------------------------------------- small kinds


def _secret(obj: Object) -> None:
    setdefault(obj, "type", "Opaque")
    text = obj.pop("stringData", None)
    if text:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in text.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def _namespace(obj: Object) -> None:
    meta = obj.setdefault("metadata", {})
    if meta.get("name"):
        meta.setdefault("labels", {})["kubernetes.io/metadata.name"] = meta["name"]
    if not meta.get("deletionTimestamp"):
        setdefault(setdefault(obj, "spec", {}), "finalizers", ["kubernetes"])
    setdefault(obj.setdefault("status", {}), "phase", "Active")


def _binding(obj: Object) -> None:
    role = obj.get("roleRef") or {}
    if role and not role.get("apiGroup"):
        role["apiGroup"] = "rbac.authorization.k8s.io"
    for subject in obj.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = "rbac.authorization.k8s.io"


def _autoscaler_v1(obj: Object) -> None:
    setdefault(obj, "spec", {}).setdefault("minReplicas", 1)
    status = obj.setdefault("status", {})
    status.setdefault("currentReplicas", 0)
    status.setdefault("desiredReplicas", 0)


def _autoscaler(obj: Object) -> None:
    _autoscaler_v1(obj)
    spec = obj["spec"]
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def _priority_class(obj: Object) -> None:
    obj.setdefault("value", 0)
    setdefault(obj, "preemptionPolicy", "PreemptLowerPriority")


def _network_policy(obj: Object) -> None:
    spec = setdefault(obj, "spec", {})
    spec.setdefault("podSelector", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                setdefault(port, "protocol", "TCP")


def _endpoints(obj: Object) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            setdefault(port, "protocol", "TCP")


def _endpoint_slice(obj: Object) -> None:
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        setdefault(port, "protocol", "TCP")


def _budget(obj: Object) -> None:
    status = obj.setdefault("status", {})
    for count in ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"):
        status.setdefault(count, 0)


def _limit_range(obj: Object) -> None:
    for limit in (obj.get("spec") or {}).get("limits") or ():
        if limit.get("type") != "Container":
            continue
        default = limit.setdefault("default", {})
        for name, amount in (limit.get("max") or {}).items():
            default.setdefault(name, amount)
        request = limit.setdefault("defaultRequest", {})
        for name, amount in {**(limit.get("min") or {}), **default}.items():
            request.setdefault(name, amount)


def _resource_quota(obj: Object) -> None:
    obj.setdefault("status", {})


def _pod_template(obj: Object) -> None:
    pod_spec_defaults(setdefault(setdefault(obj, "template", {}), "spec", {}))


def _crd(obj: Object) -> None:
    from trainshed.kube.schema.crd import crd_defaults

    crd_defaults(obj)


def _webhooks(obj: Object) -> None:
    for hook in obj.get("webhooks") or ():
        for key, value in (("failurePolicy", "Fail"), ("matchPolicy", "Equivalent"), ("timeoutSeconds", 10)):
            setdefault(hook, key, value)
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        for rule in hook.get("rules") or ():
            setdefault(rule, "scope", "*")
        service = (hook.get("clientConfig") or {}).get("service")
        if service is not None:
            setdefault(service, "port", 443)
        if obj.get("kind") == "MutatingWebhookConfiguration":
            setdefault(hook, "reinvocationPolicy", "Never")


def job_identity(job: Object) -> Object:
    """Return a new Job with its generated selector and labels; `metadata.uid` and `name` are set already.

    With `manualSelector: true` the selector is the user's and nothing is added.
    """
    spec = job.get("spec") or {}
    if spec.get("manualSelector"):
        return job
    out: Object = copy_tree(job)
    meta, spec = out["metadata"], out["spec"]
    uid, name = meta["uid"], meta["name"]
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    template_meta = setdefault(spec.setdefault("template", {}), "metadata", {})
    template_meta["labels"] = {**(template_meta.get("labels") or {}), **labels}
    if not spec.get("selector"):
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    if not meta.get("labels"):  # as upstream: a job without labels of its own takes the template's
        meta["labels"] = dict(template_meta["labels"])
    return out


_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_DEFAULTS: dict[tuple[str, str], Callable[[Object], None]] = {
    ("", "Endpoints"): _endpoints,
    ("", "LimitRange"): _limit_range,
    ("", "Namespace"): _namespace,
    ("", "PersistentVolume"): _volume,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Pod"): _pod,
    ("", "PodTemplate"): _pod_template,
    ("", "ReplicationController"): replication_controller_defaults,
    ("", "ResourceQuota"): _resource_quota,
    ("", "Secret"): _secret,
    ("", "Service"): _service,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _crd,
    ("apps", "DaemonSet"): daemon_set_defaults,
    ("apps", "Deployment"): deployment_defaults,
    ("apps", "ReplicaSet"): replica_set_defaults,
    ("apps", "StatefulSet"): lambda obj: stateful_set_defaults(obj, claim_defaults),
    ("autoscaling", "HorizontalPodAutoscaler"): _autoscaler,
    ("batch", "CronJob"): cron_job_defaults,
    ("batch", "Job"): job_defaults,
    ("discovery.k8s.io", "EndpointSlice"): _endpoint_slice,
    ("networking.k8s.io", "NetworkPolicy"): _network_policy,
    ("policy", "PodDisruptionBudget"): _budget,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    ("storage.k8s.io", "StorageClass"): _storage_class,
    (_ADMISSION, "MutatingWebhookConfiguration"): _webhooks,
    (_ADMISSION, "ValidatingWebhookConfiguration"): _webhooks,
    (_RBAC, "ClusterRoleBinding"): _binding,
    (_RBAC, "RoleBinding"): _binding,
}
