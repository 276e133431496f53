"""Rules of containers: images, ports, environment, probes, resources, volume mounts.

Source of rules and texts: `pkg/apis/core/validation/validation.go` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from trainshed.kube.builtin.parts.addresses import number_causes
from trainshed.kube.builtin.parts.pod.resources import NATIVE_RESOURCES, resource_causes
from trainshed.kube.meta import causes, names
from trainshed.kube.meta.causes import non_negative, one_of
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, section

PROTOCOLS = ("SCTP", "TCP", "UDP")
_DOWNWARD = frozenset(
    f"metadata.{key}" for key in ("name", "namespace", "uid", "labels", "annotations")
) | frozenset({"spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs"})
_ENV_FIELDS = (_DOWNWARD | {"status.podIP", "status.podIPs"}) - {"metadata.labels", "metadata.annotations"}
FILE_FIELDS = frozenset(f"metadata.{key}" for key in ("name", "namespace", "uid", "labels", "annotations"))
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")


def container_causes(
    container: Object, path: str, volumes: Iterable[str], *, init: bool = False, host_network: bool = False
) -> Iterator[Cause]:
    """Yield what is wrong with one container; `volumes` are the names that the pod defines."""
    get = container.get
    name = get("name")
    if not name:
        yield causes.required(f"{path}.name")
    else:
        for why in names.dns_label(name):
            yield causes.invalid(f"{path}.name", name, why)
    image = get("image")
    if not image:
        yield causes.required(f"{path}.image")
    elif image != image.strip():
        yield causes.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    yield from one_of(container, path, "imagePullPolicy", ("Always", "IfNotPresent", "Never"))
    yield from one_of(container, path, "terminationMessagePolicy", ("FallbackToLogsOnError", "File"))
    if get("ports"):
        yield from _ports(get("ports"), f"{path}.ports", host_network)
    if get("env"):
        yield from _env(get("env"), f"{path}.env")
    if get("envFrom"):
        yield from _env_from(get("envFrom"), f"{path}.envFrom")
    if get("volumeMounts"):
        privileged = bool((get("securityContext") or {}).get("privileged"))
        yield from _mounts(get("volumeMounts"), f"{path}.volumeMounts", volumes, privileged=privileged)
    for index, device in enumerate(get("volumeDevices") or ()):
        at = f"{path}.volumeDevices[{index}]"
        if not device.get("devicePath"):
            yield causes.required(f"{at}.devicePath")
        if device.get("name") not in volumes:
            yield causes.not_found(f"{at}.name", device.get("name", ""))
    if get("resources"):
        yield from resource_causes(container["resources"], f"{path}.resources")
    yield from _probes(container, path)
    yield from _restart_policy(container, path, init)
    security = get("securityContext") or {}
    yield from security_causes(security, f"{path}.securityContext")
    if security.get("privileged") and security.get("allowPrivilegeEscalation") is False:
        text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield causes.invalid(f"{path}.securityContext", security, text)


def port_causes(port: Any, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a port: a number, or the name of one."""
    if isinstance(port, int):
        yield from number_causes(port, path)
    else:
        for why in names.port_name(str(port or "")):
            yield causes.invalid(path, port, why)


def _ports(ports: Any, path: str, host_network: bool) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        at = f"{path}[{index}]"
        name = port.get("name")
        if name:
            for why in names.port_name(name):
                yield causes.invalid(f"{at}.name", name, why)
            if name in seen:
                yield causes.duplicate(f"{at}.name", name)
            seen.add(name)
        number, host = port.get("containerPort"), port.get("hostPort")
        if not number:
            yield causes.required(f"{at}.containerPort")
        else:
            yield from port_causes(number, f"{at}.containerPort")
        if host:
            yield from port_causes(host, f"{at}.hostPort")
            if host_network and host != number:
                text = "must match `containerPort` when `hostNetwork` is true"
                yield causes.invalid(f"{at}.hostPort", host, text)
        yield from one_of(port, at, "protocol", PROTOCOLS)


def _env(env: Any, path: str) -> Iterator[Cause]:
    for index, entry in enumerate(env):
        name = entry.get("name")
        if not name:
            yield causes.required(f"{path}[{index}].name")
        else:
            for why in names.env_name(name):
                yield causes.invalid(f"{path}[{index}].name", name, why)
        source = entry.get("valueFrom")
        if source is not None:
            at = f"{path}[{index}].valueFrom"
            if entry.get("value"):
                yield causes.invalid(at, "", "may not be specified when `value` is not empty")
            yield from _env_source(source, at)


