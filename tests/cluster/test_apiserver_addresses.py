"""Addresses of Services: who holds one, how long, and what is mended at the start."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.cluster.api_world import World, open_world
from trainshed.cluster.store import keys
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import IPADDRESSES

SERVICES = "/api/v1/namespaces/default/services"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
IP, PORT = "10.96.0.9", 30009


def service(name: str, port: Object | None = None, **spec: object) -> Object:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80, **(port or {})}], **spec}}


async def held(world: World) -> dict[str, str]:
    """Return the names of the Services that IPAddresses name, by address."""
    items = (await world.ok("GET", ADDRESSES))["items"]
    return {item["metadata"]["name"]: item["spec"]["parentRef"]["name"] for item in items}


async def test_what_was_refused_or_tried_may_be_sent_again_at_once(world: World) -> None:
    """A dry run, and a Service with another mistake, were given their address and port, and keep neither."""
    wanted = service("a", {"nodePort": PORT}, clusterIP=IP, type="NodePort")
    await world.ok("POST", SERVICES, wanted, dryRun="All")
    bad = service("a", {"nodePort": PORT, "port": 0}, clusterIP=IP, type="NodePort")
    await world.refused(422, "POST", SERVICES, bad)
    await world.ok("POST", SERVICES, wanted, dryRun="All")
    await world.ok("POST", SERVICES, {**wanted, "metadata": {"name": "b"}})
    await world.ok("DELETE", f"{SERVICES}/b")
    await world.ok("POST", SERVICES, wanted)
    assert await held(world) == {"10.96.0.1": "kubernetes", IP: "a"}


async def test_of_services_of_one_name_one_holds_an_address(world: World) -> None:
    made = await asyncio.gather(
        *(world.raw("POST", SERVICES, service("a")) for _ in range(8)),
        *(world.raw("POST", SERVICES, service(f"b{n}")) for n in range(8)),
    )
    assert sorted(each.status for each in made) == [201] * 9 + [409] * 7
    assert sorted((await held(world)).values()) == ["a", *(f"b{n}" for n in range(8)), "kubernetes"]
    await world.ok("DELETE", SERVICES)
    assert await held(world) == {}


async def test_the_start_mends_what_a_crash_left(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        made = await world.ok("POST", SERVICES, service("a", clusterIP=IP))
        stored = world.store.get(keys.of(IPADDRESSES, None, IP))
        assert stored is not None
        await world.store.delete(stored.key, stored.revision)
        left = {**stored.obj, "metadata": {**stored.obj["metadata"], "name": "10.96.0.10"}}
        await world.store.create(keys.of(IPADDRESSES, None, "10.96.0.10"), left)
        assert made["spec"]["clusterIP"] == IP
        assert IP not in await held(world)
        others = {"spec": {"parentRef": {"resource": "widgets", "name": "w"}}}
        await world.ok("POST", ADDRESSES, {**others, "metadata": {"name": "10.96.0.11"}})
    async with open_world(tmp_path) as world:
        assert await held(world) == {"10.96.0.1": "kubernetes", IP: "a", "10.96.0.11": "w"}


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("1.2.3.4", "failed to allocate IP 1.2.3.4: the provided network does not match the current range"),
        (
            "10.96.0.0",
            "failed to allocate IP 10.96.0.0: the provided network does not match the current range",
        ),
        (
            "10.96.255.255",
            "failed to allocate IP 10.96.255.255: the provided network does not match the current range",
        ),
        ("::1", "IPv6 is not configured on this cluster"),
    ],
)
async def test_an_address_that_no_service_may_have(world: World, address: str, why: str) -> None:
    error = await world.refused(422, "POST", SERVICES, service("a", clusterIP=address))
    (cause,) = error["details"]["causes"]
    assert cause["message"] == f'Invalid value: []string{{"{address}"}}: {why}'
    assert cause["field"] == ("spec.clusterIPs[0]" if ":" in address else "spec.clusterIPs")
