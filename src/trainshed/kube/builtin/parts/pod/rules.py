"""Rules of pods: the spec, which templates share, and what may change in a pod that exists.

Source of rules and texts: `pkg/apis/core/validation/validation.go` of Kubernetes.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.parts.pod.containers import container_causes, security_causes
from trainshed.kube.builtin.parts.pod.scheduling import scheduling_causes
from trainshed.kube.builtin.parts.pod.volumes import volume_causes
from trainshed.kube.meta import causes, names
from trainshed.kube.meta.causes import non_negative, one_of
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object
from trainshed.kube.schema.metadata import annotations_causes, labels_causes

RESTART_POLICIES = ("Always", "Never", "OnFailure")
_DNS_POLICIES = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_SUBDOMAINS = ("nodeName", "serviceAccountName", "schedulerName", "priorityClassName")

_UPDATE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod_causes(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a pod, on create or against what it was."""
    spec = obj.get("spec") or {}
    if old is None:
        yield from pod_spec_causes(spec, "spec")
        if spec.get("ephemeralContainers"):
            yield causes.forbidden("spec.ephemeralContainers", "cannot be set on create")
    elif subresource not in ("status", "binding"):
        before = old.get("spec") or {}
        if spec != before:
            yield from pod_spec_causes(spec, "spec")
            yield from _changes(spec, before, subresource)


def template_causes(template: Object, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a pod template."""
    meta = template.get("metadata") or {}
    yield from labels_causes(meta.get("labels"), f"{path}.metadata.labels")
    yield from annotations_causes(meta.get("annotations"), f"{path}.metadata.annotations")
    spec = template.get("spec") or {}
    yield from pod_spec_causes(spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        yield causes.forbidden(f"{path}.spec.ephemeralContainers", text)


def pod_spec_causes(spec: Object, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a defaulted pod spec at `path`."""
    get = spec.get
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
    if get("dnsPolicy") == "None" and not (get("dnsConfig") or {}).get("nameservers"):
        text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        yield causes.required(f"{path}.dnsConfig.nameservers", text)
    yield from non_negative(spec, path, "terminationGracePeriodSeconds")
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
    for index, reference in enumerate(get("imagePullSecrets") or ()):
        if not reference.get("name"):
            yield causes.required(f"{path}.imagePullSecrets[{index}].name")
    for index, alias in enumerate(get("hostAliases") or ()):
        yield from _ip(alias.get("ip"), f"{path}.hostAliases[{index}].ip")
    if get("securityContext"):
        yield from security_causes(spec["securityContext"], f"{path}.securityContext")
    yield from scheduling_causes(spec, path)


def _ip(address: Any, path: str) -> Iterator[Cause]:
    try:
        ipaddress.ip_address(address or "")
    except ValueError:
        text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        yield causes.invalid(path, address or "", text)


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


# ----------------------------------------------------------------------------------------------- updates


def _changes(spec: Object, old: Object, subresource: str) -> Iterator[Cause]:
    if len(spec.get("containers") or ()) != len(old.get("containers") or ()):
        yield causes.forbidden("spec.containers", "pod updates may not add or remove containers")
        return
    yield from _deadline(spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    yield from _tolerations(spec.get("tolerations") or [], old.get("tolerations") or [])
    yield from _gates(spec.get("schedulingGates") or [], old.get("schedulingGates") or [])
    gated = bool(old.get("schedulingGates"))
    if _fixed(spec, subresource, gated) != _fixed(old, subresource, gated):
        before, after = old.get("terminationGracePeriodSeconds"), spec.get("terminationGracePeriodSeconds")
        if not (before is not None and before < 0 and after == 1):
            yield causes.forbidden("spec", _UPDATE_TEXT)


def _fixed(spec: Object, subresource: str, gated: bool) -> Object:
    """Return the part of a pod spec that an update may not touch."""
    ignored = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    inside = {"image"}
    if subresource == "ephemeralcontainers":
        ignored.add("ephemeralContainers")
    elif subresource == "resize":
        ignored.add("resources")
        inside |= {"resources", "resizePolicy"}
    if gated:  # KEP-3838: where a gated pod may run can still be narrowed
        ignored |= {"nodeSelector", "affinity"}
    out = {key: value for key, value in spec.items() if key not in ignored and value not in ([], {}, None)}
    for field in ("containers", "initContainers"):
        if field in out:
            out[field] = [{k: v for k, v in item.items() if k not in inside} for item in out[field]]
    return out


def _deadline(new: int | None, old: int | None) -> Iterator[Cause]:
    path = "spec.activeDeadlineSeconds"
    if old is None:
        return
    if new is None:
        yield causes.invalid(path, new, "must not update from a positive integer to nil value")
    elif new > old:
        yield causes.invalid(path, new, "must be less than or equal to previous value")


def _tolerations(new: list[Object], old: list[Object]) -> Iterator[Cause]:
    def identity(toleration: Object) -> Object:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    kept = [identity(toleration) for toleration in new]
    for toleration in old:
        if identity(toleration) not in kept:
            text = "existing toleration can not be modified except its tolerationSeconds"
            yield causes.forbidden("spec.tolerations", text)
            return


def _gates(new: list[Object], old: list[Object]) -> Iterator[Cause]:
    before = [gate.get("name") for gate in old]
    for index, gate in enumerate(new):
        if gate.get("name") not in before:
            text = "only deletion is allowed, but found new scheduling gate '" + gate.get("name", "") + "'"
            yield causes.forbidden(f"spec.schedulingGates[{index}].name", text)
