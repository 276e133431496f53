"""From a pod to what the sandbox runtime is told. Pure."""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainshed.cluster.node.pod.amounts import in_bytes, in_milli, limits_of, requests_of
from trainshed.cluster.node.pod.images import RunImage
from trainshed.cluster.node.pod.refusal import sysctls
from trainshed.cluster.sandbox.addresses import DOMAIN, GATEWAY
from trainshed.cluster.sandbox.model import Amounts, ContainerSpec, MemoryVolume, Mount, SandboxSpec
from trainshed.kube.builtin.scheduling.priorityclass import HIGHEST_USER_PRIORITY
from trainshed.kube.meta.objects import Object, section

HOSTNAME_LIMIT = 63
FQDN_LIMIT = 64
DEFAULT_WORKDIR = "/"


class ClusterNetwork(msgspec.Struct, frozen=True):
    """Where the cluster's own DNS is, and the host's resolver settings that pods inherit."""

    dns_ip: str = GATEWAY
    domain: str = DOMAIN
    host_searches: tuple[str, ...] = ()


def host_searches(path: str = "/etc/resolv.conf") -> tuple[str, ...]:
    """Return the search domains of the machine, as the C library reads them: those of the last such line."""
    found: tuple[str, ...] = ()
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return ()
    for line in lines:
        keyword, *words = line.split() or [""]
        if keyword in ("search", "domain"):
            found = tuple(word for word in words if word != ".")
    return found


def hostname(pod: Object) -> str:
    """Return the pod's hostname: its own, else the pod's name, cut to what Linux takes."""
    name = pod["spec"].get("hostname") or pod["metadata"]["name"]
    return str(name)[:HOSTNAME_LIMIT].rstrip("-.")


def fqdn(pod: Object, domain: str) -> str:
    """Return the pod's long name, which it has by its `subdomain`; empty without one."""
    subdomain = pod["spec"].get("subdomain")
    return f"{hostname(pod)}.{subdomain}.{pod['metadata']['namespace']}.svc.{domain}" if subdomain else ""


def kernel_hostname(pod: Object, domain: str) -> str:
    """Return what the pod's kernel calls it: the long name with `setHostnameAsFQDN`.

    Raises:
        ValueError: that name is longer than the kernel takes; the text is the kubelet's.
    """
    long = fqdn(pod, domain) if pod["spec"].get("setHostnameAsFQDN") else ""
    if len(long) > FQDN_LIMIT:
        raise ValueError(
            f"Failed to construct FQDN from Pod hostname and cluster domain, FQDN {long} is too long "
            f"({FQDN_LIMIT} characters is the max, {len(long)} characters requested)"
        )
    return long or hostname(pod)


def sandbox_spec(
    pod: Object, network: ClusterNetwork, *, pids: int = 0, memory: Sequence[MemoryVolume] = ()
) -> SandboxSpec:
    """Return the sandbox: names, resolver (dnsPolicy, dnsConfig) and /etc/hosts additions.

    `pids`: how many processes it may have; `memory`: its volumes there. Raises ValueError for a long hostname.
    """
    metadata, spec = pod["metadata"], pod["spec"]
    host_network = bool(spec.get("hostNetwork"))
    policy = spec.get("dnsPolicy", "ClusterFirst")
    namespace = metadata["namespace"]
    nameservers: list[str] = []
    searches: list[str] = []
    options: list[str] = []
    # The cluster's DNS is not reachable from the host's network: such pods use the host's resolver. That in turn is
    # mostly not reachable from the pods' network: there `Default` is to have the cluster's DNS ask it.
    if policy == "Default" and not host_network:
        nameservers, searches = [network.dns_ip], list(network.host_searches)
    elif policy in ("ClusterFirst", "ClusterFirstWithHostNet") and not host_network:
        nameservers = [network.dns_ip]
        searches = [f"{namespace}.svc.{network.domain}", f"svc.{network.domain}", network.domain]
        searches += network.host_searches
        options = ["ndots:5"]
    config: Mapping[str, Any] = section(spec, "dnsConfig")
    nameservers += [ip for ip in config.get("nameservers") or () if ip not in nameservers]
    searches += [s for s in config.get("searches") or () if s not in searches]
    for option in config.get("options") or ():
        text = option["name"] + (f":{option['value']}" if option.get("value") is not None else "")
        options = [o for o in options if o.partition(":")[0] != option["name"]] + [text]
    return SandboxSpec(
        uid=metadata["uid"],
        namespace=namespace,
        name=metadata["name"],
        hostname=kernel_hostname(pod, network.domain),
        fqdn=fqdn(pod, network.domain),
        host_network=host_network,
        host_ipc=bool(spec.get("hostIPC")),
        searches=tuple(searches),
        nameservers=tuple(nameservers),
        dns_options=tuple(options),
        # On a node, containers of a pod in its process namespace see each other, too.
        share_processes=bool(spec.get("shareProcessNamespace") or spec.get("hostPID")),
        share_memory=len(spec["containers"]) + len(spec.get("initContainers") or ()) > 1,
        sysctls=tuple(sysctls(pod)),
        hosts=tuple((a["ip"], tuple(a.get("hostnames") or ())) for a in spec.get("hostAliases") or ()),
        pids_limit=pids,
        memory_volumes=tuple(memory),
    )


