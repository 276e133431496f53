"""Who gives way to a more important pod: as few and as unimportant ones as can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from tests.unit.test_scheduler_placement import make_node
from tests.unit.test_scheduler_rules import APP, constraint, required, spread, term
from trainshed.cluster.scheduler.gangs.group import Group, Unit
from trainshed.cluster.scheduler.gangs.placement import Observed as Gang
from trainshed.cluster.scheduler.gangs.preemption import Clearing, clear
from trainshed.cluster.scheduler.ledger import Ledger
from trainshed.cluster.scheduler.placement import Bind, Observed, decide, place
from trainshed.cluster.scheduler.preemption import Nomination, Preempt, spared
from trainshed.cluster.scheduler.requests import pod_requests
from trainshed.cluster.scheduler.scheduledpods import ScheduledPod, ScheduledPods
from trainshed.cluster.scheduler.snapshot import Snapshot
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.podgroups import VOLCANO_PODGROUPS


def pod(
    name: str, cpu: str = "1", priority: int = 0, labels: Mapping[str, str] | None = None, **spec: Any
) -> Object:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "default", "uid": f"u-{name}", "labels": dict(labels or {})}
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return {
        "metadata": metadata,
        "spec": {"containers": [container], "priority": priority, **spec},
        "status": {},
    }


def since(one: Object, time: str) -> Object:
    one["status"]["startTime"] = f"2026-01-01T{time}Z"
    return one


def snapshot(
    nodes: Sequence[Object],
    placed: Mapping[str, Sequence[Object]],
    units: Mapping[str, Unit] | None = None,
    budgets: Sequence[Object] = (),
) -> Snapshot:
    scheduled, held = ScheduledPods(), Ledger()
    for node, pods in placed.items():
        for each in pods:
            name = each["metadata"]["name"]
            scheduled.put(ScheduledPod.of(each, node, (units or {}).get(name, ("", "default", name))))
            held.hold(name, node, pod_requests(each))
    return Snapshot(nodes, held.used(), scheduled=scheduled, budgets=budgets)


def victims(one: Object, inside: Snapshot) -> tuple[str, list[str]]:
    """Return the node that the pod is to get, and who gives way."""
    after = place(one, inside).after
    assert isinstance(after, Nomination)
    return after.node, sorted(victim.name for victim in after.victims)


ONE = [make_node("a")]
TWO = [make_node("a"), make_node("b")]


def test_only_as_many_go_as_must_the_least_important_first() -> None:
    there = [pod("p0", "2", 5), pod("p1", "1", 1), pod("p2", "1", 3)]
    assert victims(pod("new", "1", 10), snapshot(ONE, {"a": there})) == ("a", ["p1"])
    assert victims(pod("new", "2", 10), snapshot(ONE, {"a": there})) == ("a", ["p1", "p2"])
    assert victims(pod("new", "3", 10), snapshot(ONE, {"a": there})) == ("a", ["p0", "p1"]), (
        "p2 may stay then"
    )
    assert victims(pod("new", "2", 4), snapshot(ONE, {"a": there})) == ("a", ["p1", "p2"]), (
        "p0 is more important"
    )


def test_of_equals_the_youngest_goes() -> None:
    there = [since(pod("old", "2"), "01:00:00"), since(pod("young", "2"), "02:00:00")]
    assert victims(pod("new", "1", 10), snapshot(ONE, {"a": there})) == ("a", ["young"])


def claiming(name: str, priority: int, cpu: str = "1") -> Object:
    return pod(name, cpu, priority, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])


def claimed(placed: Mapping[str, Sequence[Object]], nodes: Sequence[Object] = TWO) -> Snapshot:
    """Return the state where the claim `data` is for one pod only."""
    claim = {"metadata": {}, "spec": {"accessModes": ["ReadWriteOncePod"]}, "status": {"phase": "Bound"}}
    return msgspec.structs.replace(snapshot(nodes, placed), claims={("default", "data"): claim})


def test_who_has_a_claim_for_one_pod_gives_way_and_nobody_else_does() -> None:
    there = {"a": [pod("a1", "1", 1)], "b": [pod("b1", "1", 1), claiming("holder", 5)]}
    assert victims(claiming("new", 9), claimed(there)) == ("b", ["holder"])


def test_who_has_a_claim_for_one_pod_and_is_as_important_stays() -> None:
    """Each node says whether nobody is less important there, or whose end would not free the claim."""
    there = {"a": [], "b": [pod("b1", "1", 1), claiming("holder", 9)]}
    in_use = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
    assert place(claiming("new", 9), claimed(there)).why_not == (
        f"0/2 nodes are available: 2 {in_use}. preemption: 0/2 nodes are available: "
        f"1 No preemption victims found for incoming pod, 1 {in_use}."
    )


def test_a_claim_for_one_pod_is_told_after_what_the_node_itself_refuses() -> None:
    tainted = make_node("a", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    there = {"b": [claiming("holder", 5)]}
    why = place(claiming("new", 5), claimed(there, [tainted, make_node("b")])).why_not
    assert why.startswith(
        "0/2 nodes are available: 1 node has pod using PersistentVolumeClaim with the same name and "
        "ReadWriteOncePod access mode, 1 node(s) had untolerated taint {gpu: }."
    )
    assert why.endswith(
        "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
    )


@pytest.mark.parametrize(
    ("on_a", "on_b", "chosen"),
    [
        ([pod("a1", "4", 5)], [pod("b1", "4", 3)], "b"),
        ([pod("a1", "2", 3), pod("a2", "2", 3)], [pod("b1", "4", 3)], "b"),
        ([pod("a1", "4", 3)], [pod("b1", "2", 3), pod("b2", "2", 1)], "a"),
        ([since(pod("a1", "4"), "01:00:00")], [since(pod("b1", "4"), "02:00:00")], "b"),
        ([pod("a1", "4")], [pod("b1", "4")], "a"),
    ],
)
def test_which_node_is_cleared(on_a: list[Object], on_b: list[Object], chosen: str) -> None:
    """The least important victims; of as important ones the fewest; of as many those that began last."""
    assert victims(pod("new", "4", 10), snapshot(TWO, {"a": on_a, "b": on_b}))[0] == chosen


@pytest.mark.parametrize(
    ("one", "there", "why"),
    [
        (pod("new", "2", 0), [pod("p", "4", 0)], "0/1 nodes are available: 1 No preemption victims"),
        (pod("new", "64", 9), [pod("p", "4", 0)], "0/1 nodes are available: 1 Preemption is not helpful"),
        (
            pod("new", "4", 9),
            [pod("p", "2", 1), pod("q", "2", 9)],
            "0/1 nodes are available: 1 Insufficient cpu.",
        ),
        (
            pod("new", "4", 9, preemptionPolicy="Never"),
            [pod("p", "4", 0)],
            "not eligible due to preemptionPolicy=Never",
        ),
        (
            pod("new", "1", 9, nodeSelector={"gpu": "yes"}),
            [pod("p", "4", 0)],
            "0/1 nodes are available: 1 Preemption is not helpful",
        ),
    ],
)
def test_why_nobody_gives_way(one: Object, there: list[Object], why: str) -> None:
    found = place(one, snapshot(ONE, {"a": there}))
    assert found.after is None
    assert f" preemption: {why}" in found.why_not


def test_a_pod_whose_victims_are_going_waits_and_keeps_its_node() -> None:
    going = pod("p", "4", 0)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    waiting = pod("new", "4", 9)
    waiting["status"] = {"nominatedNodeName": "a"}
    found = place(waiting, snapshot(TWO, {"a": [going], "b": [pod("q", "4", 0)]}))
    assert found.after is None and found.nominated == "a"
    assert "preemption: not eligible due to a terminating pod on the nominated node." in found.why_not
    assert place(waiting, snapshot(TWO, {"b": [pod("q", "4", 0)]})).node == "a"


def test_a_pod_that_is_going_is_no_victim() -> None:
    going = pod("p", "4", 0)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert victims(pod("new", "4", 9), snapshot(TWO, {"a": [pod("q", "4", 0)], "b": [going]})) == ("b", [])


def budget(allowed: int, labels: Mapping[str, str]) -> Object:
    return {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": dict(labels)}},
        "status": {"disruptionsAllowed": allowed},
    }


def test_a_budget_is_kept_where_it_can_be() -> None:
    guarded, free = pod("guarded", "2", 0, APP), pod("free", "2", 1)
    both = {"a": [guarded, free]}
    assert victims(pod("new", "2", 9), snapshot(ONE, both)) == ("a", ["guarded"])
    assert victims(pod("new", "2", 9), snapshot(ONE, both, budgets=[budget(1, APP)])) == ("a", ["guarded"])
    assert victims(pod("new", "2", 9), snapshot(ONE, both, budgets=[budget(0, APP)])) == ("a", ["free"])
    assert victims(pod("new", "4", 9), snapshot(ONE, both, budgets=[budget(0, APP)])) == (
        "a",
        ["free", "guarded"],
    )
    apart = {"a": [pod("guarded", "4", 0, APP)], "b": [pod("free", "4", 5)]}
    assert victims(pod("new", "4", 9), snapshot(TWO, apart, budgets=[budget(0, APP)])) == ("b", ["free"])


def test_pods_give_way_that_only_stand_too_near() -> None:
    near = {"a": [pod("p", "1", 0, APP)]}
    apart = required("podAntiAffinity", term(APP))
    labelled = [make_node("a", labels={"kubernetes.io/hostname": "a"})]
    assert victims(pod("new", "1", 9, **apart), snapshot(labelled, near)) == ("a", ["p"])
    unwanted = {"a": [pod("p", "1", 0, **required("podAntiAffinity", term(APP)))]}
    assert victims(pod("new", "1", 9, APP), snapshot(labelled, unwanted)) == ("a", ["p"])
    hosts = [*labelled, make_node("b", labels={"kubernetes.io/hostname": "b"}, cpu="0")]
    skewed = spread(constraint("kubernetes.io/hostname"))
    assert victims(pod("new", "1", 9, APP, **skewed), snapshot(hosts, near)) == ("a", ["p"])


GANG: Unit = (VOLCANO_PODGROUPS.group, "default", "gang")


def test_a_group_goes_as_a_whole_or_stays() -> None:
    members = {f"g{n}": GANG for n in range(3)}
    placed = {"a": [pod("g0", "2"), pod("g1", "2")], "b": [pod("g2", "2"), pod("single", "2")]}
    assert victims(pod("new", "2", 9), snapshot(TWO, placed, members)) == ("b", ["single"]), (
        "one pod costs less"
    )
    del placed["b"][1]
    placed["b"].append(pod("dear", "2", 9))
    assert victims(pod("new", "2", 9), snapshot(TWO, placed, members)) == ("a", ["g0", "g1", "g2"])
    placed["a"][0] = pod("g0", "2", 9)
    assert place(pod("new", "2", 9), snapshot(TWO, placed, members)).after is None, (
        "its most important pod counts"
    )


def cleared(count: int, cpu: str, inside: Snapshot, priority: int = 9, **spec: Any) -> Clearing | None:
    group = Group(resource=VOLCANO_PODGROUPS, namespace="default", name="new", min_member=count)
    pods = [pod(f"n{n}", cpu, priority, **spec) for n in range(count)]
    return clear(Gang(group=group, placed=0, waiting=pods, snapshot=inside), priority)


def test_a_group_preempts_for_all_of_its_pods_or_not_at_all() -> None:
    placed = {"a": [pod("p0", "2", 1), pod("p1", "2", 2)], "b": [pod("p2", "2", 3), pod("p3", "2", 9)]}
    found = cleared(2, "2", snapshot(TWO, placed))
    assert found is not None
    assert sorted(v.name for v in found.victims) == ["p0", "p1"] and set(found.nodes) == {"a"}
    found = cleared(3, "2", snapshot(TWO, placed))
    assert found is not None and sorted(v.name for v in found.victims) == ["p0", "p1", "p2"]
    assert cleared(4, "2", snapshot(TWO, placed)) is None, "p3 is as important: nobody goes in vain"
    assert cleared(2, "2", snapshot(TWO, placed), preemptionPolicy="Never") is None
    guarded = [budget(0, APP)]
    placed["a"][0]["metadata"]["labels"] = APP
    found = cleared(2, "2", snapshot(TWO, placed, budgets=guarded))
    assert found is not None and sorted(v.name for v in found.victims) == ["p1", "p2"]


@pytest.mark.parametrize("needed", [set(), {0}, {7}, {2, 5}, set(range(8))])
def test_all_are_spared_that_can_be(needed: set[int]) -> None:
    units = [
        [ScheduledPod(uid=str(n), namespace="d", name=str(n), node="a", unit=("", "d", str(n)))]
        for n in range(8)
    ]
    going = spared(units, lambda gone: needed <= set(gone))
    assert {int(unit[0].name) for unit in going} == needed


def test_a_plan_tells_the_victims_and_keeps_the_node() -> None:
    plan = decide(Observed(pod("new", "4", 9), snapshot(ONE, {"a": [pod("p", "4", 0)]}), 1_700_000_000.0))
    (action,) = plan.actions
    assert isinstance(action, Preempt) and not isinstance(action, Bind)
    assert action.victim.name == "p" and action.text == "Preempted by pod u-new on node a"
    assert plan.status is not None and plan.status["nominatedNodeName"] == "a"
    assert [event.reason for event in plan.events] == ["FailedScheduling"]
    waiting = pod("new", "4", 0)
    waiting["status"] = {"nominatedNodeName": "a"}
    status = decide(Observed(waiting, snapshot(ONE, {"a": [pod("p", "4", 0)]}), 1_700_000_000.0)).status
    assert status is not None and status["nominatedNodeName"] is None, "nobody gives way to it any more"
