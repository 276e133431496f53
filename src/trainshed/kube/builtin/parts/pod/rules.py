"""Rules of a pod spec, which live pods and templates share.

Source of rules and texts: `pkg/apis/core/validation/validation.go` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.kube.builtin.parts.addresses import ip_causes
from trainshed.kube.builtin.parts.pod.containers import container_causes, security_causes
from trainshed.kube.builtin.parts.pod.ephemeral import ephemeral_causes
from trainshed.kube.builtin.parts.pod.scheduling import scheduling_causes
from trainshed.kube.builtin.parts.pod.sysctls import sysctl_causes
from trainshed.kube.builtin.parts.pod.volumes import volume_causes
from trainshed.kube.meta import causes, names
from trainshed.kube.meta.causes import one_of
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, metadata_of, section, spec_of
from trainshed.kube.schema.metadata import annotations_causes, labels_causes

MAX_CONTAINERS = 1_000
"""Containers of a kind, and volumes, of a pod. Upstream has no such bound; no kubelet has room for as many."""

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_SUBDOMAINS = ("nodeName", "serviceAccountName", "schedulerName", "priorityClassName")


def template_causes(template: Object, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a pod template."""
    meta = metadata_of(template)
    yield from labels_causes(meta.get("labels"), f"{path}.metadata.labels")
    yield from annotations_causes(meta.get("annotations"), f"{path}.metadata.annotations")
    spec = spec_of(template)
    yield from pod_spec_causes(spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        yield causes.forbidden(f"{path}.spec.ephemeralContainers", text)


def pod_spec_causes(spec: Object, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a defaulted pod spec at `path`."""
    get = spec.get
    found = list(_too_many(spec, path))
    if found:  # what else is wrong with so many is nobody's question
        yield from found
        return
    volumes = get("volumes") or []
    if volumes:
        yield from volume_causes(volumes, f"{path}.volumes")
    known = {volume.get("name", "") for volume in volumes}
    yield from _containers(spec, path, known)
    if not get("restartPolicy"):
        yield causes.required(f"{path}.restartPolicy")
    yield from one_of(spec, path, "restartPolicy", RESTART_POLICIES)
    yield from one_of(spec, path, "dnsPolicy", _DNS_POLICIES)
    yield from one_of(spec, path, "preemptionPolicy", ("Never", "PreemptLowerPriority"))
    if get("dnsPolicy") == "None" and not section(spec, "dnsConfig").get("nameservers"):
        if not spec.get("dnsConfig"):
            text = "must provide `dnsConfig` when `dnsPolicy` is None"
            yield causes.required(f"{path}.dnsConfig", text)
            return
        text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        yield causes.required(f"{path}.dnsConfig.nameservers", text)
    system = section(spec, "os").get("name")
    if "os" in spec and not system:
        yield causes.required(f"{path}.os.name", "cannot be empty")
    elif system not in (None, "linux", "windows"):
        yield causes.unsupported(f"{path}.os", system, ("linux", "windows"))
    deadline = get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2147483647:
        text = "must be between 1 and 2147483647, inclusive"
        yield causes.invalid(f"{path}.activeDeadlineSeconds", deadline, text)
    for field in _SUBDOMAINS:
        if get(field):
            for why in names.dns_subdomain(spec[field]):
                yield causes.invalid(f"{path}.{field}", get(field), why)
    for field in ("hostname", "subdomain"):
        if get(field):
            for why in names.dns_label(spec[field]):
                yield causes.invalid(f"{path}.{field}", get(field), why)
    for index, alias in enumerate(get("hostAliases") or ()):
        yield from ip_causes(alias.get("ip"), f"{path}.hostAliases[{index}].ip")
    if get("securityContext"):
        yield from security_causes(spec["securityContext"], f"{path}.securityContext")
        yield from sysctl_causes(spec, path)
    yield from _host_namespaces(spec, path)
    yield from scheduling_causes(spec, path)


def _host_namespaces(spec: Object, path: str) -> Iterator[Cause]:
    if spec.get("hostPID") and spec.get("shareProcessNamespace"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield causes.invalid(f"{path}.securityContext.shareProcessNamespace", True, text)
    if spec.get("hostUsers") is False:
        for field in ("hostNetwork", "hostPID", "hostIPC"):
            if spec.get(field):
                yield causes.forbidden(f"{path}.{field}", "when `hostUsers` is false")
        return
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            if section(container, "securityContext").get("procMount") == "Unmasked":
                at = f"{path}.{group}[{index}].securityContext.procMount"
                yield causes.invalid(at, "Unmasked", "`hostUsers` must be false to use `Unmasked`")


def _too_many(spec: Object, path: str) -> Iterator[Cause]:
    for field in ("initContainers", "containers", "ephemeralContainers", "volumes"):
        count = len(spec.get(field) or ())
        if count > MAX_CONTAINERS:
            yield causes.too_many(f"{path}.{field}", count, MAX_CONTAINERS)


def _containers(spec: Object, path: str, volumes: set[str]) -> Iterator[Cause]:
    if not spec.get("containers"):
        yield causes.required(f"{path}.containers")
    host_network = bool(spec.get("hostNetwork"))
    seen: set[str] = set()
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            at = f"{path}.{field}[{index}]"
            init = field == "initContainers"
            yield from container_causes(container, at, volumes, init=init, host_network=host_network)
            name = container.get("name")
            if name and name in seen:
                yield causes.duplicate(f"{at}.name", name)
            seen.add(name or "")
    yield from ephemeral_causes(spec, path)
    yield from _host_ports(spec, path)


def _host_ports(spec: Object, path: str) -> Iterator[Cause]:
    """Yield the ports of the host that two containers would take; init containers run one by one."""
    taken: set[tuple[str, str, int]] = set()
    for index, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            place = (port.get("protocol", ""), port.get("hostIP", ""), port["hostPort"])
            if place in taken:
                shown = "/".join(str(part) for part in place)
                yield causes.duplicate(f"{path}.containers[{index}].ports[{number}].hostPort", shown)
            taken.add(place)
