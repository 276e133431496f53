"""When the zone is pushed: at once, and less often the longer a push takes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.fakes.api import FakeApi
from tests.fakes.virtual_time import run_virtual
from trainshed.client.client import Client
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.cluster.node.network import GATHER_SECONDS, PUBLISH_SECONDS, NetworkController
from trainshed.cluster.sandbox.api import DnsRecords, Place, Route
from trainshed.kube.meta.objects import Object

SERVICES = "/api/v1/namespaces/ns/services"


class Server:
    """A name server that takes `seconds` for a zone. `pushed` has when each began."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.pushed: list[float] = []
        self.records = DnsRecords({}, ())

    async def set_routes(self, routes: Sequence[Route]) -> dict[Place, str]:
        return {}

    async def set_records(self, records: DnsRecords) -> None:
        self.pushed.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.seconds)
        self.records = records


async def _service(api: FakeApi, number: int) -> None:
    spec = {"clusterIP": "None", "selector": {"app": str(number)}}
    await api.put(f"{SERVICES}/s{number}", kind="Service", spec=spec)


def _pod(number: int) -> Object:
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"app": str(number)}},
        "spec": {"containers": []},
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


@pytest.mark.parametrize(("seconds", "most"), [(0.0, 201), (0.1, 5), (0.5, 2)])
def test_the_share_of_the_time_that_goes_into_names_is_bounded(seconds: float, most: int) -> None:
    """For two seconds a service is made every hundredth of a second."""

    async def main() -> None:
        api, server = FakeApi(), Server(seconds)
        informers = SharedInformers(Client(api))
        dns = NetworkController(
            server,  # type: ignore[arg-type]
            Client(api),
            informers,
            EventRecorder(Client(api), "kube-proxy"),
            domain="cluster.local",
        )
        tasks = [asyncio.create_task(informers.run()), asyncio.create_task(dns.run())]
        dns.complete()
        for number in range(200):
            await _service(api, number)
            await asyncio.sleep(0.01)
        assert len(server.pushed) <= most
        began = asyncio.get_running_loop().time()
        await dns.publish(_pod(199))
        assert server.records.services["s199.ns.svc.cluster.local"] == ("10.0.0.1",)
        waited = asyncio.get_running_loop().time() - began
        assert waited <= min(GATHER_SECONDS + 7 * seconds, PUBLISH_SECONDS) + 0.001
        assert len(server.records.services) + len(server.records.pending) == 200
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run_virtual(main())
