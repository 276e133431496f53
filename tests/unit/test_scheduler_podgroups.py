"""How the status of a PodGroup is written. On a model of the API."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.api import FakeApi
from tests.fakes.virtual_time import run_virtual
from trainshed.client.client import Client
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.transport import Response
from trainshed.cluster.scheduler.podgroups import PodGroups
from trainshed.kube.meta.podgroups import COSCHEDULING_PODGROUPS, VOLCANO_PODGROUPS
from trainshed.kube.meta.resources import Resource
from trainshed.kube.wire.request import Request


class WithoutSubresource(FakeApi):
    """Takes a status beside the rest of a PodGroup, as Volcano's definition has it."""

    async def request(self, request: Request) -> Response:
        if request.method != "PATCH" or request.path.endswith("/status"):
            return await super().request(request)
        below = f"{request.path}/status"
        answer = await super().request(replace(request, path=below))
        self.calls[self.calls.index(("PATCH", below))] = ("PATCH", request.path)
        return answer


def written(api: FakeApi, resource: Resource) -> tuple[list[str], Any]:
    """Return by which paths a group's status was written, from below the group on, and the status."""
    path = f"/apis/{resource.api_version}/namespaces/ns/{resource.plural}/gang"

    async def main() -> None:
        await api.put(path, apiVersion=resource.api_version, kind="PodGroup", spec={"minMember": 2})
        client = Client(api)
        informers = SharedInformers(client)
        groups = PodGroups(
            client, informers, EventRecorder(client, "scheduler"), lambda unit: (), lambda unit: None
        )
        tasks = [asyncio.create_task(informers.run()), asyncio.create_task(groups.run())]
        async with asyncio.timeout(60):
            await informers.wait_synced()
        groups.pods_changed((resource.group, "ns", "gang"))
        await asyncio.sleep(5)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run_virtual(main())
    patched = [called.removeprefix(path) for method, called in api.calls if method == "PATCH"]
    return patched, api.objects[path].get("status")


def test_where_the_status_of_a_volcano_group_is_no_subresource_one_write_does() -> None:
    patched, status = written(WithoutSubresource(), VOLCANO_PODGROUPS)
    assert patched == [""]
    assert status["phase"] == "Pending"


@pytest.mark.parametrize(
    ("resource", "expected"),
    [(VOLCANO_PODGROUPS, ["", "/status"]), (COSCHEDULING_PODGROUPS, ["/status"])],
    ids=["volcano", "coscheduling"],
)
def test_where_it_is_a_subresource_it_is_written_there(resource: Resource, expected: list[str]) -> None:
    patched, status = written(FakeApi(), resource)
    assert patched == expected
    assert status["phase"] == "Pending"
