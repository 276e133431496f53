"""Several nodes on one machine, as the API server sees them: each pod's requests go to its own node."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from trainshed.cluster.backend import ByteStream, ExecSession, LogOptions, NodeBackend
from trainshed.cluster.node.agent import NodeAgent
from trainshed.kube.errors import bad_request
from trainshed.kube.resources import Object


class NodeGroup:
    """A `NodeBackend` that hands every call to the node the pod is bound to."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeBackend] = {}

    def add(self, agent: NodeAgent) -> None:
        """Serve the pods of this node too."""
        self._nodes[agent.node_name] = agent.backend()

    def _of(self, pod: Object) -> NodeBackend:
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
