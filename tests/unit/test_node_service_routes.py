"""Where the addresses and ports of Services lead."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.cluster.node.backends import Backends
from trainshed.cluster.node.service_routes import Routing, ingress, routing
from trainshed.cluster.sandbox.addresses import MACHINE
from trainshed.cluster.sandbox.model import Group, Route
from trainshed.kube.meta.objects import Object

IP = "10.96.4.4"


def service(name: str = "web", **spec: Any) -> Object:
    ports = [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]
    whole = {"clusterIP": IP, "selector": {"app": "web"}, "ports": ports, **spec}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": whole}


def pod(ip: str, *, name: str = "", ready: bool = True, deleting: bool = False, **fields: Any) -> Object:
    ports = fields.pop("ports", [])
    metadata = {"name": name or f"pod-{ip}", "namespace": "default", "labels": {"app": "web"}}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = {"phase": "Running", "podIP": ip, **fields.pop("status", {})}
    status["conditions"] = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": "c", "ports": ports}], **fields},
        "status": status,
    }


def written(*endpoints: Object, ports: Any = ({"port": 9000},), kind: str = "IPv4") -> Object:
    labels = {"kubernetes.io/service-name": "web"}
    metadata = {"name": "web-1", "namespace": "default", "labels": labels}
    return {"metadata": metadata, "addressType": kind, "endpoints": list(endpoints), "ports": list(ports)}


def routes(services: list[Object], *pods: Object, slices: tuple[Object, ...] = ()) -> tuple[Route, ...]:
    return routing(services, Backends(pods, slices)).routes


def test_a_pod_on_the_machine_s_network_is_reached_there_and_no_other_endpoint_is() -> None:
    ports = [{"containerPort": 8080}]
    found = routes([service()], pod("10.88.0.9"), pod("10.88.0.1", hostNetwork=True, ports=ports))
    assert found == (
        Route(protocol="tcp", ip="10.88.0.1", port=8080, endpoints=((MACHINE, 8080),)),
        Route(protocol="tcp", ip=IP, port=80, endpoints=((MACHINE, 8080), ("10.88.0.9", 8080))),
    )
    (slices,) = routes([service(selector=None)], slices=(written({"addresses": ["10.88.0.1"]}),))
    assert slices.endpoints == (("10.88.0.1", 9000),), "what a user wrote leads to no port of the machine"


def test_a_pod_on_the_machine_s_network_has_its_ports_at_the_node_s_address_as_far_as_they_are_free() -> None:
    ports = [{"containerPort": 23456}, {"containerPort": 53, "protocol": "UDP"}, {"containerPort": 3128}]
    assert [route.place for route in routes([], pod("10.88.0.1", hostNetwork=True, ports=ports))] == [
        ("tcp", "10.88.0.1", 23456)
    ]
    assert routes([], pod("127.0.0.1", hostNetwork=True, ports=ports)) == (), "plain processes are there"


def test_a_port_leads_to_the_ready_pods_in_order() -> None:
    found = routes([service()], pod("10.88.0.10"), pod("10.88.0.9"), pod("10.88.0.8", ready=False))
    endpoints = (("10.88.0.9", 8080), ("10.88.0.10", 8080))
    assert found == (Route(protocol="tcp", ip=IP, port=80, endpoints=endpoints),)


@pytest.mark.parametrize(
    ("pods", "unready", "expected"),
    [
        ([pod("10.88.0.2", ready=False)], False, []),
        ([pod("10.88.0.2", ready=False)], True, ["10.88.0.2"]),
        ([pod("10.88.0.2", deleting=True), pod("10.88.0.3")], False, ["10.88.0.3"]),
        ([pod("10.88.0.2", deleting=True)], False, ["10.88.0.2"]),
        ([pod("10.88.0.2", deleting=True, ready=False)], False, []),
        ([pod("10.88.0.2", status={"phase": "Succeeded"})], True, []),
        ([pod("")], True, []),
        ([], False, []),
    ],
    ids=[
        "unready",
        "published",
        "ending",
        "only ending",
        "ending unready",
        "finished",
        "no address",
        "nobody",
    ],
)
def test_who_is_behind_a_service(pods: list[Object], unready: bool, expected: list[str]) -> None:
    """Pods that end serve on while nobody else is ready; without anybody there is no route, so it is refused."""
    found = routes([service(publishNotReadyAddresses=unready)], *pods)
    assert [ip for route in found for ip, _ in route.endpoints] == expected


@pytest.mark.parametrize("affinity", [None, "ClientIP"])
def test_with_a_local_policy_a_pod_is_led_to_its_own_node(affinity: str | None) -> None:
    """Pods that end serve their node while no other there is ready; a node without endpoints has no group."""
    pods = [
        pod("10.88.0.2", nodeName="one"),
        pod("10.88.0.3", nodeName="one", ready=False),
        pod("10.88.0.4", nodeName="two", deleting=True),
        pod("10.88.0.5", nodeName="nobody asks here"),
    ]
    clients = {"one": ["10.88.0.9", "10.88.0.2"], "two": ["10.88.0.4"], "three": ["10.88.0.8"]}
    local = service(internalTrafficPolicy="Local", sessionAffinity=affinity, type="NodePort")
    local["spec"]["ports"][0]["nodePort"] = 30000
    at_node, inside, outside = routing([local], Backends(pods, ()), clients).routes
    assert inside.groups == (
        Group(clients=("10.88.0.2", "10.88.0.9"), endpoints=(("10.88.0.2", 8080),)),
        Group(clients=("10.88.0.4",), endpoints=(("10.88.0.4", 8080),)),
    )
    assert inside.affinity_seconds == (10_800 if affinity else 0)
    assert outside.host and outside.groups == (), "the machine's loopback stands for all nodes"
    assert at_node.ip == "10.88.0.1" and at_node.groups == (), "and so does the address that all nodes have"
    everywhere = service(internalTrafficPolicy="Cluster")
    assert routing([everywhere], Backends(pods, ()), clients).routes[0].groups == ()


def test_with_a_local_policy_what_a_user_wrote_is_of_the_node_that_he_names() -> None:
    slices = [written({"addresses": ["10.88.0.2"], "nodeName": "one"}, {"addresses": ["10.88.0.3"]})]
    local = service(selector=None, internalTrafficPolicy="Local")
    (route,) = routing([local], Backends([], slices), {"one": ["10.88.0.9"], "two": ["10.88.0.8"]}).routes
    assert route.groups == (Group(clients=("10.88.0.9",), endpoints=(("10.88.0.2", 9000),)),)
    assert routing([local], Backends([], slices), {"two": ["10.88.0.8"]}).routes == ()


def test_several_ports_by_number_and_by_each_pods_own_name() -> None:
    ports = [
        {"name": "a", "port": 80, "targetPort": "http"},
        {"name": "b", "port": 53, "targetPort": 5353, "protocol": "UDP"},
        {"name": "c", "port": 9},
        {"name": "d", "port": 7, "protocol": "SCTP"},
    ]
    one = pod("10.88.0.2", ports=[{"name": "http", "containerPort": 8000}])
    other = pod("10.88.0.3", ports=[{"name": "http", "containerPort": 8001}])
    found = {
        route.place: route.endpoints for route in routes([service(ports=ports)], one, other, pod("10.88.0.4"))
    }
    everybody = ("10.88.0.2", "10.88.0.3", "10.88.0.4")
    assert found == {
        ("tcp", IP, 80): (("10.88.0.2", 8000), ("10.88.0.3", 8001)),
        ("udp", IP, 53): tuple((ip, 5353) for ip in everybody),
        ("tcp", IP, 9): tuple((ip, 9) for ip in everybody),
    }


@pytest.mark.parametrize(
    "spec",
    [
        {"clusterIP": "None"},
        {"clusterIP": "10.96.0.1"},
        {"clusterIP": ""},
        {"type": "ExternalName", "clusterIP": ""},
    ],
)
def test_services_without_an_address_of_their_own(spec: dict[str, Any]) -> None:
    assert routes([service(**spec)], pod("10.88.0.2")) == ()


def test_endpoints_that_a_user_wrote() -> None:
    """By the name of the port; whoever selects no pods has no others."""
    unnamed = service(selector=None, ports=[{"port": 80}])
    ready = {"addresses": ["192.0.2.1", "192.0.2.2"]}
    gone = {"addresses": ["192.0.2.3"], "conditions": {"ready": False}}
    slices = (
        written(ready, gone),
        written(ready, kind="IPv6"),
        written(ready, ports=[{"name": "x", "port": 1}]),
    )
    (route,) = routes([unnamed], pod("10.88.0.2"), slices=slices)
    assert route.endpoints == (("192.0.2.1", 9000), ("192.0.2.2", 9000))
    draining = {
        "addresses": ["192.0.2.3"],
        "conditions": {"ready": False, "serving": True, "terminating": True},
    }
    (route,) = routes([unnamed], slices=(written(draining),))
    assert route.endpoints == (("192.0.2.3", 9000),)


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({"sessionAffinity": "None"}, 0),
        ({"sessionAffinity": "ClientIP"}, 10800),
        ({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}}, 5),
    ],
)
def test_affinity(spec: dict[str, Any], seconds: int) -> None:
    (route,) = routes([service(**spec)], pod("10.88.0.2"))
    assert route.affinity_seconds == seconds


def places_outside(found: tuple[Route, ...]) -> dict[tuple[str, str, int], int]:
    """Return the first endpoint's port of each route from the machine's loopback or the node's address."""
    those = (route for route in found if route.host or route.ip == NODE)
    return {route.place: route.endpoints[0][1] if route.endpoints else 0 for route in those}


