"""What whoever writes a Service or Secret is told: what other clusters would do for it and this one does not."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.kube.builtin.core.service import KIND

SELECTOR = {"app": "web"}
PORTS = [{"port": 80, "targetPort": 80}]


@pytest.mark.parametrize(
    ("spec", "starts"),
    [
        ({"selector": SELECTOR, "ports": PORTS}, []),
        ({"selector": SELECTOR, "ports": [{"port": 80, "targetPort": 8080}]}, []),
        ({"selector": SELECTOR, "ports": [{"port": 80, "targetPort": "http"}]}, []),
        ({"selector": SELECTOR, "ports": [{"port": 80, "protocol": "SCTP"}]}, ["spec.ports[0]: SCTP"]),
        ({"selector": SELECTOR, "clusterIP": "None", "ports": [{"port": 80, "targetPort": 8080}]}, []),
        ({"selector": SELECTOR, "type": "NodePort", "ports": PORTS}, []),
        (
            {"selector": SELECTOR, "type": "LoadBalancer", "ports": PORTS},
            [],
        ),
        ({"type": "ExternalName", "externalName": "a.b"}, []),
        ({"ports": PORTS}, []),
        ({"ports": PORTS, "internalTrafficPolicy": "Local"}, []),
        ({"type": "NodePort", "ports": PORTS, "externalTrafficPolicy": "Local"}, []),
        ({"ports": PORTS, "internalTrafficPolicy": "Cluster"}, []),
        (
            {"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0/8"]},
            ["spec.loadBalancerSourceRanges: "],
        ),
        ({"clusterIP": "None", "ports": PORTS}, []),
        ({"selector": SELECTOR, "ports": PORTS, "externalIPs": ["1.2.3.4"]}, ["spec.externalIPs: "]),
        ({"selector": SELECTOR, "ports": PORTS, "sessionAffinity": "ClientIP"}, []),
    ],
)
def test_cautions(spec: dict[str, Any], starts: list[str]) -> None:
    assert KIND.warns is not None
    told = list(KIND.warns({"metadata": {"name": "web"}, "spec": spec}, None))
    assert len(told) == len(starts)
    assert all(text.startswith(start) for text, start in zip(told, starts, strict=True))
