"""Pods and what the node sees of them, with defaults; a test names only what it is about."""

from __future__ import annotations

from typing import Any

from trainshed.cluster.node.pod.observed import Attempt, Health, SeenContainer, SeenPod

NOW = 1_800_000_000.0


def make_container(name: str = "main", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "img:1", "command": ["true"], **fields}


def make_pod(
    *containers: dict[str, Any],
    init: tuple[dict[str, Any], ...] = (),
    status: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    base = {"restartPolicy": "Always", "terminationGracePeriodSeconds": 30}
    if init:
        base["initContainers"] = list(init)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "uid": "u1", **(metadata or {})},
        "spec": {**base, "containers": list(containers or (make_container(),)), **spec},
        "status": status or {},
    }


def running(number: int = 0, since: float = NOW - 5, **fields: Any) -> Attempt:
    return Attempt(number, since, **fields)


def ended(
    code: int = 0, number: int = 0, start: float = NOW - 5, end: float = NOW - 1, **fields: Any
) -> Attempt:
    return Attempt(number, start, end, code, **fields)


def seen(ip: str | None = "10.88.0.7", *, pod: dict[str, Any] | None = None, **containers: Any) -> SeenPod:
    """Return a SeenPod; a container is its attempts, or a SeenContainer."""
    known = {}
    for name, value in containers.items():
        if isinstance(value, SeenContainer):
            known[name] = value
        else:
            attempts = value if isinstance(value, tuple) else (value,)
            known[name] = SeenContainer(attempts, Health(started=True, ready=True))
    return SeenPod(first_seen=NOW - 10, ip=ip, containers=known, **(pod or {}))
