"""The cluster's DNS zone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.cluster.node.backends import Backends
from trainshed.cluster.node.dns_records import Zone

ZONE = "default.svc.cluster.local"


def dns_records(services, slices, pods):
    return Zone("cluster.local").records(services, Backends(pods, slices))


def service(name="svc", selector=None, **spec):
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterIP": "None", "selector": {"app": "a"} if selector is None else selector, **spec},
    }


def pod(name, ip, *, ready=True, labels=None, phase="Running", deleting=False, **spec):
    metadata = {"name": name, "namespace": "default", "labels": labels or {"app": "a"}}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": phase, "podIP": ip, "conditions": conditions},
    }


def test_a_headless_service_answers_with_its_ready_pods_in_order():
    pods = [pod("b", "10.88.0.10"), pod("a", "10.88.0.9"), pod("x", "10.88.0.1", labels={"app": "x"})]
    records = dns_records([service()], [], pods)
    assert records.services == {f"svc.{ZONE}": ("10.88.0.9", "10.88.0.10")}
    assert records.pending == ()


@pytest.mark.parametrize(
    "fields, published, published_unready",
    [
        ({"ready": False}, False, True),
        ({"deleting": True}, False, True),
        ({"phase": "Succeeded"}, False, False),
        ({"phase": "Failed"}, False, False),
        ({}, True, True),
    ],
)
def test_who_is_published(fields, published, published_unready):
    for unready, expected in ((False, published), (True, published_unready)):
        records = dns_records(
            [service(publishNotReadyAddresses=unready)], [], [pod("a", "10.88.0.9", **fields)]
        )
        assert bool(records.services) is expected
        assert records.pending == (() if expected else (f"svc.{ZONE}",))


def test_a_pod_with_a_subdomain_has_its_own_name():
    pods = [
        pod("web-0", "10.88.0.9", subdomain="svc", hostname="first"),
        pod("web-1", "10.88.0.10", subdomain="svc", ready=False),
        pod("web-2", "10.88.0.11", subdomain="other"),
    ]
    records = dns_records([service()], [], pods)
    assert records.services[f"first.svc.{ZONE}"] == ("10.88.0.9",)
    assert records.pending == (f"web-1.svc.{ZONE}",)


def test_cluster_ips():
    same = service("same", clusterIP="10.96.0.9", ports=[{"port": 80, "targetPort": 80}])
    other = service("other", clusterIP="10.96.0.8", ports=[{"port": 80, "targetPort": 8080}])
    empty = service("empty", {"app": "none"}, clusterIP="10.96.0.7", ports=[{"port": 80}])
    api = service("kubernetes", {}, clusterIP="10.96.0.1")
    external = service("ext", {}, clusterIP="", type="ExternalName")
    records = dns_records([same, other, empty, api, external], [], [pod("a", "10.88.0.9")])
    assert records.services == {
        f"same.{ZONE}": ("10.96.0.9",),
        f"other.{ZONE}": ("10.96.0.8",),
        f"empty.{ZONE}": ("10.96.0.7",),
        f"kubernetes.{ZONE}": ("10.96.0.1",),
    }


def test_a_service_without_selector_answers_from_slices():
    slices = [
        {
            "metadata": {"namespace": "default", "labels": {"kubernetes.io/service-name": "svc"}},
            "endpoints": [
                {"addresses": ["10.0.0.2"]},
                {"addresses": ["10.0.0.3"], "conditions": {"ready": False}},
            ],
        }
    ]
    assert dns_records([service(selector={})], slices, []).services == {f"svc.{ZONE}": ("10.0.0.2",)}


@given(
    st.permutations([pod(f"p{n}", f"10.88.0.{n}", subdomain="svc", ready=n % 2 == 0) for n in range(2, 7)])
)
def test_the_zone_does_not_depend_on_the_order_of_pods(pods):
    records = dns_records([service()], [], pods)
    assert records.services[f"svc.{ZONE}"] == ("10.88.0.2", "10.88.0.4", "10.88.0.6")
    assert set(records.services) & set(records.pending) == set()
    assert len(records.services) + len(records.pending) == 6


def test_named_ports_and_what_external_names_stand_for():
    ports = [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "dns", "port": 53, "protocol": "UDP"}]
    services = [
        service("ip", clusterIP="10.96.0.9", ports=ports),
        service("pods", ports=ports),
        service("unnamed", ports=[{"port": 80}]),
        service("ext", {}, clusterIP="", type="ExternalName", externalName="db.example.org", ports=ports),
    ]
    records = dns_records(services, [], [pod("a", "10.88.0.9")])
    assert records.ports == {
        f"ip.{ZONE}": (("http", "tcp", 80), ("dns", "udp", 53)),
        f"pods.{ZONE}": (("http", "tcp", 8080), ("dns", "udp", 53)),
    }
    assert records.aliases == {f"ext.{ZONE}": "db.example.org"}
    assert f"ext.{ZONE}" not in {*records.services, *records.pending}


SERVICES = (
    service("a"),
    service("a", {"app": "x"}),
    service("b", {"app": "x"}, publishNotReadyAddresses=True),
    service("b", {"app": "x"}, ports=[{"name": "web", "port": 80, "targetPort": "http"}]),
    service("c", {}),
    service("c", clusterIP="10.96.0.7"),
    service("d", type="ExternalName", externalName="example.com"),
)
PODS = (
    pod("p", "10.88.0.1", subdomain="a"),
    pod("p", "10.88.0.1", subdomain="a", ready=False),
    pod(
        "q",
        "10.88.0.2",
        labels={"app": "x"},
        containers=[{"ports": [{"name": "http", "containerPort": 8080}]}],
    ),
    pod(
        "q",
        "10.88.0.2",
        labels={"app": "x"},
        containers=[{"ports": [{"name": "http", "containerPort": 9090}]}],
    ),
    pod("r", "10.88.0.3", labels={"app": "x"}, subdomain="b"),
)
SLICES = tuple(
    {
        "metadata": {"name": "s", "namespace": "default", "labels": {"kubernetes.io/service-name": "c"}},
        "endpoints": [{"addresses": [address]}],
    }
    for address in ("10.1.0.1", "10.1.0.2")
)


def some(of):
    """Return what picks objects, of each name at most one."""
    return st.lists(st.sampled_from(of), unique_by=lambda obj: obj["metadata"]["name"])


@given(st.lists(st.tuples(some(SERVICES), some(PODS), some(SLICES)), max_size=8))
def test_what_is_kept_of_the_last_look_makes_no_difference(looks):
    zone = Zone()
    for services, pods, slices in looks:
        assert zone.records(services, Backends(pods, slices)) == dns_records(services, slices, pods)
