"""HorizontalPodAutoscalers: replicas by what pods use, and how fast their number changes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.cluster.controllers.autoscaling.decision import (
    Observed,
    ScalingPlan,
    SetReplicas,
    Target,
    decide,
    done,
    refused,
)
from trainshed.cluster.controllers.autoscaling.limits import Change, Memory, limit, scaled
from trainshed.cluster.controllers.autoscaling.metrics import Cluster, Unmeasured, Use, propose
from trainshed.kube.builtin.autoscaling.horizontalpodautoscaler import KIND
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.times import format_time

NOW = 1_700_000_000.0
LONG_AGO = NOW - 3600


def cpu(percent: int = 80) -> Object:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def memory(value: str) -> Object:
    target = {"type": "AverageValue", "averageValue": value}
    return {"type": "Resource", "resource": {"name": "memory", "target": target}}


def pod(name: str, *, request: str | None = "100m", ready: bool = True, **more: Any) -> Object:
    since = format_time(more.get("since", LONG_AGO))
    requests = {} if request is None else {"requests": {"cpu": request}}
    return {
        "metadata": {"name": name, **({"deletionTimestamp": since} if more.get("going") else {})},
        "spec": {"containers": [{"name": "main", "resources": requests}]},
        "status": {
            "phase": more.get("phase", "Running"),
            "startTime": since,
            "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": since}],
        },
    }


def use(cpu: str, memory: str = "0", at: float = NOW) -> Use:
    return Use({"main": {"cpu": Decimal(cpu), "memory": Decimal(memory)}}, at, 1.0)


def replicas(metric: Object, pods: list[Object], uses: dict[str, Use], now: int) -> int:
    return propose(metric, now, Cluster(pods, uses, NOW)).replicas


def unready(name: str, after: float) -> Object:
    """Return a pod that started long ago, and has not been ready since so many seconds after that."""
    out = pod(name, ready=False)
    out["status"]["conditions"][0]["lastTransitionTime"] = format_time(LONG_AGO + after)
    return out


AB = [pod("a"), pod("b")]


@pytest.mark.parametrize(
    "pods, uses, expected, why",
    [
        (AB, {"a": use("0.08"), "b": use("0.08")}, 2, "as wanted"),
        (AB, {"a": use("0.08"), "b": use("0.087")}, 2, "within a tenth"),
        (AB, {"a": use("0.1"), "b": use("0.1")}, 3, "125 %, rounded up"),
        (AB, {"a": use("0.01"), "b": use("0.01")}, 1, "an eighth"),
        (AB, {"a": use("0.16")}, 2, "b, without a figure, counts as idle for more"),
        (AB, {"a": use("0.32")}, 4, "and more are needed for all that"),
        (AB, {"a": use("0.02")}, 2, "b counts as fully used for fewer: no fewer"),
        (
            [pod("a"), pod("b", since=NOW - 10, ready=False)],
            {"a": use("0.16"), "b": use("0.5")},
            2,
            "b starts",
        ),
        (
            [pod("a"), pod("b", since=NOW - 10)],
            {"a": use("0.16"), "b": use("0.5", at=NOW - 20)},
            2,
            "too old",
        ),
        ([pod("a"), pod("b", since=NOW - 10)], {"a": use("0.16"), "b": use("0.16")}, 4, "b has settled"),
        ([pod("a"), pod("b", ready=False)], {"a": use("0.16"), "b": use("0.5")}, 2, "b was never ready"),
        (
            [pod("a"), unready("b", 29)],
            {"a": use("0.16"), "b": use("0.5")},
            2,
            "nor for its first half minute",
        ),
        ([pod("a"), unready("b", 30)], {"a": use("0.16"), "b": use("0.5")}, 9, "b is counted: it was ready"),
        ([pod("a"), pod("b", phase="Pending")], {"a": use("0.16")}, 2, "b waits"),
        (
            [pod("a"), pod("b", phase="Failed")],
            {"a": use("0.16"), "b": use("0")},
            2,
            "b has failed: not counted",
        ),
        ([pod("a"), pod("b", going=True)], {"a": use("0.08"), "b": use("1")}, 2, "b goes: not counted"),
    ],
)
def test_replicas_by_utilization(pods: list[Object], uses: dict[str, Use], expected: int, why: str) -> None:
    assert replicas(cpu(), pods, uses, 2) == expected, why


def test_replicas_by_value() -> None:
    uses = {"a": use("0", "300"), "b": use("0", "300")}
    found = propose(memory("200"), 2, Cluster(AB, uses, NOW))
    assert found.replicas == 3
    assert found.name == "memory resource"
    assert found.status["resource"]["current"] == {"averageValue": "300"}
    assert replicas(memory("200"), AB, {"a": use("0", "100")}, 2) == 2, "b counts as just right"


def test_one_container_counts() -> None:
    target = {"type": "Utilization", "averageUtilization": 50}
    metric = {
        "type": "ContainerResource",
        "containerResource": {"name": "cpu", "container": "x", "target": target},
    }
    own = {"name": "x", "resources": {"requests": {"cpu": "1"}}}
    pods = [pod("a", request=None)]
    pods[0]["spec"]["containers"].append(own)
    both = Use({"main": {"cpu": Decimal(9)}, "x": {"cpu": Decimal(1)}}, NOW, 1.0)
    found = propose(metric, 1, Cluster(pods, {"a": both}, NOW))
    assert found.replicas == 2
    assert found.name == "cpu container resource utilization (percentage of request)"
    current = {"averageUtilization": 100, "averageValue": "1000m"}
    assert found.status["containerResource"] == {"name": "cpu", "container": "x", "current": current}


CUSTOM = {"type": "Pods", "pods": {"metric": {"name": "qps"}, "target": {"averageValue": "1"}}}


@pytest.mark.parametrize(
    "metric, pods, uses, reason, words",
    [
        (cpu(), AB, {}, "FailedGetResourceMetric", "no metrics returned from resource metrics API"),
        (
            cpu(),
            [pod("a", request=None)],
            {"a": use("1")},
            "FailedGetResourceMetric",
            "failed to get cpu utilization: missing request for cpu in container main of Pod a",
        ),
        (cpu(), [pod("a", phase="Pending")], {"a": use("1")}, "FailedGetResourceMetric", "might be unready"),
        (CUSTOM, AB, {}, "FailedGetPodsMetric", "no custom metrics API (custom.metrics.k8s.io) registered"),
    ],
)
def test_what_cannot_be_told(
    metric: Object, pods: list[Object], uses: dict[str, Use], reason: str, words: str
) -> None:
    with pytest.raises(Unmeasured, match=words.replace("(", r"\(").replace(")", r"\)")) as caught:
        propose(metric, 2, Cluster(pods, uses, NOW))
    assert caught.value.reason == reason


def autoscaler(least: int = 1, most: int = 10, **spec: Any) -> Object:
    spec = {"minReplicas": least, "maxReplicas": most, "metrics": [cpu()], **spec}
    return {"metadata": {"name": "h", "generation": 3}, "spec": spec, "status": {}}


def policy(kind: str, value: int, period: int = 60) -> Object:
    return {"type": kind, "value": value, "periodSeconds": period}


UP = {"scaleUp": {"selectPolicy": "Max", "policies": [policy("Pods", 2), policy("Percent", 50)]}}
SLOW_UP = {"scaleUp": {"selectPolicy": "Min", "policies": [policy("Pods", 2), policy("Percent", 50)]}}
STEADY_UP = {"scaleUp": {"stabilizationWindowSeconds": 100, "policies": [policy("Percent", 1000)]}}
DOWN = {
    "scaleDown": {"stabilizationWindowSeconds": 0, "policies": [policy("Pods", 1), policy("Percent", 50)]}
}
NEVER_DOWN = {"scaleDown": {"stabilizationWindowSeconds": 0, "selectPolicy": "Disabled"}}
LATELY_9 = Memory((Change(NOW - 200, 9),))


@pytest.mark.parametrize(
    "behavior, current, desired, past, expected, reasons",
    [
        (None, 3, 5, Memory(), 5, ("ReadyForNewScale", "DesiredWithinRange")),
        (None, 3, 9, Memory(), 6, ("ReadyForNewScale", "ScaleUpLimit")),
        (None, 1, 9, Memory(), 4, ("ReadyForNewScale", "ScaleUpLimit")),
        (None, 8, 12, Memory(), 10, ("ReadyForNewScale", "TooManyReplicas")),
        (None, 3, 0, Memory(), 1, ("ReadyForNewScale", "TooFewReplicas")),
        (None, 9, 2, LATELY_9, 9, ("ScaleDownStabilized", "DesiredWithinRange")),
        (None, 9, 2, Memory((Change(NOW - 301, 9),)), 2, ("ReadyForNewScale", "DesiredWithinRange")),
        (UP, 2, 9, Memory(), 4, ("ReadyForNewScale", "ScaleUpLimit")),
        (UP, 6, 10, Memory(), 9, ("ReadyForNewScale", "ScaleUpLimit")),
        (SLOW_UP, 6, 10, Memory(), 8, ("ReadyForNewScale", "ScaleUpLimit")),
        (UP, 4, 9, Memory(added=(Change(NOW - 30, 2),)), 4, ("ReadyForNewScale", "ScaleUpLimit")),
        (UP, 4, 9, Memory(added=(Change(NOW - 61, 2),)), 6, ("ReadyForNewScale", "ScaleUpLimit")),
        (UP, 9, 12, Memory(), 10, ("ReadyForNewScale", "TooManyReplicas")),
        (STEADY_UP, 2, 9, Memory((Change(NOW - 50, 3),)), 3, ("ScaleUpStabilized", "DesiredWithinRange")),
        (DOWN, 8, 1, Memory(), 4, ("ReadyForNewScale", "ScaleDownLimit")),
        (DOWN, 2, 0, Memory(), 1, ("ReadyForNewScale", "TooFewReplicas")),
        (DOWN, 6, 1, Memory(removed=(Change(NOW - 30, 2),)), 4, ("ReadyForNewScale", "ScaleDownLimit")),
        (NEVER_DOWN, 6, 1, Memory(), 6, ("ReadyForNewScale", "ScaleDownLimit")),
        (UP, 9, 2, LATELY_9, 9, ("ScaleDownStabilized", "DesiredWithinRange")),
    ],
)
def test_limits(
    behavior: Object | None, current: int, desired: int, past: Memory, expected: int, reasons: tuple[str, str]
) -> None:
    spec = {} if behavior is None else {"behavior": behavior}
    found = limit(autoscaler(**spec), current, desired, past, NOW)
    assert (found.replicas, (found.able[0], found.limited[1])) == (expected, reasons)
    assert found.memory.recommended[-1] == Change(NOW, desired)


def test_what_is_remembered_is_what_rules_ask_for() -> None:
    old = Memory(added=(Change(NOW - 61, 5), Change(NOW - 59, 1)))
    assert scaled(old, autoscaler(behavior=UP), 3, 5, NOW).added == (Change(NOW - 59, 1), Change(NOW, 2))
    assert scaled(old, autoscaler(behavior=DOWN), 5, 3, NOW).removed == (Change(NOW, 2),)


@given(
    current=st.integers(1, 50),
    desired=st.integers(0, 60),
    least=st.integers(1, 10),
    behavior=st.sampled_from([None, UP, SLOW_UP, STEADY_UP, DOWN, NEVER_DOWN]),
)
def test_limits_hold(current: int, desired: int, least: int, behavior: Object | None) -> None:
    """Whatever is asked for, the bounds hold where the current number keeps them, and nothing goes the other way."""
    most = least + 20
    current = min(max(current, least), most)
    spec = {} if behavior is None else {"behavior": behavior}
    found = limit(autoscaler(least, most, **spec), current, desired, Memory(), NOW).replicas
    assert least <= found <= most
    assert (found - current) * (max(desired, least) - current) >= 0


def observed(held: Object, wanted: int, uses: dict[str, Use], **more: Any) -> Observed:
    pods = [pod(name) for name in "abcdefghij"[:wanted]]
    target = more.get("target", Target(wanted, wanted, "app=web"))
    return Observed(held, target, pods, uses, more.get("memory", Memory()), NOW, more.get("refused", ""))


def conditions(plan: ScalingPlan) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in plan.status["conditions"]}


def test_more_replicas_for_what_is_used() -> None:
    found = decide(observed(autoscaler(), 2, {"a": use("0.12"), "b": use("0.12")}))
    (action,) = found.actions
    assert action == SetReplicas(3, "cpu resource utilization (percentage of request) above target")
    after = done(observed(autoscaler(), 2, {}), found, action)
    assert conditions(after) == {
        "AbleToScale": ("True", "SucceededRescale"),
        "ScalingActive": ("True", "ValidMetricFound"),
        "ScalingLimited": ("False", "DesiredWithinRange"),
    }
    shown = {key: value for key, value in after.status.items() if key != "conditions"}
    assert shown == {
        "currentReplicas": 2,
        "desiredReplicas": 3,
        "lastScaleTime": format_time(NOW),
        "currentMetrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "current": {"averageUtilization": 120, "averageValue": "120m"}},
            }
        ],
    }
    assert [(e.reason, e.message) for e in after.events] == [
        (
            "SuccessfulRescale",
            "New size: 3; reason: cpu resource utilization (percentage of request) above target",
        )
    ]


def test_a_refused_scale_is_said() -> None:
    world = observed(autoscaler(), 2, {"a": use("0.12"), "b": use("0.12")})
    plan = decide(world)
    found = refused(world, plan, plan.actions[0], "no")
    assert conditions(found)["AbleToScale"] == ("False", "FailedUpdateScale")
    assert found.status["desiredReplicas"] == 2
    assert [(e.reason, e.message[-9:]) for e in found.events] == [("FailedRescale", "error: no")]


@pytest.mark.parametrize(
    "held, wanted, replicas, words",
    [
        (autoscaler(3), 1, 3, "Current number of replicas below Spec.MinReplicas"),
        (autoscaler(1, 2), 5, 2, "Current number of replicas above Spec.MaxReplicas"),
        (autoscaler(), 0, None, ""),
        (autoscaler(), 1, None, ""),
    ],
)
def test_bounds_hold_without_metrics(held: Object, wanted: int, replicas: int | None, words: str) -> None:
    found = decide(observed(held, wanted, {}))
    assert found.actions == (() if replicas is None else (SetReplicas(replicas, words),))


def test_a_target_at_zero_is_left_alone() -> None:
    found = decide(observed(autoscaler(), 0, {}))
    assert conditions(found)["ScalingActive"] == ("False", "ScalingDisabled")


def test_a_target_that_is_none_is_said() -> None:
    found = decide(observed(autoscaler(), 0, {}, target='deployments.apps "web" not found'))
    assert conditions(found) == {"AbleToScale": ("False", "FailedGetScale")}
    assert found.events[0].reason == "FailedGetScale"


def test_a_metric_that_fails_keeps_from_fewer_not_from_more() -> None:
    held = autoscaler(metrics=[cpu(), CUSTOM])
    more = decide(observed(held, 2, {"a": use("0.2"), "b": use("0.2")}))
    assert more.actions[0].replicas == 4 and conditions(more)["ScalingActive"] == ("True", "ValidMetricFound")
    fewer = decide(observed(held, 2, {"a": use("0.01"), "b": use("0.01")}))
    assert not fewer.actions and conditions(fewer)["ScalingActive"] == ("False", "FailedGetPodsMetric")
    words = "invalid metrics (1 invalid out of 2), first error is: failed to get pods metric value: unable"
    assert fewer.events[-1].message.startswith(words)


def test_times_of_conditions_tell_changes() -> None:
    held = autoscaler()
    old = {
        "type": "AbleToScale",
        "status": "True",
        "lastTransitionTime": "2001-01-01T00:00:00Z",
        "reason": "x",
    }
    held["status"] = {"conditions": [old]}
    found = decide(observed(held, 2, {"a": use("0.08"), "b": use("0.08")}))
    times = {c["type"]: c["lastTransitionTime"] for c in found.status["conditions"]}
    assert times["AbleToScale"] == "2001-01-01T00:00:00Z" and times["ScalingActive"] == format_time(NOW)


def test_without_a_selector_nothing_is_told() -> None:
    found = decide(observed(autoscaler(), 2, {}, target=Target(2, 2, "")))
    assert conditions(found)["ScalingActive"] == ("False", "InvalidSelector")


def test_behavior_is_completed() -> None:
    held: Object = {"spec": {"maxReplicas": 3, "behavior": {"scaleUp": {"selectPolicy": "Min"}}}}
    assert KIND.defaults is not None
    KIND.defaults(held)
    once = {"type": "Percent", "value": 100, "periodSeconds": 15}
    four = {"type": "Pods", "value": 4, "periodSeconds": 15}
    assert held["spec"]["behavior"] == {
        "scaleUp": {"selectPolicy": "Min", "policies": [four, once], "stabilizationWindowSeconds": 0},
        "scaleDown": {"selectPolicy": "Max", "policies": [once]},
    }


def test_metrics_that_nobody_serves_are_said() -> None:
    assert KIND.warns is not None
    said = list(KIND.warns({"spec": {"metrics": [cpu(), CUSTOM]}}, None))
    assert said == ["spec.metrics[1]: this cluster serves no custom or external metrics"]


def test_what_nobody_measures_is_told_and_shown_without_a_type() -> None:
    """Recorded with kube-controller-manager 1.33 without a metrics API."""
    why = "the server could not find the requested resource (get pods.metrics.k8s.io)"
    plan = decide(observed(autoscaler(metrics=[cpu(), CUSTOM]), 2, {}, refused=why))
    assert not plan.actions and plan.status["currentMetrics"] == [{"type": ""}, {"type": ""}]
    failed = (
        "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource"
        f" metrics API: {why}"
    )
    (active,) = [c for c in plan.status["conditions"] if c["type"] == "ScalingActive"]
    assert active["reason"] == "FailedGetResourceMetric"
    assert active["message"] == f"the HPA was unable to compute the replica count: {failed}"
    assert plan.events[-1].message == (
        f"invalid metrics (2 invalid out of 2), first error is: failed to get cpu resource metric value: {failed}"
    )
    more = decide(observed(autoscaler(metrics=[CUSTOM, cpu()]), 2, {"a": use("0.2"), "b": use("0.2")}))
    assert [metric["type"] for metric in more.status["currentMetrics"]] == ["", "Resource"]
