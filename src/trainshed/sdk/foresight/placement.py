"""Pods that no node would take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from trainshed.cluster.scheduler.placement import DEFAULT_SCHEDULER
from trainshed.cluster.scheduler.predicates import allocatable, unmet
from trainshed.cluster.scheduler.requests import pod_requests
from trainshed.kube.meta.amounts import Amounts, add
from trainshed.kube.meta.objects import Object, section
from trainshed.sdk.foresight.findings import Noted
from trainshed.sdk.foresight.templates import PodTemplate
from trainshed.sdk.foresight.world import World

_BYTES = ("memory", "ephemeral-storage")
_ADAPT = "ask for less, or let `trainshed run --adapt` do so"


def foreign_schedulers(template: PodTemplate, world: World) -> Iterator[Noted]:
    """Yield the scheduler that is named and not there: nobody would ever look at the pods."""
    name = template.spec.get("schedulerName")
    if not isinstance(name, str) or not name or world.schedulers is None or name in world.schedulers:
        return
    fix = f"leave it out ({DEFAULT_SCHEDULER} places pods)"
    if world.is_local:
        fix += ", or let `trainshed run --adapt` do so"
    yield Noted("TS305", f"{template.path}spec.schedulerName", f"there is no scheduler {name}", fix)


def unplaceable(template: PodTemplate, world: World) -> Iterator[Noted]:
    """Yield why no node takes such a pod, even an idle one."""
    if not world.nodes:
        return
    try:
        reasons = [set(unmet(template.pod, node, {})) for node in world.nodes]
        needs = pod_requests(template.pod)
    except (ValueError, KeyError, TypeError, AttributeError):
        return  # a document that the API server refuses
    if any(not each for each in reasons):
        return
    common = set.intersection(*reasons) or set.union(*reasons)
    for name in sorted(n.removeprefix("Insufficient ") for n in common if n.startswith("Insufficient ")):
        most = max(allocatable(node).get(name, Decimal(0)) for node in world.nodes)
        yield _insufficient(template, world, name, needs[name], most)
    for reason in sorted(common):
        if "affinity/selector" in reason:
            which = "nodeSelector" if template.spec.get("nodeSelector") else "affinity"
            yield Noted(
                "TS303",
                f"{template.path}spec.{which}",
                "no node has such labels",
                _unless_local(world, "label a node, or leave it out"),
            )
        elif "untolerated taint" in reason:
            taint = reason.partition("{")[2].removesuffix("}")
            yield Noted(
                "TS304",
                f"{template.path}spec.tolerations",
                f"every node has a taint that is not tolerated ({taint})",
                "tolerate it",
            )


def _insufficient(template: PodTemplate, world: World, name: str, asked: Decimal, most: Decimal) -> Noted:
    path = _who_asks(template, name)
    if "/" in name and not most:
        fix = _unless_local(world, f"leave it out, or use a node that has {name}")
        return Noted("TS302", path, f"no node has {name}", fix)
    return Noted(
        "TS301",
        path,
        f"asks for {amount(name, asked)} {name}, and the largest node has {amount(name, most)}",
        _ADAPT if world.is_local else "ask for less",
    )


def _unless_local(world: World, otherwise: str) -> str:
    return "leave it out, or let `trainshed run --adapt` do so" if world.is_local else otherwise


def _who_asks(template: PodTemplate, name: str) -> str:
    for path, container in template.containers():
        for field in ("requests", "limits"):
            if name in section(container, "resources", field):
                return (
                    f"{path}.resources.{field}[{name}]" if "/" in name else f"{path}.resources.{field}.{name}"
                )
    return f"{template.path}spec"


def not_all_at_once(found: Sequence[PodTemplate], world: World) -> Iterator[Noted]:
    """Yield the resource of which all replicas of a job together ask for more than there is."""
    if not world.nodes or len(found) == 0:
        return
    try:
        each = [(t.count, pod_requests(t.pod)) for t in found]
        total: Amounts = {}
        for node in world.nodes:
            add(total, allocatable(node))
    except (ValueError, KeyError, TypeError, AttributeError):
        return
    for name in sorted({name for _, needs in each for name in needs}):
        if any(needs.get(name, Decimal(0)) > total.get(name, Decimal(0)) for _, needs in each):
            continue  # said of the pod itself
        asked = sum((count * needs.get(name, Decimal(0)) for count, needs in each), Decimal(0))
        if asked > total.get(name, Decimal(0)):
            what = "replicas" if name == "pods" else f"{name}"
            yield Noted(
                "TS306",
                "spec",
                f"all replicas together ask for {amount(name, asked)} {what}, and all nodes together have "
                f"{amount(name, total.get(name, Decimal(0)))}: some wait for others to end",
                "ask for less, or for fewer replicas" + (" (--workers N)" if world.is_local else ""),
            )


def amount(name: str, value: Decimal) -> str:
    """Return an amount as people write it: `1.5Gi`, `2`, `500m`."""
    if name in _BYTES or name.startswith("hugepages-"):
        for suffix, factor in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
            if value >= factor:
                return f"{value / factor:.1f}".removesuffix(".0") + suffix
        return f"{value:f}"
    if value != value.to_integral_value():
        return f"{value * 1000:.0f}m"
    return f"{value:.0f}"


def free(nodes: Sequence[Object]) -> Mapping[str, Decimal]:
    """Return, for each resource, the most that one node has."""
    most: dict[str, Decimal] = {}
    for node in nodes:
        for name, value in allocatable(node).items():
            most[name] = max(most.get(name, Decimal(0)), value)
    return most
