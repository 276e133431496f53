"""What all workers of a node share."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from trainshed.client.client import Client
from trainshed.client.events import EventRecorder
from trainshed.cluster.images.directories import ImageRegistry
from trainshed.cluster.node.options import MachineOptions
from trainshed.cluster.node.paths import NodePaths
from trainshed.cluster.node.podfields import NodeFacts
from trainshed.cluster.sandbox.api import Runtime
from trainshed.kube.meta.objects import Object

PublishPod = Callable[[Object], Awaitable[None]]


class NodeContext:
    """Services and facts for the workers. `services` returns the Services of a namespace as last seen;
    `publish` makes a pod's DNS records true before its status is written; `resync` asks for a comparison with
    what the runtime says."""

    def __init__(
        self,
        *,
        client: Client,
        runtime: Runtime,
        recorder: EventRecorder,
        paths: NodePaths,
        facts: NodeFacts,
        options: MachineOptions,
        services: Callable[[str], Sequence[Object]],
        publish: PublishPod,
        forget: Callable[[str], None],
        resync: Callable[[], None],
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
        self.resync = resync
        self.search_path = search_path
        self.tools = tools
        self.gpus = gpus
        self.now = now
        self.images = ImageRegistry(paths.images)
        self.allocated: dict[str, dict[str, tuple[int, ...]]] = {}
        """GPU indexes by pod uid and container; a pod that ended gives its own back."""
