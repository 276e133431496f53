"""How many replicas one metric of a HorizontalPodAutoscaler asks for. Pure.

Source: "Horizontal Pod Autoscaling", algorithm details, in the Kubernetes documentation; autoscaling/v2 MetricSpec.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

import msgspec

from trainshed.kube.meta.objects import Object, condition, is_terminating, name_of, section, status_of
from trainshed.kube.meta.pods import init_containers, is_ready, is_sidecar, main_containers, phase
from trainshed.kube.meta.quantity import parse
from trainshed.kube.meta.times import time_or_none

TOLERANCE = 0.1
"""A ratio of use to target that is so near to 1 changes nothing."""
_FIRST_READINESS_SECONDS = 30.0
_CPU_SETTLES_SECONDS = 300.0


class Use(msgspec.Struct, frozen=True):
    """What a pod's containers use, by container and resource, measured over `window` seconds until `at`."""

    containers: Mapping[str, Mapping[str, Decimal]]
    at: float
    window: float = 0.0


class Cluster(msgspec.Struct, frozen=True):
    """The pods that are scaled: all that the selector finds, what they use by name, and the time of the observation.

    `refused`: why nobody says what pods use.
    """

    pods: Sequence[Object]
    uses: Mapping[str, Use]
    now: float
    refused: str = ""


class Proposal(msgspec.Struct, frozen=True):
    """The replicas that a metric asks for, its name in texts, and the `status.currentMetrics` entry."""

    replicas: int
    name: str
    status: Object