def _env_source(source: Object, path: str) -> Iterator[Cause]:
    given = [
        key for key in source if key in ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef")
    ]
    if not given:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        yield causes.invalid(path, "", text)
    if len(given) > 1:
        yield causes.invalid(path, "", "may not have more than one field specified at a time")
    if "fieldRef" in source:
        yield from field_ref_causes(source["fieldRef"], f"{path}.fieldRef", _ENV_FIELDS)
    if "resourceFieldRef" in source:
        yield from resource_ref_causes(source["resourceFieldRef"], f"{path}.resourceFieldRef")
    for key in ("configMapKeyRef", "secretKeyRef"):
        reference = source.get(key)
        if reference is None:
            continue
        if not reference.get("name"):
            yield causes.required(f"{path}.{key}.name")
        if not reference.get("key"):
            yield causes.required(f"{path}.{key}.key")
        else:
            for why in names.config_key(reference["key"]):
                yield causes.invalid(f"{path}.{key}.key", reference["key"], why)


def field_ref_causes(reference: Object, path: str, fields: Iterable[str]) -> Iterator[Cause]:
    """Yield what is wrong with a reference to a field of the pod, such as `metadata.labels['app']`."""
    wanted = reference.get("fieldPath")
    if not wanted:
        yield causes.required(f"{path}.fieldPath")
        return
    base, bracket, _ = wanted.partition("[")
    if bracket and wanted.endswith("']") and base in ("metadata.labels", "metadata.annotations"):
        return
    if wanted not in fields:
        if wanted in _DOWNWARD or wanted in _ENV_FIELDS:
            yield causes.unsupported(f"{path}.fieldPath", wanted, sorted(fields))
        else:
            text = f"error converting fieldPath: field label not supported: {wanted}"
            yield causes.invalid(f"{path}.fieldPath", wanted, text)


