"""How a machine and its nodes behave; everything has a default that suits one machine."""

from __future__ import annotations

import msgspec

from trainshed.cluster.node.pod.environment import Egress
from trainshed.cluster.node.pod.sandboxspec import ClusterNetwork
from trainshed.cluster.node.pod.unsupported import Capabilities, local_capabilities
from trainshed.cluster.sandbox.addresses import API_ADDRESS, API_PORT, GATEWAY


class MachineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for every node. `masked` are host paths hidden from containers beside the state directory."""

    host_ip: str = GATEWAY
    api_host: str = API_ADDRESS
    api_port: int = API_PORT
    egress: Egress = Egress()
    network: ClusterNetwork = ClusterNetwork()
    capabilities: Capabilities = msgspec.field(default_factory=local_capabilities)
    masked: tuple[str, ...] = ()


class NodeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What one node shows. `labels` are added to the Node; `gpus` None: every GPU of the machine."""

    labels: dict[str, str] = {}
    max_pods: int = 110
    gpus: tuple[int, ...] | None = None
