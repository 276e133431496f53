"""Brings manifests to a cluster: all of them or, when one is refused, none."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import msgspec

from trainshed.client.client import Client
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, name_of
from trainshed.kube.meta.resources import NAMESPACES, Resource
from trainshed.sdk.errors import UserError

FIELD_MANAGER = "trainshed"


def spoken(resource: Resource, name: str) -> str:
    """Return how kubectl names an object: `configmap/a`, `pytorchjob.kubeflow.org/mnist`."""
    group = f".{resource.group}" if resource.group else ""
    return f"{resource.kind.lower()}{group}/{name}"


class Applied(msgspec.Struct, frozen=True):
    """One object after the apply; `change` is "created", "configured" or "unchanged"."""

    resource: Resource
    obj: Object
    change: str

    @property
    def name(self) -> str:
        """As kubectl names it: `pytorchjob.kubeflow.org/mnist`."""
        return spoken(self.resource, name_of(self.obj))


class RestMapper:
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
        from trainshed.sdk.offline import (
            nearest_kind,  # with all kinds and their rules, for this one sentence
        )

        hint = f"did you mean {near[0]}?" if near else nearest_kind(obj)
        hint = hint or "kubectl api-resources lists what the cluster serves"
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


class Placed(msgspec.Struct, frozen=True):
    """An object that the server would take: its resource, and what stands under its name now."""

    resource: Resource
    obj: Object
    before: Object | None = None

    @property
    def name(self) -> str:
        """As kubectl names it: `pytorchjob.kubeflow.org/mnist`."""
        return spoken(self.resource, name_of(self.obj))


async def apply_all(client: Client, objects: Sequence[Object], namespace: str) -> list[Applied]:
    """Server-side apply every object in order, after a dry run of all: a refused one changes nothing.

    Raises:
        ApiError: what the server refused, with the field path.
        UserError: a kind that the server does not have.
    """
    return [await apply_one(client, placed) for placed in await try_all(client, objects, namespace)]


async def try_all(client: Client, objects: Sequence[Object], namespace: str) -> list[Placed]:
    """Return the objects with their resource and namespace, each tried by one dry run; raises as `apply_all`.

    An object in a namespace that the same manifests create cannot be tried before the namespace is there; it is
    validated by its own apply.
    """
    kinds = RestMapper(client)
    resources = [await kinds.resource(obj) for obj in objects]
    homed = [(resource, _in_namespace(resource, obj, namespace)) for resource, obj in zip(resources, objects)]
    created_here = {obj["metadata"]["name"] for resource, obj in homed if resource == NAMESPACES}
    placed = []
    for resource, obj in homed:
        before = await _existing(client, resource, obj)
        if obj["metadata"].get("namespace") not in created_here:
            await try_one(client, resource, obj)
        placed.append(Placed(resource, obj, before))
    return placed


async def try_one(client: Client, resource: Resource, obj: Object) -> Object:
    """Return what the object would become, changing nothing. Raises ApiError."""
    return await client.apply(
        resource, obj, field_manager=FIELD_MANAGER, dry_run=True, field_validation="Strict"
    )


async def apply_one(client: Client, placed: Placed) -> Applied:
    """Server-side apply one object. Raises ApiError."""
    after = await client.apply(
        placed.resource, placed.obj, field_manager=FIELD_MANAGER, field_validation="Strict"
    )
    if placed.before is None:
        change = "created"
    elif placed.before["metadata"].get("resourceVersion") == after["metadata"].get("resourceVersion"):
        change = "unchanged"
    else:
        change = "configured"
    return Applied(placed.resource, after, change)


async def _existing(client: Client, resource: Resource, obj: Object) -> Object | None:
    try:
        return await client.get(resource, obj["metadata"]["name"], obj["metadata"].get("namespace"))
    except ApiError as error:
        if error.code != 404:
            raise
        return None


def _in_namespace(resource: Resource, obj: Object, namespace: str) -> Object:
    if not resource.namespaced or obj["metadata"].get("namespace"):
        return obj
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}
