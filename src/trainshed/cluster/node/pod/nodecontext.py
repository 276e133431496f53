"""What all workers of a node share."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from trainshed.client.client import Client
from trainshed.client.events import EventRecorder
from trainshed.cluster.node.attachments import Attachments
from trainshed.cluster.node.devices.nvml import Gpu
from trainshed.cluster.node.paths import NodePaths
from trainshed.cluster.node.pod.amounts import pids_limit
from trainshed.cluster.node.pod.cores import Cores
from trainshed.cluster.node.pod.environment import Egress
from trainshed.cluster.node.pod.images import Images, Mode
from trainshed.cluster.node.pod.sandboxspec import ClusterNetwork
from trainshed.cluster.node.pod.shares import Shares
from trainshed.cluster.node.pod.unsupported import Capabilities, local_capabilities
from trainshed.cluster.node.podfields import NodeFacts
from trainshed.cluster.sandbox.addresses import API_ADDRESS, API_PORT, GATEWAY
from trainshed.cluster.sandbox.api import Runtime
from trainshed.kube.meta.objects import Object

PublishPod = Callable[[Object], Awaitable[None]]


def local_pids_limit() -> int:
    """Return how many processes and threads a pod may have on this machine (`podPidsLimit` of a kubelet)."""
    try:
        most = int(Path("/proc/sys/kernel/pid_max").read_text())
    except (OSError, ValueError):
        most = 32768
    return pids_limit(os.cpu_count() or 1, most)


class MachineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for every pod of this machine; everything has a default that suits one machine.

    `masked` are host paths hidden from containers beside the state directory. `images`: what containers run in whose
    image is not in the store. `pids`: how many processes and threads a pod may have.
    """

    host_ip: str = GATEWAY
    api_host: str = API_ADDRESS
    api_port: int = API_PORT
    egress: Egress = Egress()
    network: ClusterNetwork = ClusterNetwork()
    capabilities: Capabilities = msgspec.field(default_factory=local_capabilities)
    masked: tuple[str, ...] = ()
    images: Mode = "machine"
    pids: int = msgspec.field(default_factory=local_pids_limit)


class NodeContext(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Services and facts for the workers.

    `services` returns the Services of a namespace as last seen; `publish` makes a pod's DNS records true before its
    status is written, `join` has its network know a new pod's address before it runs, `forget` drops both; `pods`
    returns those of the node with the resources that they were given; `resync` asks for a comparison with what the
    runtime says.
    """

    client: Client
    runtime: Runtime
    recorder: EventRecorder
    paths: NodePaths
    images: Images
    facts: NodeFacts
    options: MachineOptions
    services: Callable[[str], Sequence[Object]]
    publish: PublishPod
    join: Callable[[Object, str], Awaitable[None]]
    forget: Callable[[str], None]
    resync: Callable[[], None]
    search_path: str
    tools: Path | None
    gpus: tuple[int, ...]
    known_gpus: Mapping[int, Gpu] = {}
    pods: Callable[[], Sequence[Object]]
    cores: Cores
    shares: Shares
    attachments: Attachments
    now: Callable[[], float]
    allocated: dict[str, dict[str, tuple[int, ...]]] = {}
    """GPU indexes by pod uid and container; a pod that ended gives its own back."""
