"""When the zone is pushed: at once, and less often the longer a push takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from tests.fakes.api import FakeApi
from tests.fakes.virtual_time import run_virtual
from trainshed.client.client import Client
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.cluster.node.network import (
    GATHER_SECONDS,
    PUBLISH_SECONDS,
    RETRY_PORT_SECONDS,
    NetworkController,
)
from trainshed.cluster.sandbox.api import DnsRecords, Place, Route
from trainshed.kube.meta import resources
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


@asynccontextmanager
async def running(api: FakeApi, server: Server) -> AsyncIterator[NetworkController]:
    """Run a controller, with the informers that it needs, against these two."""
    client = Client(api)
    informers, recorder = SharedInformers(client), EventRecorder(client, "kube-proxy")
    network = NetworkController(server, client, informers, recorder, domain="cluster.local")  # type: ignore[arg-type]
    tasks = [asyncio.create_task(informers.run()), asyncio.create_task(network.run())]
    network.complete()
    try:
        yield network
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await recorder.close()


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
        async with running(api, server) as dns:
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

    run_virtual(main())


def test_names_that_no_pod_waits_for_have_time() -> None:
    """A push takes 50 ms. The next one, of a service, comes a second later; that of a pod sooner."""

    async def main() -> None:
        api, server = FakeApi(), Server(0.05)
        async with running(api, server) as dns:
            await _service(api, 1)
            await asyncio.sleep(0.1)
            await _service(api, 2)
            await asyncio.sleep(1.1)
            await dns.publish(_pod(2))
            first, second, third = server.pushed
            assert second - first > 1.0
            assert third - second < 0.6

    run_virtual(main())


def test_a_pod_that_no_name_or_route_says_anything_of_waits_for_none() -> None:
    """Others' names are being pushed, which takes half a second."""

    async def main() -> None:
        api, server = FakeApi(), Server(0.5)
        async with running(api, server) as dns:
            await asyncio.sleep(1)
            await _service(api, 1)
            await asyncio.sleep(0.1)
            loop, pod = asyncio.get_running_loop(), _pod(2)
            began = loop.time()
            await dns.publish(pod)
            assert loop.time() == began
            # What was behind a Service a moment ago is waited for, or its name would outlive it.
            named = _pod(2)
            named["metadata"]["labels"] = {"app": "1"}
            await dns.publish(named)
            assert server.records.services["s1.ns.svc.cluster.local"] == ("10.0.0.1",)
            await dns.publish(pod)
            assert server.records.services == {}

    run_virtual(main())


def test_a_pod_runs_when_the_names_of_its_namespace_are_known() -> None:
    """Else a look-up would be told that there is no such name, instead of being kept until it has an address."""

    async def main() -> None:
        api, server = FakeApi(), Server(0.05)
        async with running(api, server) as dns:
            loop = asyncio.get_running_loop()
            await asyncio.sleep(5)
            for number in (
                1,
                2,
            ):  # the second one while the first one is pushed, and as long as no pod waits for it
                await _service(api, number)
                await asyncio.sleep(0.03)
            other = _pod(9)
            other["metadata"]["namespace"] = "other"
            began = loop.time()
            await dns.join(other, "10.88.0.9")
            assert loop.time() == began
            await dns.join(_pod(9), "10.88.0.10")
            assert server.records.pending == ("s1.ns.svc.cluster.local", "s2.ns.svc.cluster.local")
            assert loop.time() - began < 0.05 * 11
            ended = loop.time()
            await dns.join(_pod(9), "10.88.0.10")
            assert loop.time() == ended
            await asyncio.sleep(5)
            await _service(api, 3)
            await asyncio.sleep(0.02)
            await dns.join(_pod(9), "10.88.0.10")
            assert "s3.ns.svc.cluster.local" in server.records.pending, "the push had begun"
            assert len(server.pushed) == 4

    run_virtual(main())


def test_one_push_that_waited_for_the_machine_does_not_hold_back_the_next() -> None:
    async def main() -> None:
        api, server = FakeApi(), Server(0.001)
        async with running(api, server):
            for number, seconds in enumerate((0.001, 0.001, 0.3, 0.001)):
                server.seconds = seconds
                await _service(api, number)
                await asyncio.sleep(0.4)
            assert len(server.pushed) == 4
            assert server.pushed[-1] - server.pushed[-2] < 0.41

    run_virtual(main())


@pytest.mark.parametrize(
    "spec",
    [
        {"subdomain": "s1", "containers": []},
        {"containers": [{"ports": [{"containerPort": 80, "hostPort": 8080}]}]},
    ],
    ids=["subdomain", "hostPort"],
)
def test_a_pod_with_a_name_or_a_port_of_its_own_waits_for_it(spec: Object) -> None:
    async def main() -> None:
        api, server = FakeApi(), Machine()
        async with running(api, server) as dns:
            await _service(api, 1)
            await asyncio.sleep(0.1)
            routes, pushed = len(server.routes), len(server.pushed)
            await dns.publish({**_pod(2), "spec": spec})
            assert len(server.pushed) + len(server.routes) > routes + pushed

    run_virtual(main())


