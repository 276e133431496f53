"""The nodes of a machine, as the API server sees them: access to the one of a pod, and what all use."""

from __future__ import annotations

import asyncio
import time

from trainshed.cluster.node.access import NodeAccess
from trainshed.cluster.node.metrics import ContainerUse, CpuMeter, amounts, machine_usage
from trainshed.cluster.node.node import Node
from trainshed.kube.meta.errors import ApiError, bad_request
from trainshed.kube.meta.objects import Object


class NodeGroup:
    """Implements `cluster.backend.Nodes`."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._machine = CpuMeter(time.time(), machine_usage().cpu_seconds)

    def add(self, node: Node) -> None:
        """Serve the pods of this node too."""
        self._nodes[node.name] = node

    def of(self, pod: Object) -> NodeAccess:
        """Return the access to a pod's node. Raises ApiError 400 when that does not run."""
        name = pod["spec"].get("nodeName", "")
        if name not in self._nodes:
            raise bad_request(f'node "{name}" of pod {pod["metadata"]["name"]} is not running')
        self._check_up(self._nodes[name])
        return self._nodes[name].access

    def _check_up(self, node: Node) -> None:
        if node.is_down:
            text = f"error dialing backend: dial tcp: node {node.name} is down: connect: connection refused"
            raise ApiError(500, "InternalError", text)

    async def node_usage(self) -> dict[str, dict[str, str]]:
        """Return usage by node name: the machine's own for a single node, the sum of its pods for each of
        several."""
        if len(self._nodes) == 1:
            used = machine_usage()
            cores = self._machine.cores(used.cpu_seconds, time.time())
            return {name: amounts(cores, used.memory_bytes) for name in self._nodes}
        out = {}
        for name, node in self._nodes.items():
            pods = (await node.meter.measure()).values()
            out[name] = amounts(
                sum(use.whole.cores for use in pods), sum(use.whole.memory_bytes for use in pods)
            )
        return out

    async def summary(self, node: str) -> Object | None:
        """Return the stats summary of a node, None where there is no such one. Raises ApiError 500 where it is down."""
        found = self._nodes.get(node)
        if found is None:
            return None
        self._check_up(found)
        if len(self._nodes) > 1:
            return await found.summary(None)
        used = machine_usage()
        cores = self._machine.cores(used.cpu_seconds, time.time())
        return await found.summary(ContainerUse(cores, used.cpu_seconds, used.memory_bytes))

    async def pod_usage(self) -> dict[tuple[str, str], dict[str, dict[str, str]]]:
        """Return usage by (namespace, pod name) and container name; running containers only."""
        out: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
        for measured in await asyncio.gather(*(node.meter.measure() for node in self._nodes.values())):
            for pod, use in measured.items():
                out[pod] = {
                    name: amounts(one.cores, one.memory_bytes) for name, one in use.containers.items()
                }
        return out