NODE = "10.88.0.1"


def test_ports_of_the_machine() -> None:
    ports = [{"port": 80, "targetPort": 8080, "nodePort": 30080}]
    at_node = ("tcp", NODE, 30080)
    for kind, expected in (
        ("ClusterIP", {}),
        ("NodePort", {at_node: 8080, ("tcp", "127.0.0.1", 30080): 8080}),
        (
            "LoadBalancer",
            {at_node: 8080, ("tcp", "127.0.0.1", 30080): 8080, ("tcp", "127.0.0.1", 80): 8080},
        ),
    ):
        found = routes([service(type=kind, ports=ports)], pod("10.88.0.2"))
        assert places_outside(found) == expected
        assert {route.place for route in found if not route.host} - {("tcp", IP, 80)} == {at_node} & set(
            expected
        )
    nobody = routes([service(type="NodePort", ports=ports)])
    assert places_outside(nobody) == {("tcp", "127.0.0.1", 30080): 0}, "the port stays the Service's"


@pytest.mark.parametrize(
    ("port", "fields", "places"),
    [
        ({"hostPort": 81}, {}, [("tcp", "127.0.0.1", 81), ("tcp", NODE, 81)]),
        ({"hostPort": 81, "protocol": "UDP"}, {}, [("udp", "127.0.0.1", 81), ("udp", NODE, 81)]),
        ({"hostPort": 81, "hostIP": "0.0.0.0"}, {}, [("tcp", "127.0.0.1", 81), ("tcp", NODE, 81)]),
        ({"hostPort": 53}, {}, [("tcp", "127.0.0.1", 53)]),
        ({"hostPort": 81, "hostIP": "127.0.0.9"}, {}, [("tcp", "127.0.0.9", 81)]),
        ({"hostPort": 81, "hostIP": "192.0.2.1"}, {}, []),
        ({"hostPort": 81}, {"hostNetwork": True}, []),
        ({"hostPort": 81}, {"status": {"phase": "Failed"}}, []),
        ({}, {}, []),
    ],
)
def test_host_ports(port: Object, fields: dict[str, Any], places: list[tuple[str, str, int]]) -> None:
    found = routes([], pod("10.88.0.2", ready=False, ports=[{"containerPort": 80, **port}], **fields))
    assert places_outside(found) == dict.fromkeys(places, 80)


def test_of_two_pods_with_one_host_port_the_same_has_it_on_the_machine_and_for_pods() -> None:
    pods = [pod(ip, ports=[{"containerPort": 80, "hostPort": 81}]) for ip in ("10.88.0.2", "10.88.0.3")]
    assert {route.endpoints for route in routes([], *pods)} == {(("10.88.0.2", 80),)}


def test_of_two_that_want_a_port_of_the_machine_the_first_has_it() -> None:
    balancers = [service("b", type="LoadBalancer"), service("a", type="LoadBalancer")]
    late = pod("10.88.0.2", ports=[{"containerPort": 1, "hostPort": 80}])
    found = routing(balancers, Backends([late], []))
    place = ("tcp", "127.0.0.1", 80)
    assert found.owners == {place: balancers[1]}
    assert found.refused == ((place, balancers[0], balancers[1]), (place, late, balancers[1]))
    here = [{"ip": "127.0.0.1", "ipMode": "Proxy"}]
    assert [ingress(one, found, ()) for one in balancers] == [[], here]
    assert ingress(balancers[1], found, {place: "Permission denied"}) == []
    assert ingress(service("a", type="NodePort"), found, ()) == []
    assert ingress(service("a", type="LoadBalancer"), Routing(), ()) == []
