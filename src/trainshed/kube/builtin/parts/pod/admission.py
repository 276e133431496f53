"""What every new pod is given besides its defaults: service account, token, tolerations, status.

Only what needs no look at other objects; the API server's admission decides the rest first.
"""

from __future__ import annotations

from trainshed.kube.builtin.parts.pod.qos import qos_class
from trainshed.kube.meta.objects import Object, section

MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where pods find the token of their service account."""
GATED = "Scheduling is blocked due to non-empty scheduling gates"
_UNREACHABLE_SECONDS = 300
_EVICTING_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def admit_pod(pod: Object, *, token_volume_suffix: str) -> Object:
    """Return a live pod as the admission of upstream leaves it: service account, token, tolerations, status.

    Args:
        pod: defaulted pod; it is not changed. Templates never pass here.
        token_volume_suffix: five random characters; the volume is `kube-api-access-<suffix>`.

    Expected flow: conform, default, `admit_pod`, validate. The caller has checked that the service account
    exists and clears `automountServiceAccountToken` questions that need it: a pod-level false is honoured here.
    """
    spec = dict(pod["spec"])
    out: Object = {**pod, "spec": spec}
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = account
    if spec.get("automountServiceAccountToken") is not False:
        _mount_token(spec, f"kube-api-access-{token_volume_suffix}")
    spec["tolerations"] = tolerations(spec)
    if not spec.get("priorityClassName"):
        spec.setdefault("priority", 0)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    out["status"] = {"phase": "Pending", **section(pod, "status"), "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        out["status"].setdefault("conditions", [_gated(pod["metadata"].get("creationTimestamp"))])
    return out


def _gated(since: str | None) -> Object:
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": since,
        "reason": "SchedulingGated",
        "message": GATED,
    }


def tolerations(spec: Object) -> list[Object]:
    """Return the tolerations of a pod, with those of a node that is lost for a while (DefaultTolerationSeconds)."""
    out = list(spec.get("tolerations") or ())
    out += [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _UNREACHABLE_SECONDS}
        for key in _EVICTING_TAINTS
        if not any(_tolerates(toleration, key) for toleration in out)
    ]
    return out


def _tolerates(toleration: Object, key: str) -> bool:
    held = toleration.get("key")
    return (held in (None, "", key)) and toleration.get("effect") in (None, "", "NoExecute")


def _mount_token(spec: Object, volume: str) -> None:
    mount = {"name": volume, "readOnly": True, "mountPath": MOUNT_PATH}
    mounted = False
    for field in ("initContainers", "containers"):
        containers = list(spec.get(field) or ())
        for number, container in enumerate(containers):
            mounts = container.get("volumeMounts") or []
            if all(held.get("mountPath") != MOUNT_PATH for held in mounts):
                containers[number] = {**container, "volumeMounts": [*mounts, dict(mount)]}
                mounted = True
        if containers:
            spec[field] = containers
    if not mounted:
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
    token = {"name": volume, "projected": {"sources": sources, "defaultMode": 420}}
    spec["volumes"] = [*(spec.get("volumes") or ()), token]
