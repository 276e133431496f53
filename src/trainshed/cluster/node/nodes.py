"""Several nodes on one machine, as the API server sees them: each pod's requests go to its own node."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

from trainshed.cluster.backend import ByteStream, ExecSession, LogOptions
from trainshed.cluster.node.access import NodeAccess
from trainshed.cluster.node.metrics import CpuMeter, amounts, machine_usage
from trainshed.cluster.node.node import NodeAgent
from trainshed.kube.meta.errors import bad_request
from trainshed.kube.meta.objects import Object


class NodeGroup:
    """A `NodeBackend` that hands every call to the node the pod is bound to."""

    def __init__(self) -> None:
        self._agents: list[NodeAgent] = []
        self._nodes: dict[str, NodeAccess] = {}
        self._machine = CpuMeter(time.time(), machine_usage().cpu_seconds)

    def add(self, agent: NodeAgent) -> None:
        """Serve the pods of this node too. Call before the agent runs: all nodes share the first one's
        DNS zone and its stream of container ends."""
        if self._agents:
            agent.share(self._agents[0])
        self._agents.append(agent)
        self._nodes[agent.node_name] = agent.backend()

    def _of(self, pod: Object) -> NodeAccess:
        node = pod["spec"].get("nodeName", "")
        if node not in self._nodes:
            raise bad_request(f'node "{node}" of pod {pod["metadata"]["name"]} is not running')
        return self._nodes[node]

    def logs(self, pod: Object, options: LogOptions) -> AsyncIterator[bytes]:
        return self._of(pod).logs(pod, options)

    async def exec(
        self, pod: Object, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> ExecSession:
        return await self._of(pod).exec(pod, container, command, stdin=stdin, tty=tty)

    async def attach(self, pod: Object, container: str, *, stdin: bool, tty: bool) -> ExecSession:
        return await self._of(pod).attach(pod, container, stdin=stdin, tty=tty)

    async def port_forward(self, pod: Object, port: int) -> ByteStream:
        return await self._of(pod).port_forward(pod, port)

    async def node_usage(self) -> dict[str, dict[str, str]]:
        """Return usage by node name: the machine's own for a single node, the sum of its pods for each of
        several."""
        if len(self._nodes) == 1:
            used = machine_usage()
            cores = self._machine.cores(used.cpu_seconds, time.time())
            return {name: amounts(cores, used.memory_bytes) for name in self._nodes}
        out = {}
        for name, access in self._nodes.items():
            pods = (await access.measure()).values()
            out[name] = amounts(sum(cores for cores, _, _ in pods), sum(memory for _, memory, _ in pods))
        return out

    async def pod_usage(self) -> dict[tuple[str, str], dict[str, dict[str, str]]]:
        """Return usage by (namespace, pod name) and container name; running containers only.

        Pods are measured whole: the first running container carries the pod's use, the others none.
        """
        out: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
        for measured in await asyncio.gather(*(access.measure() for access in self._nodes.values())):
            for pod, (cores, memory, containers) in measured.items():
                out[pod] = {
                    name: amounts(cores, memory) if position == 0 else amounts(0, 0)
                    for position, name in enumerate(containers)
                }
        return out
