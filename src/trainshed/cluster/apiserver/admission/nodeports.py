"""Node ports of Services, and the port at which load balancers ask whether a node has endpoints.

Both are of one range. Rules and texts: `pkg/registry/core/service/storage` of Kubernetes, `alloc.go` and `storage.go`.
"""

from __future__ import annotations

import random

from trainshed.cluster.apiserver.admission.reservations import held_by_others, hold
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.store import keys
from trainshed.kube.builtin.core.service import needs_health_check
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause, internal
from trainshed.kube.meta.objects import Object, objects, spec_of
from trainshed.kube.meta.resources import SERVICES

NODE_PORTS = range(30000, 32768)
HEALTH = "healthCheckNodePort"
WITH_NODE_PORTS = ("NodePort", "LoadBalancer")


def numbers(spec: Object) -> set[int]:
    """Return the node ports of a Service."""
    return {port["nodePort"] for port in objects(spec, "ports") if port.get("nodePort")}


def keep(before: Object, spec: Object) -> None:
    """Put into an updated `spec` the ports that were handed out and that the update does not name."""
    if _gets_ports(before) and _gets_ports(spec):
        named = {port.get("name") or "": port.get("nodePort") for port in objects(before, "ports")}
        used = numbers(before) & numbers(spec)
        ports = []
        for port in objects(spec, "ports"):
            held = named.get(port.get("name") or "")
            missing = not port.get("nodePort") and held and held not in used
            ports.append({**port, "nodePort": held} if missing else port)
        spec["ports"] = ports
    if needs_health_check(before) and needs_health_check(spec) and not spec.get(HEALTH):
        spec[HEALTH] = before.get(HEALTH)


def give_up(before: Object, spec: Object) -> None:
    """Remove from an updated `spec` ports that its type has no use for, unless the update changes them."""
    leaves = before.get("type") in WITH_NODE_PORTS and spec.get("type") not in WITH_NODE_PORTS
    if leaves and numbers(spec) <= numbers(before):
        spec["ports"] = [
            {k: v for k, v in port.items() if k != "nodePort"} for port in objects(spec, "ports")
        ]
    gone = needs_health_check(before) and not needs_health_check(spec)
    if gone and spec.get(HEALTH) == before.get(HEALTH):
        spec.pop(HEALTH, None)


def allocate(
    core: Core, call: Call, spec: Object, before: Object, owner: tuple[str, str], found: list[Cause]
) -> None:
    """Give `spec` the ports that it lacks and may have; `before` is the stored one, empty for a new Service.

    What is wrong goes into `found`. Raises `ApiError` 500 for the port of health checks, as upstream.
    """
    needs = needs_health_check(spec) and not needs_health_check(before)
    if spec.get("type") not in WITH_NODE_PORTS and not needs:
        return
    pool = _Pool(core, call, owner)
    if spec.get("type") in WITH_NODE_PORTS:
        spec["ports"] = (_changed if before else _new)(pool, spec, before, found)
    if needs and not found:
        _allocate_health(pool, spec)


class _Pool:
    """The range of ports, as one Service finds it."""

    def __init__(self, core: Core, call: Call, owner: tuple[str, str]) -> None:
        self._core, self._call, self._owner = core, call, owner
        self._taken = {int(value) for value in held_by_others(core, call, owner) if value.isdigit()}
        for stored in core.store.list(keys.under(SERVICES))[0]:
            spec = spec_of(stored.obj)
            self._taken |= numbers(spec)
            if spec.get(HEALTH):
                self._taken.add(spec[HEALTH])

    def take(self, number: int) -> str:
        """Take a port; return why it cannot be had, empty if it can."""
        if number not in NODE_PORTS:
            span = f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
            return f"provided port is not in the valid range. The range of valid ports is {span}"
        if number in self._taken:
            return "provided port is already allocated"
        self._hold(number)
        return ""

    def take_any(self) -> int:
        """Take a free port; 0 where there is none."""
        free = [number for number in NODE_PORTS if number not in self._taken]
        if not free:
            return 0
        number = random.choice(free)  # noqa: S311 - spreads, protects nothing
        self._hold(number)
        return number

    def _hold(self, number: int) -> None:
        self._taken.add(number)
        hold(self._core, self._call, str(number), self._owner)


def _gets_ports(spec: Object) -> bool:
    kind = spec.get("type")
    return kind == "NodePort" or (
        kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
    )


def _new(pool: _Pool, spec: Object, before: Object, found: list[Cause]) -> list[Object]:
    """Return the ports of a new Service: those of one number, of TCP and UDP, have one node port."""
    ports, shared, out = objects(spec, "ports"), dict[int, int](), []
    for index, port in enumerate(ports):
        wanted, number = port.get("nodePort") or 0, port.get("port") or 0
        if wanted or _gets_ports(spec):
            if number not in shared:
                same = (one.get("nodePort") for one in ports if (one.get("port") or 0) == number)
                wanted = next((one for one in same if one), 0)
                wanted = shared[number] = _take(pool, wanted, index, found)
            elif not wanted:
                wanted = shared[number]
            elif wanted != shared[number]:
                _take(pool, wanted, index, found)
            port = {**port, "nodePort": wanted}
        out.append(port)
    return out


def _changed(pool: _Pool, spec: Object, before: Object, found: list[Cause]) -> list[Object]:
    """Return the ports of an updated Service."""
    had, out = numbers(before), []
    for index, port in enumerate(objects(spec, "ports")):
        wanted = port.get("nodePort") or 0
        if wanted not in had and (wanted or _gets_ports(spec)):
            wanted = _take(pool, wanted, index, found)
            had.add(wanted)
        out.append({**port, "nodePort": wanted} if wanted else port)
    return out


def _take(pool: _Pool, wanted: int, index: int, found: list[Cause]) -> int:
    if not wanted:
        wanted = pool.take_any()
        if not wanted:
            raise internal("failed to allocate a nodePort: range is full")
    elif why := pool.take(wanted):
        found.append(causes.invalid(f"spec.ports[{index}].nodePort", wanted, why))
    return wanted


def _allocate_health(pool: _Pool, spec: Object) -> None:
    wanted = spec.get(HEALTH)
    if not wanted:
        wanted = spec[HEALTH] = pool.take_any()
        if not wanted:
            raise internal("failed to allocate a HealthCheck NodePort 0: range is full")
    elif why := pool.take(wanted):
        raise internal(f"failed to allocate requested HealthCheck NodePort {wanted}: {why}")
