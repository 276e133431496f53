"""Sequences about node ports of Services, and the ports at which load balancers ask for their health."""

from __future__ import annotations

from typing import Any

from tests.conformance.recorded.steps import NS, Step, get, merge, post, put, service, strategic
from trainshed.kube.meta.objects import Object

_SERVICES = f"{NS}/services"
_DNS = [{"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "UDP"}]


def _balancer(name: str, policy: str = "Local", **spec: Any) -> Object:
    return service(name, type="LoadBalancer", externalTrafficPolicy=policy, ports=[{"port": 80}], **spec)


def _ports(name: str, *ports: Object, kind: str = "NodePort", **spec: Any) -> Object:
    return service(name, type=kind, ports=list(ports), **spec)


def _port(number: int, node: int, name: str = "", protocol: str = "TCP") -> Object:
    named = {"name": name} if name else {}
    return {**named, "port": number, "nodePort": node, "protocol": protocol}


_HEALTH: list[Step] = [
    post(_SERVICES, _balancer("any")),
    post(_SERVICES, _balancer("named", healthCheckNodePort=30510)),
    post(_SERVICES, _balancer("taken", healthCheckNodePort=30510)),
    post(_SERVICES, _balancer("low", healthCheckNodePort=20510)),
    post(_SERVICES, _balancer("negative", healthCheckNodePort=-1)),
    post(_SERVICES, _balancer("everywhere", "Cluster", healthCheckNodePort=30511)),
    post(_SERVICES, _ports("node", {"port": 80}, externalTrafficPolicy="Local", healthCheckNodePort=30511)),
    post(_SERVICES, _ports("inside", {"port": 80}, kind="ClusterIP", healthCheckNodePort=30511)),
    post(_SERVICES, _ports("node", _port(80, 30510))),
    post(_SERVICES, _balancer("without", allocateLoadBalancerNodePorts=False)),
    merge(f"{_SERVICES}/named", {"spec": {"healthCheckNodePort": 30777}}),
    merge(f"{_SERVICES}/named", {"spec": {"healthCheckNodePort": None}}),
    put(f"{_SERVICES}/named", _balancer("named")),
    strategic(
        f"{_SERVICES}/named", {"spec": {"externalTrafficPolicy": "Cluster", "healthCheckNodePort": 30512}}
    ),
    strategic(f"{_SERVICES}/named", {"spec": {"externalTrafficPolicy": "Cluster"}}),
    post(_SERVICES, _balancer("next", healthCheckNodePort=30510)),
    strategic(
        f"{_SERVICES}/named", {"spec": {"externalTrafficPolicy": "Local", "healthCheckNodePort": 30513}}
    ),
    strategic(f"{_SERVICES}/named", {"spec": {"type": "NodePort"}}),
    strategic(f"{_SERVICES}/named", {"spec": {"type": "LoadBalancer"}}),
    strategic(f"{_SERVICES}/named", {"spec": {"type": "ClusterIP"}}),
]
_NODE: list[Step] = [
    post(_SERVICES, _ports("low", _port(80, 20520))),
    post(_SERVICES, _ports("negative", _port(80, -5))),
    post(_SERVICES, _ports("both", _port(53, 30520, "a"), {"name": "b", "port": 53, "protocol": "UDP"})),
    post(_SERVICES, _ports("same", _port(53, 30521, "a"), _port(53, 30521, "b", "UDP"))),
    post(_SERVICES, _ports("other", _port(53, 30522, "a"), _port(54, 30522, "b", "UDP"))),
    post(_SERVICES, _ports("twice", _port(53, 30523, "a"), _port(54, 30523, "b"))),
    post(
        _SERVICES,
        _ports(
            "some",
            {"name": "a", "port": 53},
            _port(54, 30524, "b"),
            kind="LoadBalancer",
            allocateLoadBalancerNodePorts=False,
        ),
    ),
    merge(f"{_SERVICES}/both", {"spec": {"ports": [{"name": "b", "port": 99, "protocol": "UDP"}]}}),
    merge(f"{_SERVICES}/some", {"spec": {"ports": [{"name": "b", "port": 54}]}}),
    merge(f"{_SERVICES}/some", {"spec": {"allocateLoadBalancerNodePorts": True}}),
    merge(f"{_SERVICES}/same", {"spec": {"ports": [_port(53, 30521, "a"), _port(54, 30525, "b")]}}),
    merge(f"{_SERVICES}/same", {"spec": {"ports": [_port(53, 30525, "a"), _port(54, 30521, "b")]}}),
    merge(f"{_SERVICES}/same", {"spec": {"ports": [_port(53, 30525, "a"), _port(53, 30525, "b", "UDP")]}}),
    merge(f"{_SERVICES}/same", {"spec": {"ports": [_port(53, 30524, "a")]}}),
    merge(f"{_SERVICES}/same", {"spec": {"type": "ClusterIP", "ports": [_port(53, 30525, "a")]}}),
    get(f"{_SERVICES}/same"),
    post(_SERVICES, _ports("dns", *_DNS)),
]

SERVICE_PORTS = {"service health ports": _HEALTH, "service node ports": _NODE}