def resource_ref_causes(reference: Object, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a reference to a container's resources, such as `limits.cpu`."""
    wanted = reference.get("resource")
    kinds = [f"{part}.{kind}" for part in ("limits", "requests") for kind in sorted(NATIVE_RESOURCES)]
    if not wanted:
        yield causes.required(f"{path}.resource")
    elif wanted not in kinds and ".hugepages-" not in wanted:
        yield causes.unsupported(f"{path}.resource", wanted, kinds)


def _env_from(sources: Any, path: str) -> Iterator[Cause]:
    for index, source in enumerate(sources):
        at = f"{path}[{index}]"
        given = [key for key in ("configMapRef", "secretRef") if source.get(key) is not None]
        if not given:
            yield causes.invalid(at, "", "must specify one of: `configMapRef` or `secretRef`")
        if len(given) > 1:
            yield causes.invalid(at, "", "may not have more than one field specified at a time")
        for key in given:
            if not source[key].get("name"):
                yield causes.required(f"{at}.{key}.name")
        if source.get("prefix"):
            for why in names.env_name(source["prefix"]):
                yield causes.invalid(f"{at}.prefix", source["prefix"], why)


def _mounts(mounts: Any, path: str, volumes: Iterable[str], *, privileged: bool) -> Iterator[Cause]:
    """Yield what is wrong with mounts. Of some fields the path lacks the mount's number, as upstream."""
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        at = f"{path}[{index}]"
        name, where = mount.get("name"), mount.get("mountPath")
        if not name:
            yield causes.required(f"{at}.name")
        elif name not in volumes:
            yield causes.not_found(f"{at}.name", name)
        if not where:
            yield causes.required(f"{at}.mountPath")
        elif where in seen:
            yield causes.invalid(f"{at}.mountPath", where, "must be unique")
        seen.add(where or "")
        if mount.get("subPath") and mount.get("subPathExpr"):
            yield causes.invalid(
                f"{at}.subPathExpr", mount["subPathExpr"], "subPathExpr and subPath are mutually exclusive"
            )
        for field in ("subPath", "subPathExpr"):
            if mount.get(field):
                yield from local_path_causes(mount[field], f"{path}.{field}")
        yield from one_of(mount, path, "mountPropagation", ("Bidirectional", "HostToContainer", "None"))
        if mount.get("mountPropagation") == "Bidirectional" and not privileged:
            yield causes.forbidden(f"{path}.mountPropagation", _BOTH_WAYS)
        yield from one_of(mount, path, "recursiveReadOnly", ("Disabled", "Enabled", "IfPossible"))
        if mount.get("recursiveReadOnly") in ("Enabled", "IfPossible"):
            yield from _recursive_read_only(mount, f"{path}.recursiveReadOnly")


_BOTH_WAYS = "Bidirectional mount propagation is available only to privileged containers"


def _recursive_read_only(mount: Object, at: str) -> Iterator[Cause]:
    if not mount.get("readOnly"):
        yield causes.forbidden(at, "may only be specified when readOnly is true")
    if mount.get("mountPropagation", "None") != "None":
        yield causes.forbidden(at, "may only be specified when mountPropagation is None or not specified")


def local_path_causes(text: str, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a path that must stay below its volume."""
    if text.startswith("/"):
        yield causes.invalid(path, text, "must be a relative path")
    if ".." in text.split("/"):
        yield causes.invalid(path, text, "must not contain '..'")


# ------------------------------------------------------------------------------------- probes and security


def _probes(container: Object, path: str) -> Iterator[Cause]:
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(kind)
        if probe is None:
            continue
        at = f"{path}.{kind}"
        yield from _handler(probe, at)
        counts = (
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        )
        yield from non_negative(probe, at, *counts)
        if kind != "readinessProbe" and probe.get("successThreshold", 1) != 1:
            yield causes.invalid(f"{at}.successThreshold", probe["successThreshold"], "must be 1")
        grace = probe.get("terminationGracePeriodSeconds")
        if grace is not None and kind == "readinessProbe":
            at = f"{at}.terminationGracePeriodSeconds"
            yield causes.invalid(at, grace, "must not be set for readinessProbes")
        elif grace is not None and grace <= 0:
            yield causes.invalid(f"{at}.terminationGracePeriodSeconds", grace, "must be greater than 0")
    for event, handler in section(container, "lifecycle").items():
        if isinstance(handler, dict):
            yield from _handler(handler, f"{path}.lifecycle.{event}")


def _handler(handler: Object, path: str) -> Iterator[Cause]:
    given = [key for key in (*_HANDLERS, "sleep") if handler.get(key) is not None]
    if not given:
        yield causes.required(path, "must specify a handler type")
    for extra in given[1:]:
        yield causes.forbidden(f"{path}.{extra}", "may not specify more than 1 handler type")
    if "exec" in given and not handler["exec"].get("command"):
        yield causes.required(f"{path}.exec.command")
    for key in ("httpGet", "tcpSocket", "grpc"):
        if key in given:
            yield from port_causes(handler[key].get("port", 0), f"{path}.{key}.port")
    if "httpGet" in given:
        if handler["httpGet"].get("path") == "":
            yield causes.required(f"{path}.httpGet.path")
        yield from one_of(handler["httpGet"], f"{path}.httpGet", "scheme", ("HTTP", "HTTPS"))


def _restart_policy(container: Object, path: str, init: bool) -> Iterator[Cause]:
    policy = container.get("restartPolicy")
    if not init:
        if policy:
            yield causes.forbidden(f"{path}.restartPolicy", "may not be set for non-init containers")
        return
    if policy and policy != "Always":
        yield causes.unsupported(f"{path}.restartPolicy", policy, ("Always",))
    if policy != "Always":
        for field in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"):
            if container.get(field) is not None:
                text = "may not be set for init containers without restartPolicy=Always"
                yield causes.forbidden(f"{path}.{field}", text)


def security_causes(security: Object, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the numeric ids of a security context, a pod's or a container's."""
    for field in ("runAsUser", "runAsGroup", "fsGroup"):
        value = security.get(field)
        if value is not None and not 0 <= value < 1 << 31:
            yield causes.invalid(f"{path}.{field}", value, "must be between 0 and 2147483647, inclusive")
    for index, group in enumerate(security.get("supplementalGroups") or ()):
        if not 0 <= group < 1 << 31:
            text = "must be between 0 and 2147483647, inclusive"
            yield causes.invalid(f"{path}.supplementalGroups[{index}]", group, text)
    yield from one_of(security, path, "fsGroupChangePolicy", ("Always", "OnRootMismatch"))
    yield from _seccomp(section(security, "seccompProfile"), f"{path}.seccompProfile")


def _seccomp(profile: Object, path: str) -> Iterator[Cause]:
    if not profile:
        return
    kind, local = profile.get("type"), profile.get("localhostProfile")
    yield from one_of(profile, path, "type", ("Localhost", "RuntimeDefault", "Unconfined"))
    if not kind:
        yield causes.required(f"{path}.type", "type is required when seccompProfile is set")
    if kind == "Localhost" and not local:
        yield causes.required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
    if kind != "Localhost" and local:
        text = "can only be set when seccomp type is Localhost"
        yield causes.invalid(f"{path}.localhostProfile", local, text)
