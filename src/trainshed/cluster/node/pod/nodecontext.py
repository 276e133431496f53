"""What all workers of a node share."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from trainshed.client.client import Client
from trainshed.client.events import EventRecorder
from trainshed.cluster.images.directories import ImageRegistry
from trainshed.cluster.node.paths import NodePaths
from trainshed.cluster.node.pod.environment import Egress
from trainshed.cluster.node.pod.sandboxspec import ClusterNetwork
from trainshed.cluster.node.pod.unsupported import Capabilities, local_capabilities
from trainshed.cluster.node.podfields import NodeFacts
from trainshed.cluster.sandbox.api import Runtime
from trainshed.kube.meta.objects import Object

PublishPod = Callable[[Object], Awaitable[None]]


class NodeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How this node behaves; everything has a default that suits one machine.

    `masked` are host paths hidden from containers beside the state directory. `labels` are added to the Node.
    """

    host_ip: str = "10.88.0.1"
    api_host: str = "10.96.0.1"
    api_port: int = 443
    egress: Egress = Egress()
    network: ClusterNetwork = ClusterNetwork()
    capabilities: Capabilities = msgspec.field(default_factory=local_capabilities)
    masked: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    max_pods: int = 110
    gpus: tuple[int, ...] | None = None


class NodeContext:
    """Services and facts for the workers. `services` returns the Services of a namespace as last seen;
    `publish` makes a pod's DNS records true before its status is written."""

    def __init__(
        self,
        *,
        client: Client,
        runtime: Runtime,
        recorder: EventRecorder,
        paths: NodePaths,
        facts: NodeFacts,
        options: NodeOptions,
        services: Callable[[str], Sequence[Object]],
        publish: PublishPod,
        forget: Callable[[str], None],
        search_path: str,
        tools: Path | None,
        gpus: tuple[int, ...],
        now: Callable[[], float] = time.time,
    ) -> None:
        self.client = client
        self.runtime = runtime
        self.recorder = recorder
        self.paths = paths
        self.facts = facts
        self.options = options
        self.services = services
        self.publish = publish
        self.forget = forget
        self.search_path = search_path
        self.tools = tools
        self.gpus = gpus
        self.now = now
        self.images = ImageRegistry(paths.images)
        self.allocated: dict[str, dict[str, tuple[int, ...]]] = {}
        """GPU indexes by pod uid and container; a pod that ended gives its own back."""
