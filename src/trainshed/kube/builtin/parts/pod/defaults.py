"""Defaults of a pod spec: those of pods and templates, and those of pods alone.

Source: `pkg/apis/core/v1/defaults.go` of Kubernetes. Every function fills its argument in place.
"""

from __future__ import annotations

from typing import Any

from trainshed.kube.meta.objects import Object, section

FILE_MODE = 420
"""0644: the mode of files from config maps, secrets and projections."""


def setdefault(owner: Object, key: str, value: Any) -> Any:
    """Set a field that is absent or empty (Go's zero value) and return what it then is.

    Falsy values that mean something (`false`, `0` of a pointer field) must use `dict.setdefault`.
    """
    held = owner.get(key)
    if not held:
        held = owner[key] = value
    return held


def live_pod_defaults(spec: Object) -> None:
    """Fill in the spec of a pod, with what a template leaves open: it speaks of pods to come."""
    spec.setdefault("enableServiceLinks", True)
    pod_spec_defaults(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or ():
            _requests(container)


def pod_spec_defaults(spec: Object) -> None:
    """Fill in what pods and templates have in common."""
    setdefault(spec, "restartPolicy", "Always")
    setdefault(spec, "dnsPolicy", "ClusterFirst")
    setdefault(spec, "schedulerName", "default-scheduler")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("securityContext", {})
    # The older name is kept equal, as upstream's conversion does.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    host_network = bool(spec.get("hostNetwork"))
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(field) or ():
            _container(container, host_network)
            if field != "ephemeralContainers":
                container.setdefault("resources", {})
    for volume in spec.get("volumes") or ():
        _volume(volume)
    for constraint in spec.get("topologySpreadConstraints") or ():
        for key in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if key in constraint and not constraint[key]:
                del constraint[key]


def image_pull_policy(image: str) -> str:
    """Return `Always` for an image with a mutable tag (`latest` or none), else `IfNotPresent`."""
    if "@" in image or not image:  # no image has no tag that could be meant to move
        return "IfNotPresent"
    _, colon, tag = image.rpartition(":")
    if not colon or "/" in tag:  # no tag: the colon, if any, belongs to the registry's port
        return "Always"
    return "Always" if tag == "latest" else "IfNotPresent"


def _container(container: Object, host_network: bool) -> None:
    setdefault(container, "terminationMessagePath", "/dev/termination-log")
    setdefault(container, "terminationMessagePolicy", "File")
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = image_pull_policy(container.get("image") or "")
    for port in container.get("ports") or ():
        setdefault(port, "protocol", "TCP")
        if host_network and port.get("containerPort") and not port.get("hostPort"):
            port["hostPort"] = port["containerPort"]
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(kind) is not None:
            _probe(container[kind])
    for handler in section(container, "lifecycle").values():
        if isinstance(handler, dict):
            _http(handler)
    for entry in container.get("env") or ():
        source = entry.get("valueFrom")
        if source and source.get("fieldRef") is not None:
            setdefault(source["fieldRef"], "apiVersion", "v1")
        if source and source.get("resourceFieldRef") is not None:
            setdefault(source["resourceFieldRef"], "divisor", "0")
    if section(container, "securityContext").get("procMount") == "":
        del container["securityContext"]["procMount"]


def _requests(container: Object) -> None:
    """Request what is limited and not requested."""
    resources = container.get("resources")
    if resources and resources.get("limits"):
        requests = setdefault(resources, "requests", {})
        for name, amount in resources["limits"].items():
            requests.setdefault(name, amount)


def _probe(probe: Object) -> None:
    for key, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1)):
        setdefault(probe, key, value)
    setdefault(probe, "failureThreshold", 3)
    _http(probe)
    if probe.get("grpc") is not None:
        probe["grpc"].setdefault("service", "")


def _http(handler: Object) -> None:
    request = handler.get("httpGet")
    if request is not None:
        setdefault(request, "path", "/")
        setdefault(request, "scheme", "HTTP")


def _volume(volume: Object) -> None:
    if all(key == "name" or value is None for key, value in volume.items()) and volume.get("name"):
        volume["emptyDir"] = {}
        return
    for kind in ("configMap", "secret", "downwardAPI", "projected"):
        source = volume.get(kind)
        if source is not None:
            source.setdefault("defaultMode", FILE_MODE)
            _downward(source)
    for source in section(volume, "projected").get("sources") or ():
        token = source.get("serviceAccountToken")
        if token is not None:
            token.setdefault("expirationSeconds", 3600)
        _downward(section(source, "downwardAPI"))
    source_defaults(volume)
    ephemeral = section(volume, "ephemeral").get("volumeClaimTemplate")
    if ephemeral is not None:
        setdefault(ephemeral.setdefault("spec", {}), "volumeMode", "Filesystem")


_OF_SOURCES: dict[str, dict[str, Any]] = {
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


def source_defaults(owner: Object) -> None:
    """Fill in the source of a pod's volume or of a persistent volume."""
    for kind, fields in _OF_SOURCES.items():
        if owner.get(kind) is not None:
            for field, value in fields.items():
                owner[kind].setdefault(field, value)


def _downward(source: Object) -> None:
    for item in source.get("items") or ():
        if item.get("fieldRef") is not None:
            setdefault(item["fieldRef"], "apiVersion", "v1")
        if item.get("resourceFieldRef") is not None:
            setdefault(item["resourceFieldRef"], "divisor", "0")
