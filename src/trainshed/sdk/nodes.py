"""The nodes that this machine shows: kill one, and start it again."""

from __future__ import annotations

from trainshed.cluster.node.membership import RUNTIME
from trainshed.cluster.node.registration import KILLED
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import name_of, section, texts
from trainshed.kube.meta.resources import NODES
from trainshed.sdk.connection import Target, connected
from trainshed.sdk.errors import UserError


async def set_killed(name: str, *, killed: bool) -> None:
    """Kill a node of the running cluster, or start it again.

    Raises:
        UserError: there is no such node of this machine, it is so already, or the cluster does not run.
    """
    async with connected(Target()) as client:
        try:
            node = await client.get(NODES, name)
        except ApiError as error:
            if error.code != 404:
                raise
            known = ", ".join(sorted(name_of(each) for each in (await client.list(NODES)).items))
            raise UserError(f"there is no node {name}", f"nodes are {known}") from None
        runtime = str(section(node, "status", "nodeInfo").get("containerRuntimeVersion", ""))
        if not runtime.startswith(RUNTIME):
            raise UserError(f"node {name} is none of this machine", "kubectl delete node ends it")
        if (KILLED in texts(node["metadata"], "annotations")) == killed:
            raise UserError(f"node {name} {'is dead' if killed else 'runs'} already", "kubectl get nodes")
        await client.patch(
            NODES, name, None, {"metadata": {"annotations": {KILLED: "true" if killed else None}}}
        )
