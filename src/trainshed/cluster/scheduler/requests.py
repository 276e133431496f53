"""What a pod asks of a node."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from trainshed.kube.meta.amounts import Amounts, add, as_given, at_peak, numbers
from trainshed.kube.meta.objects import Object, objects, section, spec_of
from trainshed.kube.meta.pods import is_sidecar

_HOST_PORT = "hostPort/"


def pod_requests(pod: Object) -> Amounts:
    """Return what the pod needs at its peak, itself as one of `pods`."""
    spec = spec_of(pod)
    needed = at_peak(spec, as_given(pod, "requests", container_requests))
    add(needed, numbers(section(spec, "overhead")))
    needed["pods"] = Decimal(1)
    return needed


def pod_needs(pod: Object) -> Amounts:
    """Return what the pod takes of a node: its requests, and each of its ports of the machine, of which there is one.

    Without those of pods on the machine's network: what they name they need not listen on.
    """
    needs = pod_requests(pod)
    spec = spec_of(pod)
    if not spec.get("hostNetwork"):
        for container in (*objects(spec, "containers"), *filter(is_sidecar, objects(spec, "initContainers"))):
            for port in objects(container, "ports"):
                if port.get("hostPort"):
                    needs[_host_port(port)] = Decimal(1)
    return needs


def is_host_port(name: str) -> bool:
    """Return whether a name in what a pod needs is that of a port of the machine."""
    return name.startswith(_HOST_PORT)


def _host_port(port: Object) -> str:
    ip = port.get("hostIP") or ""
    place = ip if ip.startswith("127.") else "127.0.0.1"  # every other one is opened there, if at all
    return f"{_HOST_PORT}{port.get('protocol') or 'TCP'}/{place}/{port['hostPort']}"


def container_requests(container: Mapping[str, Any]) -> Amounts:
    """Return the container's requests; a limit without a request stands for it."""
    resources = section(container, "resources")
    return numbers({**section(resources, "limits"), **section(resources, "requests")})
