"""metrics.k8s.io: what nodes and containers use now, as the node measures it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.http import Answer
from trainshed.cluster.apiserver.selection import selection
from trainshed.cluster.store import keys
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import NODES, PODS, Resource
from trainshed.kube.wire.options import CollectionOptions

WINDOW = "20s"
Amounts = Mapping[str, str]
"""Quantities by resource name, e.g. `{"cpu": "154m", "memory": "1024Ki"}`."""


@runtime_checkable
class UsageSource(Protocol):
    """Nodes that measure."""

    async def node_usage(self) -> Mapping[str, Amounts]:
        """Return usage by node name."""
        ...

    async def pod_usage(self) -> Mapping[tuple[str, str], Mapping[str, Amounts]]:
        """Return usage by (namespace, pod name) and container name; running containers only."""
        ...


async def read(core: Core, call: Call) -> Answer:
    """Return one NodeMetrics or PodMetrics, or the list that is selected. Raises `ApiError` 404, 503."""
    source: object = core.nodes
    if not isinstance(source, UsageSource):
        raise ApiError(503, "ServiceUnavailable", "Metrics API not available")
    if call.kind.resource.plural == "nodes":
        found = [
            _metrics(core, call, NODES, None, name, {"usage": dict(amounts)})
            for name, amounts in (await source.node_usage()).items()
        ]
    else:
        found = [
            _metrics(
                core,
                call,
                PODS,
                namespace,
                name,
                {"containers": [{"name": c, "usage": dict(a)} for c, a in containers.items()]},
            )
            for (namespace, name), containers in (await source.pod_usage()).items()
            if call.route.namespace in (None, namespace)
        ]
    items = [obj for obj in found if obj is not None]
    if call.route.name:
        for obj in items:
            if obj["metadata"]["name"] == call.route.name:
                return Answer.json(obj)
        raise call.kind.missing(call.route.name)
    chosen = selection(call.kind, CollectionOptions.decode(call.request.query))
    items = sorted(
        (obj for obj in items if chosen.matches(obj)),
        key=lambda obj: (obj["metadata"].get("namespace", ""), obj["metadata"]["name"]),
    )
    return Answer.json(
        {
            "kind": call.kind.info.list_kind,
            "apiVersion": call.kind.resource.api_version,
            "metadata": {"resourceVersion": str(core.store.revision)},
            "items": items,
        }
    )


def _metrics(
    core: Core, call: Call, resource: Resource, namespace: str | None, name: str, fields: Object
) -> Object | None:
    """Return the metrics of an object that is still there."""
    stored = core.store.get(keys.of(resource, namespace, name))
    if stored is None:
        return None
    held = stored.obj["metadata"]
    metadata: Object = {"name": name, "creationTimestamp": call.timestamp}
    if namespace:
        metadata["namespace"] = namespace
    if held.get("labels"):
        metadata["labels"] = held["labels"]
    return {
        "kind": call.kind.resource.kind,
        "apiVersion": call.kind.resource.api_version,
        "metadata": metadata,
        "timestamp": call.timestamp,
        "window": WINDOW,
        **fields,
    }
