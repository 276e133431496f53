"""Which nodes this machine shows: the same as last time, unless another number is asked for.

Names outlive a change of the machine's hostname, for pods are bound to them. A node that is shown no longer is
deleted with its pods, as a cluster's pod garbage collector does: nothing else would ever end them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from trainshed.client.client import Client
from trainshed.cluster.node.fake.nodes import RUNTIME as FAKE_RUNTIME
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.resources import NODES, PODS

RUNTIME = "trainshed://"
"""How `nodeInfo.containerRuntimeVersion` of our nodes starts."""


def node_names(hostname: str, known: Sequence[Object], count: int) -> list[str]:
    """Return the nodes to show: `count`, or with 0 as many as there are among the `known` Node objects."""
    ours = [node for node in known if _is_ours(node)]
    first = min(
        ours, key=lambda n: (n["metadata"]["creationTimestamp"], len(n["metadata"]["name"])), default=None
    )
    if first is not None:
        name = str(first["metadata"]["name"])
    else:
        # A hostname may have characters that a label of the DNS has not.
        name = re.sub(r"[^a-z0-9-]+", "-", hostname.lower().partition(".")[0])[:60].strip("-") or "localhost"
    return [name, *(f"{name}-{number}" for number in range(2, (count or len(ours)) + 1))]


async def settle_nodes(client: Client, hostname: str, count: int) -> list[str]:
    """Return `node_names` and forget the other nodes of ours. Called before anything schedules. Raises ApiError."""
    known = (await client.list(NODES)).items
    names = node_names(hostname, known, count)
    await _forget(client, [n for n in known if _is_ours(n) and n["metadata"]["name"] not in names])
    return names


async def settle_fakes(client: Client, count: int | None) -> int:
    """Return how many fake nodes to show: `count`, or as many as there are; forget those beyond. Raises ApiError."""
    known = [node for node in (await client.list(NODES)).items if _runtime(node).startswith(FAKE_RUNTIME)]
    wanted = len(known) if count is None else count
    names = {f"fake-{number}" for number in range(wanted)}
    await _forget(client, [node for node in known if node["metadata"]["name"] not in names])
    return wanted


async def _forget(client: Client, nodes: Sequence[Object]) -> None:
    gone = {node["metadata"]["name"] for node in nodes}
    for pod in (await client.list(PODS)).items if gone else ():
        if pod["spec"].get("nodeName") in gone:
            await _delete(client, pod, pod["metadata"]["name"], pod["metadata"]["namespace"])
    for node in nodes:
        await _delete(client, node, node["metadata"]["name"], None)


async def _delete(client: Client, obj: Object, name: str, namespace: str | None) -> None:
    resource = NODES if namespace is None else PODS
    try:
        await client.delete(resource, name, namespace, grace_period_seconds=0, uid=obj["metadata"]["uid"])
    except ApiError as error:
        if error.code not in (404, 409):
            raise


def _is_ours(node: Object) -> bool:
    return _runtime(node).startswith(RUNTIME)


def _runtime(node: Object) -> str:
    return str(section(node, "status", "nodeInfo").get("containerRuntimeVersion", ""))
