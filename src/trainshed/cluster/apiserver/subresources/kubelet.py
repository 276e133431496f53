"""`nodes/proxy`: what a kubelet answers over HTTP, as far as it is about reading."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.http import Answer, Result
from trainshed.cluster.store import keys
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, spec_of
from trainshed.kube.meta.resources import NODES, PODS


@runtime_checkable
class SummarySource(Protocol):
    """Nodes that measure."""

    async def summary(self, node: str) -> Object | None:
        """Return the stats summary of a node, None where there is no such one. Raises ApiError where it is down."""
        ...


async def get(core: Core, call: Call) -> Result:
    """Return what is at a path of a node's kubelet: `healthz`, `pods`, `stats/summary`. Raises `ApiError`."""
    name, path = call.route.name, call.route.rest
    if core.store.get(keys.of(NODES, None, name)) is None:
        raise call.kind.missing(name)
    source: object = core.nodes
    found = await source.summary(name) if isinstance(source, SummarySource) else None
    if found is None:
        raise ApiError(503, "ServiceUnavailable", f"node {name} has no kubelet that answers")
    if path == "stats/summary":
        return Answer.json(found)
    if path == "healthz":
        return Answer(b"ok", content_type="text/plain; charset=utf-8")
    if path == "pods":
        pods, _ = core.store.list(keys.under(PODS))
        items = [stored.obj for stored in pods if spec_of(stored.obj).get("nodeName") == name]
        return Answer.json({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})
    return Answer(b"404 page not found\n", status=404, content_type="text/plain; charset=utf-8")
