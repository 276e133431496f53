"""What this node refuses for good, in the kubelet's words. Pure.

Sources: pkg/kubelet/sysctl/allowlist.go, pkg/kubelet/lifecycle/predicate.go. As by a kubelet that was told to allow all
kernel parameters that a pod has for itself (`--allowed-unsafe-sysctls`).
"""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.cluster.node.pod.observed import Verdict
from trainshed.kube.builtin.parts.pod.sysctls import namespace_of, path_of
from trainshed.kube.meta.objects import Object, section

OTHER_SYSTEM = Verdict(
    "PodOSNotSupported", "Pod was rejected: Failed to admit pod as the OS field doesn't match node OS"
)


def refusal(pod: Object) -> Verdict | None:
    """Return why this node cannot ever run the pod; None when it can."""
    spec = pod["spec"]
    if section(spec, "os").get("name", "linux") != "linux":
        return OTHER_SYSTEM
    for _, why in forbidden_sysctls(pod):
        return Verdict("SysctlForbidden", f"Pod was rejected: {why}")
    return None


def forbidden_sysctls(pod: Object) -> Iterator[tuple[int, str]]:
    """Yield which of the pod's kernel parameters it may not have, and why."""
    spec = pod["spec"]
    for index, (path, _) in enumerate(sysctls(pod)):
        why = _refused(path, bool(spec.get("hostNetwork")), bool(spec.get("hostIPC")))
        if why:
            yield index, f'forbidden sysctl: "{path.replace("/", ".")}" {why}'


def sysctls(pod: Object) -> Iterator[tuple[str, str]]:
    """Yield the pod's kernel parameters: paths below /proc/sys, and values."""
    for each in section(pod["spec"], "securityContext").get("sysctls") or ():
        yield path_of(each["name"]), each["value"]


def _refused(path: str, host_network: bool, host_ipc: bool) -> str:
    if not all(part.strip(".") for part in path.split("/")):
        return "not allowlisted"  # `..` would lead to parameters of the machine
    namespace = namespace_of(path)
    if namespace == "net":
        return "not allowed with host net enabled" if host_network else ""
    if namespace == "ipc":
        return "not allowed with host ipc enabled" if host_ipc else ""
    return "not allowlisted"
