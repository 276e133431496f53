"""Fields of a pod that this node cannot honour: never ignored silently.

`unsupported_fields` is pure; shared by the node (event `FieldNotHonoured`) and `trainshed check`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from trainshed.cluster.node.pod import plainfields
from trainshed.cluster.node.pod.refusal import forbidden_sysctls
from trainshed.cluster.node.service_routes import host_ip
from trainshed.cluster.node.volumes.registry import unsupported_volumes
from trainshed.kube.meta.objects import Object, section, spec_of
from trainshed.kube.meta.pods import is_sidecar

Finding: TypeAlias = tuple[str, str]
"""(field path, why), e.g. `("spec.hostUsers", "pods share one user namespace, which is not the machine's")`."""


class Capabilities(msgspec.Struct, frozen=True):
    """What sandboxes of this machine can do.

    `user_mapping`: other users than root exist inside (the node runs as root, or newuidmap and subordinate
    ids are set up). `of_root`: the cluster is run by the machine's root, who is root in pods, too. `python_of`: the
    node's Python environment where only its owner may enter it, else empty. `pulls`: images that the store lacks are
    pulled from registries. `plain`: there are no namespaces, and pods are processes of the caller's.
    """

    user_mapping: bool = True
    of_root: bool = False
    python_of: str = ""
    pulls: bool = False
    plain: bool = False


def local_capabilities(*, plain: bool = False) -> Capabilities:
    """Return what this machine can do: looks at the user and at the tools that map ids for others.

    `plain` is whether the cluster was told to do without namespaces.
    """
    if plain:
        return Capabilities(user_mapping=False, of_root=os.geteuid() == 0, plain=True)
    if os.geteuid() == 0:
        prefix = Path(sys.prefix)
        closed = any(not place.stat().st_mode & stat.S_IXOTH for place in (prefix, *prefix.parents))
        return Capabilities(user_mapping=True, of_root=True, python_of=str(prefix) if closed else "")
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container whose engine chose a number
        name = ""
    tools = all(shutil.which(tool) for tool in ("newuidmap", "newgidmap"))
    ranges = all(_has_subordinate_ids(Path(path), name) for path in ("/etc/subuid", "/etc/subgid"))
    return Capabilities(user_mapping=tools and ranges)


def _has_subordinate_ids(path: Path, name: str) -> bool:
    try:
        owners = {line.partition(":")[0] for line in path.read_text().splitlines()}
    except OSError:
        return False
    return bool(owners & ({name, str(os.geteuid())} - {""}))


NO_USERS = (
    "every user of a pod stands for you here: the process sees this id, but cannot chown or setgroups to others; "
    "install uidmap and subordinate ids to change that"
)
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
LOCALHOST_PROFILE = "seccomp profiles of the machine are not read: the container has the default one"
PROFILES = "profiles of AppArmor and SELinux are not applied"
PRIVILEGED = (
    "the cluster is run by root, so a container with SYS_ADMIN is close to root on this machine: it can undo what "
    "keeps the machine's settings from it"
)
HOST_IP = "ports of the machine are opened on its loopback only (127.0.0.1)"
PROBED_HOST = "the address is dialled from the pod's network, not from the node's"
HOST_DNS = (
    "names of Services do not resolve on the machine's network, and other pods cannot be reached from it"
)
OTHER_SYSTEM = "the node refuses the pod: containers run on Linux"
WINDOWS = "options for Windows mean nothing here"
USER_NAMESPACE = "pods share one user namespace, which is not the machine's"
POD_RESOURCES = (
    "resources of a pod as a whole are neither reserved nor enforced; those of its containers are reserved"
)
OTHERS_PYTHON = (
    "programs of {} are root's alone to run: this user finds the system's Python, with other packages"
)
IMAGE_USER = "the image's user is unknown: without runAsUser the container runs as root of its sandbox"
NO_PULL = "images are pulled only by a cluster that was started with `trainshed up --images pull` or `strict`"
HOST_PROCESSES = "containers of the pod see each other's processes, and none of the machine or of other pods"
GROUP = "every group stands for you here: files of volumes are yours, as are all processes of the pod"
RUNTIME_CLASS = "there is one runtime only"


def unsupported_fields(pod: Object, capabilities: Capabilities) -> list[Finding]:
    """Return what the node will not honour, in the order of the fields."""
    spec: Object = spec_of(pod)
    findings = [*_annotations(pod), *_pod_fields(spec, capabilities)]
    if capabilities.plain:
        findings += plainfields.unsupported(spec)
    refused = "spec.securityContext.sysctls"
    findings += [
        (f"{refused}[{index}]", f"the node refuses the pod: {why}") for index, why in forbidden_sysctls(pod)
    ]
    findings += [(path, IMAGE_USER) for path in _users_unknown(spec)]
    for path, container in _containers(spec):
        findings += _container_fields(path, container, capabilities)
        findings += _network_fields(path, container, host_network=bool(spec.get("hostNetwork")))
    return [*findings, *unsupported_volumes(pod)]


def dangerous_fields(pod: Object, capabilities: Capabilities) -> list[Finding]:
    """Return what is honoured and gives a pod more than its author may know, in the order of the fields."""
    if not capabilities.of_root:
        return []
    paths = privileged_containers(pod)
    for path, container in _containers(spec_of(pod)):
        added = section(container, "securityContext", "capabilities").get("add") or ()
        if {"ALL", "SYS_ADMIN"} & {name.removeprefix("CAP_") for name in added}:
            paths.append(f"{path}.securityContext.capabilities.add")
    return [(path, PRIVILEGED) for path in paths]


def privileged_containers(pod: Object) -> list[str]:
    """Return the paths of the fields that make containers privileged."""
    return [
        f"{path}.securityContext.privileged"
        for path, container in _containers(spec_of(pod))
        if section(container, "securityContext").get("privileged")
    ]


def _containers(spec: Object) -> Iterator[tuple[str, Object]]:
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            yield f"spec.{group}[{index}]", container


def _users_unknown(spec: Object) -> list[str]:
    """Return the paths of the fields that forbid a container to run as root, where nothing says as whom it runs."""
    shared = section(spec, "securityContext")
    found = []
    for path, container in _containers(spec):
        own = section(container, "securityContext")
        place = path if "runAsNonRoot" in own else "spec"
        user = own.get("runAsUser", shared.get("runAsUser"))
        if own.get("runAsNonRoot", shared.get("runAsNonRoot")) and user is None:
            found.append(f"{place}.securityContext.runAsNonRoot")
    return list(dict.fromkeys(found))


def _annotations(pod: Object) -> Iterator[Finding]:
    for name in section(pod, "metadata", "annotations"):
        if name.startswith(APPARMOR):
            yield f"metadata.annotations[{name}]", PROFILES


def _pod_fields(spec: Object, capabilities: Capabilities) -> Iterator[Finding]:
    if spec.get("imagePullSecrets") and not capabilities.pulls:
        yield "spec.imagePullSecrets", NO_PULL
    if spec.get("hostPID") and not capabilities.plain:
        yield "spec.hostPID", HOST_PROCESSES
    if spec.get("runtimeClassName"):
        yield "spec.runtimeClassName", RUNTIME_CLASS
    if spec.get("resourceClaims"):
        yield "spec.resourceClaims", "dynamic resource allocation is not offered"
    if spec.get("hostUsers") is False:
        yield "spec.hostUsers", USER_NAMESPACE
    if section(spec, "os").get("name", "linux") != "linux":
        yield "spec.os.name", OTHER_SYSTEM
    if spec.get("resources"):
        yield "spec.resources", POD_RESOURCES
    if spec.get("hostNetwork") and spec.get("dnsPolicy") == "ClusterFirstWithHostNet":
        yield "spec.dnsPolicy", HOST_DNS
    context = section(spec, "securityContext")
    yield from _security(context, "spec.securityContext", capabilities)
    if context.get("fsGroup") is not None and not capabilities.user_mapping:
        yield "spec.securityContext.fsGroup", GROUP
    if context.get("supplementalGroups") and not capabilities.user_mapping:
        yield "spec.securityContext.supplementalGroups", NO_USERS
    if context.get("supplementalGroupsPolicy") == "Strict" and not capabilities.user_mapping:
        yield "spec.securityContext.supplementalGroupsPolicy", NO_USERS


def _container_fields(path: str, container: Object, capabilities: Capabilities) -> Iterator[Finding]:
    context = section(container, "securityContext")
    yield from _security(context, f"{path}.securityContext", capabilities)
    if (
        path.startswith("spec.initContainers")
        and container.get("restartPolicy")
        and not is_sidecar(container)
    ):
        yield f"{path}.restartPolicy", "only Always means something for an init container"
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        if mount.get("mountPropagation") in ("Bidirectional", "HostToContainer"):
            yield f"{path}.volumeMounts[{index}].mountPropagation", "mounts made later are not propagated"
    if container.get("volumeDevices"):
        yield f"{path}.volumeDevices", "block devices are not offered: the pod waits"


def _network_fields(path: str, container: Object, *, host_network: bool) -> Iterator[Finding]:
    if host_network:
        return  # ports are the machine's own then, and so is what is dialled
    for index, port in enumerate(container.get("ports") or ()):
        if port.get("hostPort") and host_ip(port) is None:
            yield f"{path}.ports[{index}].hostIP", HOST_IP
    handlers = [
        (name, section(container, name)) for name in ("startupProbe", "readinessProbe", "livenessProbe")
    ]
    hooks = ("postStart", "preStop")
    handlers += [(f"lifecycle.{name}", section(container, "lifecycle", name)) for name in hooks]
    for name, handler in handlers:
        for kind in ("httpGet", "tcpSocket"):
            if section(handler, kind).get("host"):
                yield f"{path}.{name}.{kind}.host", PROBED_HOST


def _security(context: Object, path: str, capabilities: Capabilities) -> Iterator[Finding]:
    if not capabilities.user_mapping:
        for field in ("runAsUser", "runAsGroup"):
            if context.get(field):
                yield f"{path}.{field}", NO_USERS
    if context.get("runAsUser") and capabilities.python_of:
        yield f"{path}.runAsUser", OTHERS_PYTHON.format(capabilities.python_of)
    if section(context, "seccompProfile").get("type") == "Localhost":
        yield f"{path}.seccompProfile", LOCALHOST_PROFILE
    for field in ("appArmorProfile", "seLinuxOptions"):
        if context.get(field):
            yield f"{path}.{field}", PROFILES
    if context.get("windowsOptions"):
        yield f"{path}.windowsOptions", WINDOWS
    if context.get("procMount") not in (None, "Default"):
        yield f"{path}.procMount", "/proc is mounted the usual way"
