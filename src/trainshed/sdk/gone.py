"""Wait until a deleted object is gone."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from trainshed.client.client import Client
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, name_of, namespace_of, section
from trainshed.kube.meta.resources import Resource
from trainshed.sdk.errors import UserError

GONE_SECONDS = 60.0
"""How long a deleted object may take to go, beside the grace of its pods."""
_WATCH_SECONDS = 30
"""How long the server is believed to tell: then the object is looked at again."""
_LOOK_AGAIN_SECONDS = 0.1


async def wait_gone(
    client: Client, resource: Resource, name: str, namespace: str, seconds: float = GONE_SECONDS
) -> None:
    """Return when the object is gone, told by a watch. Raises UserError after `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                held = await client.get(resource, name, namespace)
                if await _seen_going(client, resource, held):
                    return
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
    except TimeoutError as error:
        raise UserError(
            f"{resource.group_resource}/{name} is still being deleted after {seconds:g} s"
        ) from error
    except ApiError as error:
        if error.code != 404:
            raise


async def _seen_going(client: Client, resource: Resource, obj: Object) -> bool:
    """Return True once the object is deleted; False where the server ends the watch first, or grants none."""
    watch = client.watch(
        resource,
        namespace_of(obj),
        resource_version=section(obj, "metadata")["resourceVersion"],
        field_selector=f"metadata.name={name_of(obj)}",
        timeout_seconds=_WATCH_SECONDS,
        bookmarks=False,
    )
    try:
        async with aclosing(watch) as events:
            async for event in events:
                if event.type == "DELETED":
                    return True
    except ApiError as error:
        if error.code not in (403, 410):  # who may delete and read need not be allowed to watch
            raise
    return False
