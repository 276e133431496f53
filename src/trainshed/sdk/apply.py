"""Brings manifests to a cluster: all of them or, when one is refused, none."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import msgspec

from trainshed.client.client import Client
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import NAMESPACES, Resource
from trainshed.sdk.errors import UserError

FIELD_MANAGER = "trainshed"


class Applied(msgspec.Struct, frozen=True):
    """One object after the apply; `change` is "created", "configured" or "unchanged"."""

    resource: Resource
    obj: Object
    change: str


class Kinds:
    """Resolves apiVersion and kind to a resource through the server's discovery."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lists: dict[str, list[Object]] = {}

    async def resource(self, obj: Object) -> Resource:
        """Return the resource that serves the object's kind.

        Raises:
            UserError: the server has no such kind; the hint names the nearest it has.
        """
        api_version, kind = obj["apiVersion"], obj["kind"]
        resources = await self._served(api_version)
        for entry in resources:
            if entry["kind"] == kind and "/" not in entry["name"]:
                group, _, version = api_version.rpartition("/")
                return Resource(group, version, entry["name"], kind, entry["namespaced"])
        near = difflib.get_close_matches(kind, [r["kind"] for r in resources], n=1)
        hint = f"did you mean {near[0]}?" if near else "kubectl api-resources lists what the cluster serves"
        raise UserError(f'no matches for kind "{kind}" in version "{api_version}"', hint)

    async def _served(self, api_version: str) -> list[Object]:
        if api_version not in self._lists:
            path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
            try:
                document = msgspec.json.decode(await self._client.raw_get(path, accept="application/json"))
            except ApiError as error:
                if error.code != 404:
                    raise
                document = {"resources": []}
            self._lists[api_version] = document["resources"]
        return self._lists[api_version]


async def apply_all(client: Client, objects: Sequence[Object], namespace: str) -> list[Applied]:
    """Server-side apply every object in order. A dry run of all goes first, so a refused one changes nothing.

    An object in a namespace that the same manifests create cannot be tried before the namespace is there; it is
    validated by its own apply.

    Raises:
        ApiError: what the server refused, with the field path.
        UserError: a kind that the server does not have.
    """
    placed = await try_all(client, objects, namespace)
    return [await _apply(client, resource, obj) for resource, obj in placed]


async def try_all(client: Client, objects: Sequence[Object], namespace: str) -> list[tuple[Resource, Object]]:
    """Return the objects with their resource and namespace, tried by a dry run; raises as `apply_all`."""
    kinds = Kinds(client)
    placed = [(await kinds.resource(obj), obj) for obj in objects]
    placed = [(resource, _in_namespace(resource, obj, namespace)) for resource, obj in placed]
    created_here = {obj["metadata"]["name"] for resource, obj in placed if resource == NAMESPACES}
    for resource, obj in placed:
        if obj["metadata"].get("namespace") not in created_here:
            await _apply(client, resource, obj, dry_run=True)
    return placed


async def _apply(client: Client, resource: Resource, obj: Object, *, dry_run: bool = False) -> Applied:
    try:
        before = await client.get(resource, obj["metadata"]["name"], obj["metadata"].get("namespace"))
    except ApiError as error:
        if error.code != 404:
            raise
        before = None
    after = await client.apply(
        resource, obj, field_manager=FIELD_MANAGER, dry_run=dry_run, field_validation="Strict"
    )
    if before is None:
        change = "created"
    elif before["metadata"].get("resourceVersion") == after["metadata"].get("resourceVersion"):
        change = "unchanged"
    else:
        change = "configured"
    return Applied(resource, after, change)


def _in_namespace(resource: Resource, obj: Object, namespace: str) -> Object:
    if not resource.namespaced or obj["metadata"].get("namespace"):
        return obj
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}
