"""Makes the cluster serve PodGroups: the definitions of both APIs where there are none, and Volcano's default queue."""

from __future__ import annotations

from trainshed.client.client import Client
from trainshed.cluster.scheduler.gangs.definitions import default_queue, definitions
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, name_of, section
from trainshed.kube.meta.podgroups import VOLCANO_QUEUES
from trainshed.kube.meta.resources import CRDS, Resource

FIELD_MANAGER = "trainshed-install"
_OURS = {"app.kubernetes.io/managed-by": "trainshed"}


async def install(client: Client) -> None:
    """Create what is missing, and bring definitions of an earlier version of ours up to date. Safe to repeat."""
    for definition in definitions():
        found = await _found(client, CRDS, name_of(definition))
        if found is None or section(found, "metadata", "labels").items() >= _OURS.items():
            definition["metadata"]["labels"] = dict(_OURS)
            await client.apply(CRDS, definition, field_manager=FIELD_MANAGER)
    queue = default_queue()
    if await _found(client, VOLCANO_QUEUES, name_of(queue)) is None:
        await client.create(VOLCANO_QUEUES, queue)


async def _found(client: Client, resource: Resource, name: str) -> Object | None:
    try:
        return await client.get(resource, name)
    except ApiError as error:
        if error.code != 404:
            raise
        return None
