"""PodDisruptionBudgets: how many pods may go now."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.cluster.controllers.disruption import Observed, decide
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.times import format_time

NOW = 1_700_000_000.0


def budget(status: Object | None = None, **spec: Any) -> Object:
    return {"metadata": {"name": "b", "generation": 2}, "spec": spec, "status": status or {}}


def pod(name: str, *, ready: bool = True, owner: str = "rs") -> Object:
    metadata: Object = {"name": name}
    if owner:
        reference = {"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
        metadata["ownerReferences"] = [reference]
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {"metadata": metadata, "status": {"phase": "Running", "conditions": [condition]}}


def status(held: Object, pods: list[Object], scales: dict[str, int | str] | None = None) -> Object:
    found = decide(Observed(held, pods, {"rs": len(pods)} if scales is None else scales, NOW)).status
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("spec", "ready", "scale", "allowed", "desired"),
    [
        ({"minAvailable": 1}, 3, 3, 2, 1),
        ({"minAvailable": 3}, 3, 3, 0, 3),
        ({"minAvailable": "50%"}, 3, 3, 1, 2),
        ({"maxUnavailable": 1}, 3, 3, 1, 2),
        ({"maxUnavailable": 1}, 3, 5, 0, 4),
        ({"maxUnavailable": "34%"}, 3, 3, 2, 1),
        ({"maxUnavailable": 0}, 3, 3, 0, 3),
    ],
)
def test_counts(spec: Object, ready: int, scale: int, allowed: int, desired: int) -> None:
    found = status(budget(**spec), [pod(f"p{i}") for i in range(ready)], {"rs": scale})
    assert (found["disruptionsAllowed"], found["desiredHealthy"]) == (allowed, desired)
    assert found["currentHealthy"] == ready and found["observedGeneration"] == 2
    (condition,) = found["conditions"]
    expected = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    assert (condition["status"], condition["reason"]) == expected


def test_only_pods_that_are_ready_and_stay_are_healthy() -> None:
    leaving = pod("c")
    leaving["metadata"]["deletionTimestamp"] = format_time(NOW)
    found = status(budget(minAvailable=1), [pod("a"), pod("b", ready=False), leaving])
    assert (found["currentHealthy"], found["expectedPods"], found["disruptionsAllowed"]) == (1, 3, 0)


def test_an_evicted_pod_counts_as_gone_until_it_is_or_two_minutes_are_over() -> None:
    held = budget({"disruptedPods": {"a": format_time(NOW - 60), "gone": format_time(NOW)}}, minAvailable=1)
    plan = decide(Observed(held, [pod("a"), pod("b")], {"rs": 2}, NOW))
    assert plan.status is not None
    assert plan.status["currentHealthy"] == 1 and list(plan.status["disruptedPods"]) == ["a"]
    assert plan.requeue_after == 60
    later = decide(Observed(held, [pod("a"), pod("b")], {"rs": 2}, NOW + 61))
    assert later.status is not None and "disruptedPods" not in later.status


def test_pods_without_a_controller_are_told_of() -> None:
    plan = decide(Observed(budget(maxUnavailable=1), [pod("a", owner="")], {}, NOW))
    assert [event.reason for event in plan.events] == ["UnmanagedPods"]
    selector = {"matchLabels": {"b": "2", "a": "1"}}
    (event,) = decide(
        Observed(budget(maxUnavailable=1, selector=selector), [pod("a", owner="")], {}, NOW)
    ).events
    assert event.message.startswith(
        "Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},"
        "MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged. As a result, the status"
    )
    assert plan.status is not None and plan.status["disruptionsAllowed"] == 0
    by_count = decide(Observed(budget(minAvailable=0), [pod("a", owner="")], {}, NOW))
    assert by_count.status is not None and by_count.status["disruptionsAllowed"] == 1


def test_a_count_that_nobody_knows_lets_nothing_go() -> None:
    why = "jobs.batch does not implement the scale subresource"
    plan = decide(Observed(budget(maxUnavailable=1), [pod("a")], {"rs": why}, NOW))
    assert plan.status is not None and plan.status["disruptionsAllowed"] == 0
    assert plan.status["conditions"][0]["reason"] == "SyncFailed"
    assert [e.message for e in plan.events] == [f"Failed to calculate the number of expected pods: {why}"]


def test_the_same_state_is_written_and_told_once() -> None:
    first = decide(Observed(budget(minAvailable=1), [], {}, NOW))
    assert [event.reason for event in first.events] == ["NoPods"]
    again = decide(Observed(budget(first.status, minAvailable=1), [], {}, NOW + 5))
    assert again.status == first.status and again.events == ()
