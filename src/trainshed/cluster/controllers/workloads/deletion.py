"""Deleting the pods that a controller has too many of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from trainshed.client.client import Client
from trainshed.client.controllers.batches import all_of
from trainshed.client.controllers.ownwrites import OwnWrites
from trainshed.client.events import EventRecorder
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import PODS

Key: TypeAlias = tuple[str, str]


async def delete_pods(
    client: Client, own: OwnWrites[Key], events: EventRecorder, owner: Object, pods: Sequence[Object]
) -> None:
    """Delete all pods of `owner` given, note each write in `own`, and say so in an event.

    Raises the first failure once every pod has been tried.
    """
    key = (owner["metadata"]["namespace"], owner["metadata"]["name"])

    async def delete(pod: Object) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        try:
            own.record(key, await client.delete(PODS, name, key[0], uid=uid))
        except ApiError as error:
            if error.code not in (404, 409):  # gone already, or another has its name
                raise
        events.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {name}")

    for failure in await all_of(pods, delete):
        raise failure
