"""The `scale` subresource of whatever kind an object refers to."""

from __future__ import annotations

import msgspec

from trainshed.client.client import Client
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import Resource


async def scalable(client: Client, api_version: str, kind: str) -> Resource | str:
    """Return the resource of a kind that has replicas, or why there is none."""
    group, _, version = api_version.rpartition("/")
    try:
        listed = msgspec.json.decode(
            await client.raw_get(
                f"/apis/{api_version}" if group else f"/api/{version}", accept="application/json"
            )
        )
    except ApiError as error:
        if error.code != 404:
            return error.message
        listed = {"resources": []}
    found = {r["name"]: r["kind"] for r in listed["resources"]}
    plural = next((name for name, its in found.items() if its == kind and "/" not in name), None)
    if plural is None:
        return f'no matches for kind "{kind}" in group "{group}"'
    resource = Resource(group, version, plural, kind)
    if f"{plural}/scale" not in found:
        return f"{resource.group_resource} does not implement the scale subresource"
    return resource


async def scale_of(client: Client, resource: Resource, namespace: str, name: str) -> Object:
    """Return the Scale of an object.

    Raises:
        ApiError: it is gone, or cannot be read.
    """
    path = resource.path(namespace, name, "scale")
    scale: Object = msgspec.json.decode(await client.raw_get(path, accept="application/json"))
    return scale