def test_a_pod_waits_before_it_runs_until_it_is_led_to_its_own_node() -> None:
    """Only where a Service asks for that."""

    async def main() -> None:
        api, server = FakeApi(), Machine()
        async with running(api, server) as network:
            await asyncio.sleep(1)
            loop, client = asyncio.get_running_loop(), _pod(9)
            client["spec"]["nodeName"], client["metadata"]["uid"] = "one", "client"
            began = loop.time()
            await network.join(client, "10.88.0.9")
            assert loop.time() == began
            endpoint = _pod(1)
            endpoint["spec"]["nodeName"] = "one"
            spec = {
                "clusterIP": "10.96.9.9",
                "selector": {"app": "1"},
                "ports": [{"port": 80}],
                "internalTrafficPolicy": "Local",
            }
            await api.put(f"{SERVICES}/s1", kind="Service", spec=spec)
            await network.publish(endpoint)
            await asyncio.sleep(1)

            def clients() -> list[str]:
                return [ip for route in server.routes[-1] for group in route.groups for ip in group.clients]

            assert clients() == ["10.88.0.9"]
            other = _pod(9)
            other["spec"]["nodeName"], other["metadata"]["uid"] = "one", "other"
            await network.join(other, "10.88.0.10")
            assert clients() == ["10.88.0.10", "10.88.0.9"]
            network.forget("client")
            await asyncio.sleep(1)
            assert clients() == ["10.88.0.10"]
            elsewhere = _pod(9)
            elsewhere["spec"]["nodeName"], elsewhere["metadata"]["uid"] = "two", "elsewhere"
            for newest, led in ((elsewhere, []), (other, ["10.88.0.10"])):
                await network.join(newest, "10.88.0.10")
                await asyncio.sleep(1)
                assert clients() == led, "an address that is given again is its newest pod's"
            network.forget("elsewhere")
            await asyncio.sleep(1)
            assert clients() == ["10.88.0.10"]

    run_virtual(main())


class Machine(Server):
    """A server whose `taken` ports another program has."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self.taken: set[int] = set()
        self.routes: list[Sequence[Route]] = []

    async def set_routes(self, routes: Sequence[Route]) -> dict[Place, str]:
        self.routes.append(routes)
        return {route.place: "Address already in use" for route in routes if route.port in self.taken}


def test_a_load_balancer_says_where_it_is_reached_once_its_port_is_had() -> None:
    """While another program has it, an event says so, and it is tried again; the first try is no news."""

    async def main() -> None:
        api, machine = FakeApi(), Machine()
        machine.taken = {8000}
        client = Client(api)
        async with running(api, machine):
            spec = {
                "type": "LoadBalancer",
                "clusterIP": "10.96.9.9",
                "selector": {"app": "0"},
                "ports": [{"port": 8000}],
            }
            await api.put(f"{SERVICES}/lb", kind="Service", spec=spec)

            async def ingress() -> object:
                service = await client.get(resources.SERVICES, "lb", "ns")
                return (service.get("status") or {}).get("loadBalancer", {}).get("ingress")

            async def events() -> list[str]:
                found = await client.list(resources.EVENTS, "ns")
                return [one["message"] for one in found.items if one["reason"] == "PortNotOpened"]

            await asyncio.sleep(RETRY_PORT_SECONDS / 2)
            assert len(machine.routes) == 1 and not await ingress() and not await events()
            await asyncio.sleep(2 * RETRY_PORT_SECONDS)
            text = "port 8000/TCP of this machine is not opened at 127.0.0.1: Address already in use"
            assert await events() == [text]
            machine.taken.clear()
            await asyncio.sleep(2 * RETRY_PORT_SECONDS)
            assert await ingress() == [{"ip": "127.0.0.1", "ipMode": "Proxy"}]
            tries = len(machine.routes)
            await asyncio.sleep(10 * RETRY_PORT_SECONDS)
            assert len(machine.routes) == tries
            await api.put(f"{SERVICES}/lb", kind="Service", spec={**spec, "type": "NodePort"})
            await asyncio.sleep(1)
            assert not await ingress()

    run_virtual(main())


def test_routes_follow_a_pod_that_is_ready_relabelled_or_to_be_deleted() -> None:
    async def main() -> None:
        api, machine = FakeApi(), Machine()
        async with running(api, machine) as network:
            spec = {"clusterIP": "10.96.9.9", "selector": {"app": "0"}, "ports": [{"port": 80}]}
            await api.put(f"{SERVICES}/web", kind="Service", spec=spec)
            one, other = _pod(0), _pod(0)
            other["metadata"]["uid"], other["status"]["podIP"] = "v", "10.0.0.2"

            def behind() -> list[str]:
                return [ip for route in machine.routes[-1] for ip, _ in route.endpoints]

            for pod in (one, other):
                await network.publish(pod)
            assert behind() == ["10.0.0.1", "10.0.0.2"]
            stripped = {name: value for name, value in one.items() if name != "status"}
            ending = {**one["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
            network.update({**stripped, "metadata": ending})
            await asyncio.sleep(1)
            assert behind() == ["10.0.0.2"]
            network.update({**other, "metadata": {**other["metadata"], "labels": {}}})
            await asyncio.sleep(1)
            assert behind() == ["10.0.0.1"], "it ends, and still serves while nobody else does"
            network.forget("u")
            await asyncio.sleep(1)
            assert behind() == []

    run_virtual(main())