class ContainerParts(msgspec.Struct, frozen=True, kw_only=True):
    """What was prepared for one attempt of a container."""

    attempt: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    mounts: Sequence[Mount]
    image: RunImage
    devices: tuple[str, ...]
    log_path: Path
    masked: tuple[str, ...]
    cpus: tuple[int, ...] = ()
    cpu_largest: int = 0
    oom_score: int = 1000


def container_spec(pod: Object, container: Object, parts: ContainerParts) -> ContainerSpec:
    """Return the attempt as the runtime takes it. The container's securityContext wins over the pod's.

    A user is asked for by number wherever the node runs: without subordinate ids it is another number for the caller.
    """
    shared = section(pod["spec"], "securityContext")
    own = section(container, "securityContext")
    added = section(own, "capabilities")

    def chosen(field: str) -> int | None:
        value = own.get(field, shared.get(field))
        return int(value) if value is not None else None

    return ContainerSpec(
        name=container["name"],
        attempt=parts.attempt,
        argv=parts.argv,
        env=tuple(parts.env.items()),
        cwd=container.get("workingDir") or parts.image.image.workdir or DEFAULT_WORKDIR,
        mounts=tuple(parts.mounts),
        layers=parts.image.image.layers,
        root=parts.image.root,
        volumes=_anonymous_volumes(parts),
        user=parts.image.user,
        uid=chosen("runAsUser"),
        gid=chosen("runAsGroup"),
        supplemental_gids=(*(shared.get("supplementalGroups") or ()), *_groups_of_volumes(shared)),
        strict_groups=shared.get("supplementalGroupsPolicy") == "Strict",
        read_only_root=bool(own.get("readOnlyRootFilesystem")),
        no_new_privs=own.get("allowPrivilegeEscalation") is False,
        privileged=bool(own.get("privileged")),
        unconfined=is_unconfined(shared, own),
        drop_caps=tuple(c.removeprefix("CAP_") for c in added.get("drop") or ()),
        add_caps=tuple(c.removeprefix("CAP_") for c in added.get("add") or ()),
        devices=parts.devices,
        tty=bool(container.get("tty")),
        stdin=bool(container.get("stdin")),
        stdin_once=bool(container.get("stdinOnce")),
        log_path=str(parts.log_path),
        masked=parts.masked,
        termination_message_path=container.get("terminationMessagePath") or "/dev/termination-log",
        beside=container.get("targetContainerName") or "",
        **msgspec.structs.asdict(container_amounts(pod, container)),
        cpu_largest=parts.cpu_largest,
        cpus=parts.cpus,
        oom_score=parts.oom_score,
    )


def container_amounts(pod: Object, container: Object) -> Amounts:
    """Return what the container may use, as the runtime takes it."""
    return Amounts(
        memory_limit=in_bytes(limits_of(container).get("memory")),
        cpu_limit=in_milli(limits_of(container).get("cpu")),
        cpu_request=_cpu_request(pod, container),
    )


def _anonymous_volumes(parts: ContainerParts) -> tuple[str, ...]:
    """Return the volumes of the image at which the pod mounts nothing."""
    mounted = {posixpath.normpath(mount.path) for mount in parts.mounts}
    return tuple(path for path in parts.image.volumes if posixpath.normpath(path) not in mounted)


def _cpu_request(pod: Object, container: Object) -> int:
    """Return what the container's share of CPU time follows, in thousandths of a core.

    Whoever comes before all others, as the operator does, has a core's share: jobs wait for it.
    """
    if _is_before_all(pod):
        return 1000
    return in_milli(requests_of(container).get("cpu"))


def contended_cpu(pod: Object, container: Object) -> int:
    """Return the request that others yield to, in thousandths of a core: not that of a pod which mostly waits."""
    if _is_before_all(pod):
        return 0
    return in_milli(requests_of(container).get("cpu") or limits_of(container).get("cpu"))


def _is_before_all(pod: Object) -> bool:
    return int(pod["spec"].get("priority") or 0) >= HIGHEST_USER_PRIORITY


def _groups_of_volumes(shared: Object) -> tuple[int, ...]:
    group = shared.get("fsGroup")
    return () if group is None else (int(group),)


def user_of(shared: Object, own: Object) -> int | None:
    """Return the uid that securityContexts of a pod and its container ask for."""
    value = own.get("runAsUser", shared.get("runAsUser"))
    return int(value) if value is not None else None


def is_unconfined(shared: Object, own: Object) -> bool:
    """Return whether a container runs without the filter of system calls; securityContexts of its pod and its own.

    One that says nothing has the runtime's filter, as with the kubelet's `seccompDefault`; so has one that names a
    file of the machine, which is reported.
    """
    profile = own.get("seccompProfile") or shared.get("seccompProfile") or {}
    return bool(own.get("privileged")) or profile.get("type") == "Unconfined"


def python_prefix() -> str:
    """Return the node's own Python environment, whose programs containers find first."""
    return sys.prefix
