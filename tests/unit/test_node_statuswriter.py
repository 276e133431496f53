"""How a pod's status reaches the API."""

from __future__ import annotations

import asyncio

from tests.fakes.api import FakeApi
from tests.unit.node_builders import NOW, make_pod, running, seen
from trainshed.client.client import Client
from trainshed.cluster.node.pod.observed import StatusContext
from trainshed.cluster.node.pod.status import pod_status
from trainshed.cluster.node.pod.statuswriter import StatusWriter

CONTEXT = StatusContext("10.88.0.1", lambda image: "")
PATH = "/api/v1/namespaces/default/pods/web"


async def test_only_the_newest_status_is_written_and_events_follow():
    api = FakeApi()
    await api.put(PATH, metadata={"uid": "u1"}, status={})
    order: list[str] = []

    async def publish(status):
        order.append(f"publish {status['phase']}")

    writer = StatusWriter(StatusClient(api, order), make_pod(), publish)
    pod = make_pod()
    writer.submit(pod_status(pod, seen(None), NOW, CONTEXT), [])
    writer.submit(pod_status(pod, seen(main=running()), NOW, CONTEXT), [lambda: order.append("event")])
    writer.submit(pod_status(pod, seen(main=running()), NOW, CONTEXT), [])
    async with asyncio.timeout(5):
        await writer.flush()
    assert order == ["publish Running", "write Running", "event"]
    writer.close()


async def test_a_status_is_written_once_the_api_is_back():
    api = FakeApi()
    await api.put(PATH, metadata={"uid": "u1"}, status={})
    api.fail_requests = 2
    order: list[str] = []

    async def publish(status):
        pass

    writer = StatusWriter(StatusClient(api, order), make_pod(), publish)
    writer.submit(pod_status(make_pod(), seen(main=running()), NOW, CONTEXT), [])
    async with asyncio.timeout(5):
        await writer.flush()
    assert order == ["write Running"]
    writer.close()


class StatusClient(Client):
    """Notes status writes that arrived."""

    def __init__(self, api: FakeApi, order: list[str]) -> None:
        super().__init__(api)
        self._order = order

    async def patch(self, resource, name, namespace, patch, *, subresource="", **options):
        assert subresource == "status" and patch["metadata"]["uid"] == "u1"
        answer = await super().patch(resource, name, namespace, patch, subresource=subresource, **options)
        self._order.append(f"write {patch['status']['phase']}")
        return answer