class Unmeasured(Exception):
    """A metric says nothing: `reason` is that of the condition, the text its message. `of` says which metric it is."""

    def __init__(self, reason: str, message: str, of: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.of = of


def propose(metric: Object, replicas: int, cluster: Cluster) -> Proposal:
    """Return what `metric` asks for while there are `replicas`.

    Raises:
        Unmeasured: it cannot be told.
    """
    kind = str(metric.get("type", ""))
    if kind in ("Resource", "ContainerResource"):
        return _of_resource(kind, metric, replicas, cluster)
    name = section(metric, kind[:1].lower() + kind[1:], "metric").get("name", "")
    api = "external.metrics.k8s.io" if kind == "External" else "custom.metrics.k8s.io"
    sort = "external" if kind == "External" else "custom"
    raise Unmeasured(
        f"FailedGet{kind}Metric",
        f"unable to get metric {name}: unable to fetch metrics from {sort} metrics API: no {sort} metrics API"
        f" ({api}) registered",
        f"{name} external" if kind == "External" else kind.lower(),
    )


def _of_resource(kind: str, metric: Object, replicas: int, cluster: Cluster) -> Proposal:
    field = kind[:1].lower() + kind[1:]
    source = section(metric, field)
    resource, container = str(source["name"]), source.get("container")
    target = section(source, "target")
    word = f"{resource} container resource" if container else f"{resource} resource"
    reason = f"FailedGet{kind}Metric"
    entry: Object = {"name": resource, **({"container": container} if container else {})}
    try:
        used = _used(resource, container, cluster)
        wanted = target.get("averageUtilization")
        if wanted is not None:
            count, utilization, average = _by_utilization(
                int(wanted), resource, container, replicas, cluster, used
            )
            entry["current"] = {
                "averageUtilization": utilization,
                "averageValue": _spelled(resource, average),
            }
            name = f"{word} utilization (percentage of request)"
        else:
            count, average = _by_value(parse(target["averageValue"]), resource, replicas, cluster, used)
            entry["current"] = {"averageValue": _spelled(resource, average)}
            name = word
    except _NoUse as error:
        what = "utilization" if target.get("averageUtilization") is not None else "usage"
        of = f"{resource} {'container' if container else 'resource'}"
        raise Unmeasured(reason, f"failed to get {resource} {what}: {error}", of) from error
    return Proposal(count, name, {"type": kind, field: entry})


class _NoUse(Exception):
    pass


def _spelled(resource: str, amount: Decimal) -> str:
    if resource == "cpu":
        return f"{math.ceil(amount * 1000)}m"
    return str(math.ceil(amount))


def _used(resource: str, container: str | None, cluster: Cluster) -> dict[str, Decimal]:
    """Return what each pod uses of the resource, by its name."""
    if not cluster.uses:
        why = "no metrics returned from resource metrics API"
        if cluster.refused:
            why = f"unable to fetch metrics from resource metrics API: {cluster.refused}"
        raise _NoUse(f"unable to get metrics for resource {resource}: {why}")
    out: dict[str, Decimal] = {}
    for name, use in cluster.uses.items():
        found = {n: amounts[resource] for n, amounts in use.containers.items() if resource in amounts}
        if container is None and len(found) == len(use.containers):
            out[name] = sum(found.values(), Decimal())
        elif container is not None and container in found:
            out[name] = found[container]
    if container is not None and not out:
        raise _NoUse(f"container {container} not present in metrics for pods")
    return out


class _Pods(msgspec.Struct, frozen=True):
    ready: dict[str, Decimal]
    """What each pod that counts uses."""
    unready: list[Object]
    missing: list[Object]


def _grouped(resource: str, cluster: Cluster, used: Mapping[str, Decimal]) -> _Pods:
    ready: dict[str, Decimal] = {}
    unready, missing = [], []
    for pod in cluster.pods:
        if is_terminating(pod) or phase(pod) == "Failed":
            continue
        if phase(pod) == "Pending":
            unready.append(pod)
        elif (amount := used.get(name_of(pod))) is None:
            missing.append(pod)
        elif resource == "cpu" and _settles(pod, cluster.uses[name_of(pod)], cluster.now):
            unready.append(pod)
        else:
            ready[name_of(pod)] = amount
    if not ready:
        raise _NoUse("did not receive metrics for targeted pods (pods might be unready)")
    return _Pods(ready, unready, missing)


def _settles(pod: Object, use: Use, now: float) -> bool:
    """Return whether a pod has started so lately that what it uses says nothing of what it will use."""
    readiness = condition(pod, "Ready")
    started = time_or_none(status_of(pod).get("startTime"))
    if readiness is None or started is None:
        return True
    changed = time_or_none(readiness.get("lastTransitionTime")) or started
    if started + _CPU_SETTLES_SECONDS > now:
        return not is_ready(pod) or use.at < changed + use.window
    return not is_ready(pod) and started + _FIRST_READINESS_SECONDS > changed


def _requests(pod: Object, resource: str, container: str | None) -> Decimal:
    every = [*main_containers(pod), *(c for c in init_containers(pod) if is_sidecar(c))]
    total = Decimal()
    for one in every:
        if container is not None and one["name"] != container:
            continue
        found = section(one, "resources", "requests").get(resource)
        if found is None:
            raise _NoUse(f"missing request for {resource} in container {one['name']} of Pod {name_of(pod)}")
        total += parse(found)
    return total


def _by_utilization(
    target: int,
    resource: str,
    container: str | None,
    replicas: int,
    cluster: Cluster,
    used: Mapping[str, Decimal],
) -> tuple[int, int, Decimal]:
    """Return replicas, the utilisation now in percent, and the average use of a pod."""
    pods = _grouped(resource, cluster, used)
    counted = (pod for pod in cluster.pods if not is_terminating(pod) and phase(pod) != "Failed")
    requests = {name_of(pod): _requests(pod, resource, container) for pod in counted}

    def ratio(uses: Mapping[str, Decimal]) -> tuple[float, int]:
        asked = sum((requests[name] for name in uses if name in requests), Decimal())
        if not asked:
            raise _NoUse("no metrics returned matched known pods")
        percent = int(sum(uses.values(), Decimal()) * 100 / asked)
        return percent / target, percent

    first, percent = ratio(pods.ready)
    stands_for = {name_of(p): requests[name_of(p)] * max(100, target) / 100 for p in pods.missing}
    count = _replicas(first, replicas, pods, stands_for, lambda uses: ratio(uses)[0])
    return count, percent, _average(pods.ready)


def _by_value(
    target: Decimal, resource: str, replicas: int, cluster: Cluster, used: Mapping[str, Decimal]
) -> tuple[int, Decimal]:
    pods = _grouped(resource, cluster, used)

    def ratio(uses: Mapping[str, Decimal]) -> float:
        return float(_average(uses) / target)

    stands_for = {name_of(p): target for p in pods.missing}
    return _replicas(ratio(pods.ready), replicas, pods, stands_for, ratio), _average(pods.ready)


def _average(uses: Mapping[str, Decimal]) -> Decimal:
    return sum(uses.values(), Decimal()) / len(uses)


def _replicas(
    first: float,
    replicas: int,
    pods: _Pods,
    stands_for: Mapping[str, Decimal],
    ratio: Callable[[Mapping[str, Decimal]], float],
) -> int:
    """Return the count by which the ratio of use to target becomes 1.

    Pods without a measurement count against a change: as idle for more replicas, as `stands_for` for fewer. So do those
    that start, for more.
    """
    rising = first > 1
    if not pods.missing and not (rising and pods.unready):
        return replicas if abs(1 - first) <= TOLERANCE else math.ceil(first * len(pods.ready))
    uses = dict(pods.ready)
    uses |= {name_of(pod): Decimal() if rising else stands_for[name_of(pod)] for pod in pods.missing}
    if rising:
        uses |= dict.fromkeys(map(name_of, pods.unready), Decimal())
    second = ratio(uses)
    if abs(1 - second) <= TOLERANCE or rising != (second > 1):
        return replicas
    count = math.ceil(second * len(uses))
    return replicas if (count < replicas) == rising else count
