"""How a machine and its nodes behave; everything has a default that suits one machine."""

from __future__ import annotations

import msgspec

from trainshed.cluster.node.pod.environment import Egress
from trainshed.cluster.node.pod.sandboxspec import ClusterNetwork
from trainshed.cluster.node.pod.unsupported import Capabilities, local_capabilities


class MachineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for every node. `masked` are host paths hidden from containers beside the state directory."""

    host_ip: str = "10.88.0.1"
    api_host: str = "10.96.0.1"
    api_port: int = 443
    egress: Egress = Egress()
    network: ClusterNetwork = ClusterNetwork()
    capabilities: Capabilities = msgspec.field(default_factory=local_capabilities)
    masked: tuple[str, ...] = ()


class NodeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What one node shows. `labels` are added to the Node; `gpus` None: every GPU of the machine."""

    labels: dict[str, str] = {}
    max_pods: int = 110
    gpus: tuple[int, ...] | None = None
