"""Groups of pods: all together or none, why one waits, and that two that fit one after the other never block."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import times
from tests.unit.test_scheduler_placement import make_node
from trainshed.cluster.scheduler.activequeue import ActiveQueue
from trainshed.cluster.scheduler.gangs import coscheduling, volcano
from trainshed.cluster.scheduler.gangs.definitions import definitions
from trainshed.cluster.scheduler.gangs.fitting import fit_all
from trainshed.cluster.scheduler.gangs.group import Counts, Group, unit_of
from trainshed.cluster.scheduler.gangs.placement import GroupPlacement, Observed, Queue, place_group
from trainshed.cluster.scheduler.ledger import Ledger
from trainshed.cluster.scheduler.requests import pod_requests
from trainshed.cluster.scheduler.snapshot import Snapshot
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.podgroups import VOLCANO_PODGROUPS
from trainshed.kube.schema.nodes import from_crd
from trainshed.kube.schema.structural import validate

NOW = 1_700_000_000.0


def make_group(min_member: int, **more: Any) -> Group:
    return Group(resource=VOLCANO_PODGROUPS, namespace="ns", name="gang", min_member=min_member, **more)


def make_pods(*cpus: str, **spec: Any) -> list[Object]:
    return [
        {
            "metadata": {"name": f"p{number}", "namespace": "ns"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], **spec},
        }
        for number, cpu in enumerate(cpus)
    ]


def judged(
    group: Group, pods: Sequence[Object], nodes: Sequence[Object], placed: int = 0, **more: Any
) -> GroupPlacement:
    snapshot = Snapshot(nodes, more.pop("used", {}))
    return place_group(Observed(group=group, placed=placed, waiting=pods, snapshot=snapshot, **more))


# Together or not at all.


def test_all_pods_get_their_nodes_at_once() -> None:
    decision = judged(make_group(3), make_pods("2", "2", "2"), [make_node("a"), make_node("b")])
    assert sorted(map(str, decision.nodes)) in (["a", "a", "b"], ["a", "b", "b"])
    assert decision.why == "" and not decision.incomplete


def test_none_gets_a_node_where_too_few_fit_and_it_says_why() -> None:
    decision = judged(make_group(3), make_pods("2", "2", "2"), [make_node("a")])
    assert decision.nodes == (None, None, None) and not decision.incomplete, "all pods are there"
    assert decision.why == (
        "2 of 3 pods fit, at least 3 must: 0/1 nodes are available: 1 Insufficient cpu. "
        "(cpu: requested 2, most free on one node 0)"
    )


def test_as_many_as_fit_get_a_node_where_enough_do() -> None:
    decision = judged(make_group(2), make_pods("2", "2", "2"), [make_node("a")])
    assert decision.nodes == ("a", "a", None) and not decision.why and not decision.incomplete


@pytest.mark.parametrize("needs", [{}, {"cpu": Decimal(6)}], ids=["nothing", "more than is free"])
def test_a_replaced_pod_needs_only_its_own_place(needs: dict[str, Decimal]) -> None:
    group = make_group(3, min_resources=needs)
    assert judged(group, make_pods("2"), [make_node("a")], placed=2).nodes == ("a",)


@pytest.mark.parametrize(("placed", "waiting"), [(0, 0), (0, 2), (1, 1)])
def test_a_group_waits_for_the_pods_that_are_still_to_come(placed: int, waiting: int) -> None:
    decision = judged(make_group(3), make_pods(*["1"] * waiting), [make_node("a")], placed=placed)
    assert decision.incomplete and decision.let_in
    assert decision.why == f"{placed + waiting} of at least 3 pods are there"
    assert set(decision.nodes) <= {None}


def test_pods_go_only_where_their_rules_allow() -> None:
    nodes = [make_node("a"), make_node("b", labels={"gpu": "yes"})]
    pods = make_pods("2", "2", nodeSelector={"gpu": "yes"}) + make_pods("2", "2")
    assert judged(make_group(4), pods, nodes).nodes == ("b", "b", "a", "a")


# Queue, priority, what must be free.


def test_what_must_be_free_keeps_a_group_out_before_it_has_pods() -> None:
    group = make_group(3, min_resources={"cpu": Decimal(6)})
    out = judged(group, [], [make_node("a")], let_in=False)
    assert not out.incomplete, "none is to come before it is let in"
    assert (out.let_in, out.why) == (False, "its minResources are not free: cpu: needed 6, free 4")
    assert judged(group, [], [make_node("a"), make_node("b")], let_in=False).let_in
    promised = {"cpu": Decimal(3)}
    kept = judged(group, [], [make_node("a"), make_node("b")], let_in=False, promised=promised)
    assert kept.why == "its minResources are not free: cpu: needed 6, free 5"


def test_nodes_that_take_no_pods_are_not_free() -> None:
    cordoned = make_node("b")
    cordoned["spec"]["unschedulable"] = True
    group = make_group(1, min_resources={"cpu": Decimal(6)})
    assert not judged(group, [], [make_node("a"), cordoned], let_in=False).let_in


@pytest.mark.parametrize(
    ("queue", "let_in", "why"),
    [
        (Queue("q", closed=True), False, 'queue "q" is closed'),
        (Queue("q", closed=True), True, ""),
        (
            Queue("q", capability={"cpu": Decimal(3)}),
            True,
            'queue "q" has reached its capability: cpu: needed 2, free 1',
        ),
        (Queue("q", capability={"cpu": Decimal(4)}), True, ""),
    ],
)
def test_a_queue_keeps_groups_out(queue: Queue, let_in: bool, why: str) -> None:
    used = {"cpu": Decimal(2)}
    decision = judged(
        make_group(2), make_pods("1", "1"), [make_node("a")], let_in=let_in, queue=queue, queue_used=used
    )
    assert decision.why == why
    assert all(decision.nodes) is (not why)


def test_turns_come_by_turn_and_keys_once() -> None:
    turns: ActiveQueue[str] = ActiveQueue()
    for key, turn in (("late", (2,)), ("first", (1,)), ("moved", (9,)), ("moved", (0,)), ("second", (1,))):
        turns.put(key, turn)
    assert [turns.pop() for _ in range(5)] == ["moved", "first", "second", "late", None]


# Finding places.


def test_it_goes_back_where_the_most_free_node_is_the_wrong_one() -> None:
    """Six halves and thirds that only go in one way: 3+3, 2+2+2."""
    nodes = [make_node("a", cpu="6"), make_node("b", cpu="6")]
    chosen = fit_all(make_pods("2", "3", "2", "3", "2"), Snapshot(nodes, {}))
    assert chosen is not None
    loads = dict.fromkeys("ab", 0)
    for node, cpu in zip(chosen, (2, 3, 2, 3, 2), strict=True):
        loads[node] += cpu
    assert loads == {"a": 6, "b": 6}


sizes = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@times(1.5)
@given(pods=sizes, nodes=st.lists(st.integers(1, 6), min_size=1, max_size=3))
def test_what_fits_in_any_way_is_placed_and_no_node_is_overfilled(pods: list[int], nodes: list[int]) -> None:
    snapshot = Snapshot([make_node(f"n{i}", cpu=str(cpu)) for i, cpu in enumerate(nodes)], {})
    chosen = fit_all(make_pods(*map(str, pods)), snapshot)
    ways = itertools.product(range(len(nodes)), repeat=len(pods))
    possible = any(_fits(pods, way, nodes) for way in ways)
    assert (chosen is not None) is possible
    if chosen is not None:
        assert _fits(pods, [int(name[1:]) for name in chosen], nodes)


def _fits(pods: Sequence[int], way: Iterable[int], nodes: Sequence[int]) -> bool:
    left = list(nodes)
    for size, node in zip(pods, way, strict=True):
        left[node] -= size
    return min(left) >= 0


# Never a deadlock.


class Gang:
    """A gang that comes pod by pod, runs once all of `least` have a node, and then goes."""

    def __init__(self, name: str, sizes: list[int], least: int) -> None:
        self.name = name
        self.least = least
        self.pods = make_pods(*map(str, sizes))
        self.there = 0
        self.nodes: dict[int, str] = {}
        self.over = False

    def waiting(self) -> list[int]:
        return [index for index in range(self.there) if index not in self.nodes]

    def decide(self, nodes: Sequence[Object], ledger: Ledger) -> None:
        """Decide as the scheduler does: the pods that get a node are in the ledger before anything else is decided."""
        waiting = self.waiting()
        pods = [self.pods[index] for index in waiting]
        decision = judged(make_group(self.least), pods, nodes, placed=len(self.nodes), used=ledger.used())
        for index, node in zip(waiting, decision.nodes, strict=True):
            if node is not None:
                ledger.hold((self.name, index), node, pod_requests(self.pods[index]))
                self.nodes[index] = node
        assert not 0 < len(self.nodes) < self.least, "a part of a gang holds what others could use"

    def finish(self, ledger: Ledger) -> None:
        if len(self.nodes) >= self.least:
            self.over = True
            for index in self.nodes:
                ledger.release((self.name, index))
            self.nodes = {}


@times(1.5)
@given(data=st.data())
def test_gangs_that_fit_one_after_the_other_all_get_through(data: st.DataObject) -> None:
    """Whatever the order in which pods come and decisions are made; each must fit into the empty cluster."""
    nodes = [
        make_node(f"n{i}", cpu=str(cpu))
        for i, cpu in enumerate(data.draw(st.lists(st.integers(2, 5), min_size=1, max_size=3), label="nodes"))
    ]
    ledger = Ledger()
    gangs = []
    for number, pods in enumerate(data.draw(st.lists(sizes, min_size=2, max_size=3), label="gangs")):
        if fit_all(make_pods(*map(str, pods)), Snapshot(nodes, {})) is not None:
            least = data.draw(st.integers(1, len(pods)), label="least")
            gangs.append(Gang(f"g{number}", pods, least))
    arrivals = data.draw(st.permutations([gang for gang in gangs for _ in gang.pods]), label="arrivals")
    for gang in arrivals:
        gang.there += 1
        for each in data.draw(st.permutations(gangs), label="turns"):
            each.decide(nodes, ledger)
    for _ in gangs:
        running = [gang for gang in gangs if not gang.over]
        for gang in running:
            gang.finish(ledger)
        for gang in data.draw(st.permutations([g for g in running if not g.over]), label="next"):
            gang.decide(nodes, ledger)
    for gang in gangs:
        gang.finish(ledger) if not gang.over else None
    assert all(gang.over for gang in gangs), "blocked: " + ", ".join(g.name for g in gangs if not g.over)
    assert not ledger.used()


def test_a_group_that_is_large_enough_without_some_is_let_in() -> None:
    out = judged(make_group(2), make_pods("3", "3", "3"), [make_node("a"), make_node("b")])
    assert (out.let_in, sum(each is not None for each in out.nodes)) == (True, 2)


# Both APIs.


@pytest.mark.parametrize(
    ("metadata", "unit"),
    [
        ({}, ("", "ns", "p")),
        ({"annotations": {"scheduling.k8s.io/group-name": "g"}}, ("scheduling.volcano.sh", "ns", "g")),
        ({"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, ("scheduling.x-k8s.io", "ns", "g")),
    ],
)
def test_the_group_of_a_pod(metadata: Object, unit: tuple[str, str, str]) -> None:
    assert unit_of({"metadata": {"name": "p", "namespace": "ns", **metadata}}) == unit


def make_object(spec: Object, status: Object | None = None) -> Object:
    metadata = {"name": "gang", "namespace": "ns", "creationTimestamp": "2024-01-01T00:00:00Z"}
    return {"metadata": metadata, "spec": spec, "status": status or {}}


def test_a_group_of_volcanos_is_read() -> None:
    spec = {"minMember": 3, "minResources": {"cpu": "1500m"}, "queue": "q", "priorityClassName": "high"}
    group = volcano.read(make_object(spec), {"high": 7})
    assert (group.min_member, group.min_resources, group.queue) == (3, {"cpu": Decimal("1.5")}, "q")
    assert (group.priority, group.timeout) == (7, None)
    assert volcano.read(make_object({}), {}).priority is None, "then its pods'"


def test_a_group_of_scheduler_plugins_is_read() -> None:
    group = coscheduling.read(make_object({"minMember": 2, "scheduleTimeoutSeconds": 60}))
    assert (group.min_member, group.timeout, group.queue) == (2, 60.0, "")


@pytest.mark.parametrize(
    ("counts", "let_in", "why", "phase"),
    [
        (Counts(), False, "no room", "Pending"),
        (Counts(), True, "", "Inqueue"),
        (Counts(pods=3), True, "no room", "Inqueue"),
        (Counts(pods=3, placed=3), True, "", "Running"),
        (Counts(pods=3, placed=3, running=2, succeeded=1), True, "", "Running"),
        (Counts(pods=3, placed=2, running=2), True, "no room", "Unknown"),
        (Counts(pods=3, placed=3, succeeded=2, failed=1), True, "", "Completed"),
    ],
)
def test_the_status_of_volcanos_group(counts: Counts, let_in: bool, why: str, phase: str) -> None:
    obj = make_object({"minMember": 3})
    status = volcano.status(obj, volcano.read(obj, {}), counts, let_in=let_in, why=why, now=NOW)
    assert status["phase"] == phase
    told = {c["type"]: c.get("message") for c in status.get("conditions", [])}
    expected = {"Unschedulable": why} if why else {"Scheduled": None} if counts.placed == 3 else {}
    assert told == expected
    again = volcano.status(
        {**obj, "status": status}, volcano.read(obj, {}), counts, let_in=let_in, why=why, now=NOW + 9
    )
    assert again == status, "nothing new, nothing written"


@pytest.mark.parametrize(
    ("counts", "phase"),
    [
        (Counts(), "Pending"),
        (Counts(pods=2), "Pending"),
        (Counts(pods=3), "Scheduling"),
        (Counts(pods=3, placed=3, running=2), "Scheduling"),
        (Counts(pods=3, placed=3, running=2, succeeded=1), "Running"),
        (Counts(pods=3, placed=3, succeeded=3), "Finished"),
        (Counts(pods=3, placed=3, running=2, failed=1), "Failed"),
    ],
)
def test_the_status_of_a_group_of_scheduler_plugins(counts: Counts, phase: str) -> None:
    obj = make_object({"minMember": 3})
    status = coscheduling.status(obj, coscheduling.read(obj), counts, now=NOW)
    assert status["phase"] == phase
    assert ("scheduleStartTime" in status) is (phase != "Pending")
    again = coscheduling.status({**obj, "status": status}, coscheduling.read(obj), counts, now=NOW + 9)
    assert again == status


def test_the_definitions_take_what_is_written() -> None:
    podgroups = {
        d["spec"]["group"]: d["spec"]["versions"][0]
        for d in definitions()
        if "podgroups" in d["metadata"]["name"]
    }
    assert podgroups["scheduling.volcano.sh"]["subresources"] == {}, "as Volcano's"
    assert podgroups["scheduling.x-k8s.io"]["subresources"] == {"status": {}}
    obj = make_object({"minMember": 3, "minResources": {"cpu": "1"}})
    counts = Counts(pods=3, placed=3, running=3)
    statuses = {
        "scheduling.volcano.sh": volcano.status(
            obj, volcano.read(obj, {}), counts, let_in=True, why="x", now=NOW
        ),
        "scheduling.x-k8s.io": coscheduling.status(obj, coscheduling.read(obj), counts, now=NOW),
    }
    for group, status in statuses.items():
        schema = from_crd(podgroups[group]["schema"]["openAPIV3Schema"])
        assert validate({**obj, "status": status}, schema) == []
