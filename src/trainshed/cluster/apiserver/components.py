"""ComponentStatuses: the parts of the control plane are one process, so that all are well where one answers."""

from __future__ import annotations

from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.http import Answer, encode_json
from trainshed.cluster.apiserver.rendering import include_object, rendered, representation, yaml_answer
from trainshed.cluster.apiserver.selection import selection
from trainshed.kube.meta.objects import Object
from trainshed.kube.served import tables
from trainshed.kube.wire.options import CollectionOptions

_NAMES = ("controller-manager", "etcd-0", "scheduler")


async def read(core: Core, call: Call) -> Answer:
    """Return one ComponentStatus, or the list that is selected. Raises `ApiError` 404, 406."""
    wanted, name = representation(call), call.route.name
    if name:
        if name not in _NAMES:
            raise call.kind.missing(name)
        return rendered(call, _status(name), wanted)
    chosen = selection(call.kind, CollectionOptions.decode(call.request.query))
    items = [obj for obj in map(_status, _NAMES) if chosen.matches(obj)]
    head: Object = {"kind": call.kind.info.list_kind, "apiVersion": "v1", "metadata": {}}
    if wanted.form == "table":
        include = include_object(call)
        value = tables.table(
            call.kind.info, items, {}, call.now, include_object=include, version=wanted.version
        )
        return Answer(encode_json(value))
    listed = {**head, "items": items}
    return yaml_answer(listed) if wanted.form == "yaml" else Answer.json(listed)


def _status(name: str) -> Object:
    healthy = {"type": "Healthy", "status": "True", "message": "ok"}
    metadata = {"name": name, "creationTimestamp": None}
    return {"kind": "ComponentStatus", "apiVersion": "v1", "metadata": metadata, "conditions": [healthy]}
