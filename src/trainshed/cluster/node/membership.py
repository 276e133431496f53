"""Which nodes this machine shows: the same as last time, unless another number is asked for.

Names outlive a change of the machine's hostname, for pods are bound to them. A node that is shown no longer is
deleted with its pods, as a cluster's pod garbage collector does: nothing else would ever end them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from trainshed.client.client import Client
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
    gone = {node["metadata"]["name"] for node in known if _is_ours(node)} - set(names)
    if gone:
        for pod in (await client.list(PODS)).items:
            if pod["spec"].get("nodeName") in gone:
                metadata = pod["metadata"]
                await _delete(client, pod, metadata["name"], metadata["namespace"])
        for node in known:
            if node["metadata"]["name"] in gone:
                await _delete(client, node, node["metadata"]["name"], None)
    return names


async def _delete(client: Client, obj: Object, name: str, namespace: str | None) -> None:
    resource = NODES if namespace is None else PODS
    try:
        await client.delete(resource, name, namespace, grace_period_seconds=0, uid=obj["metadata"]["uid"])
    except ApiError as error:
        if error.code not in (404, 409):
            raise


def _is_ours(node: Object) -> bool:
    info = section(node, "status", "nodeInfo")
    return str(info.get("containerRuntimeVersion", "")).startswith(RUNTIME)
