"""Rules about the pods beside: affinity, spread, and which of several nodes is the better one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.unit.test_scheduler_placement import make_node
from trainshed.cluster.scheduler.feasibility import is_helped_by
from trainshed.cluster.scheduler.gangs.group import Group
from trainshed.cluster.scheduler.gangs.placement import Observed as Gang
from trainshed.cluster.scheduler.gangs.placement import place_group
from trainshed.cluster.scheduler.placement import Placement, place
from trainshed.cluster.scheduler.scheduledpods import ScheduledPod, ScheduledPods
from trainshed.cluster.scheduler.snapshot import Snapshot
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.podgroups import VOLCANO_PODGROUPS

HOST = "kubernetes.io/hostname"
REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))


def node(name: str, zone: str = "", *, taints: Sequence[Object] = (), **labels: str) -> Object:
    zones = {"zone": zone} if zone else {}
    return make_node(name, labels={HOST: name, **zones, **labels}, taints=taints)


def pod(
    name: str, labels: Mapping[str, str] | None = None, namespace: str = "default", **spec: Any
) -> Object:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"{namespace}/{name}",
        "labels": dict(labels or {}),
    }
    return {"metadata": metadata, "spec": {"containers": [container], **spec}, "status": {}}


def term(labels: Mapping[str, str] | None = None, key: str = HOST, **more: Any) -> Object:
    return {"labelSelector": {"matchLabels": dict(labels or {})}, "topologyKey": key, **more}


def required(kind: str, *terms: Object) -> Object:
    return {"affinity": {kind: {REQUIRED: list(terms)}}}


def preferred(kind: str, *weighted: tuple[int, Object]) -> Object:
    rules = [{"weight": weight, "podAffinityTerm": each} for weight, each in weighted]
    return {"affinity": {kind: {PREFERRED: rules}}}


def snapshot(nodes: Sequence[Object], *placed: tuple[Object, str], **more: Any) -> Snapshot:
    scheduled = ScheduledPods()
    for each, where in placed:
        scheduled.put(
            ScheduledPod.of(each, where, ("", each["metadata"]["namespace"], each["metadata"]["name"]))
        )
    return Snapshot(nodes, {}, scheduled=scheduled, **more)


def put(one: Object, nodes: Sequence[Object], *placed: tuple[Object, str], **more: Any) -> Placement:
    return place(one, snapshot(nodes, *placed, **more))


def one_by_one(count: int, nodes: Sequence[Object], labels: Mapping[str, str], **spec: Any) -> list[str]:
    """Place equal pods one after the other; return their nodes, empty for one that waits."""
    placed: list[tuple[Object, str]] = []
    for number in range(count):
        each = pod(f"p{number}", labels, **spec)
        placed.append((each, put(each, nodes, *(p for p in placed if p[1])).node))
    return [where for _, where in placed]


APP = {"app": "x"}
THREE = [node("a", "east"), node("b", "east"), node("c", "west")]


# Affinity.


def test_a_pod_goes_where_those_are_that_it_must_be_beside() -> None:
    beside = required("podAffinity", term({"app": "db"}, "zone"))
    db = pod("db", {"app": "db"})
    assert put(pod("p", **beside), THREE, (db, "c")).node == "c"
    assert put(pod("p", **beside), THREE).why_not.startswith(
        "0/3 nodes are available: 3 node(s) didn't match pod affinity rules. preemption: "
        "0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )
    unlabelled = [node("a"), *THREE[2:]]
    assert (
        "1 node(s) didn't match pod affinity rules"
        in put(pod("p", **{**beside, "nodeSelector": {HOST: "a"}}), unlabelled, (db, "c")).why_not
    ), "a node without the label is beside nothing"


def test_the_first_of_pods_that_want_each_other_may_go_anywhere() -> None:
    itself = required("podAffinity", term(APP, "zone"))
    nodes = one_by_one(3, THREE, APP, **itself)
    assert all(nodes) and len({"west" if name == "c" else "east" for name in nodes}) == 1
    other = required("podAffinity", term(APP, "zone"), term({"app": "y"}, "zone"))
    assert not put(pod("p", APP, **other), THREE).node, "it is not what its second term asks for"


def test_all_terms_must_be_met_by_the_same_pods() -> None:
    both = required("podAffinity", term({"a": "1"}), term({"b": "1"}))
    apart = [(pod("p1", {"a": "1"}), "a"), (pod("p2", {"b": "1"}), "a")]
    assert not put(pod("p", **both), THREE, *apart).node
    assert put(pod("p", **both), THREE, (pod("p1", {"a": "1", "b": "1"}), "b")).node == "b"


def test_pods_that_must_be_apart_take_a_node_each_and_then_wait() -> None:
    nodes = one_by_one(4, THREE, APP, **required("podAntiAffinity", term(APP)))
    assert sorted(nodes) == ["", "a", "b", "c"]
    anti = required("podAntiAffinity", term(APP))
    full = [(pod(f"q{name}", APP), name) for name in "abc"]
    assert put(pod("p", **anti), THREE, *full).why_not.startswith(
        "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules."
    )


def test_those_that_are_there_keep_others_away() -> None:
    alone = pod("alone", **required("podAntiAffinity", term(APP, "zone")))
    found = put(pod("p", APP), THREE, (alone, "a"))
    assert found.node == "c"
    assert put(pod("p", APP), THREE[:2], (alone, "a")).why_not.startswith(
        "0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."
    )
    assert put(pod("p", {"app": "other"}), THREE[:2], (alone, "a")).node == "a"


@pytest.mark.parametrize(
    ("more", "fits"),
    [
        ({}, True),
        ({"namespaces": ["theirs"]}, False),
        ({"namespaces": ["elsewhere"]}, True),
        ({"namespaceSelector": {}}, False),
        ({"namespaceSelector": {"matchLabels": {"team": "blue"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"team": "red"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "red"}}, "namespaces": ["theirs"]}, False),
    ],
)
def test_which_namespaces_a_term_looks_into(more: Object, fits: bool) -> None:
    anti = required("podAntiAffinity", term(APP, **more))
    theirs = pod("q", APP, "theirs")
    namespaces = {"theirs": {"team": "blue"}, "default": {}}
    assert bool(put(pod("p", **anti), THREE[:1], (theirs, "a"), namespaces=namespaces).node) is fits


def test_a_term_without_a_selector_means_nobody() -> None:
    anti = required("podAntiAffinity", {"topologyKey": HOST})
    assert put(pod("p", **anti), THREE[:1], (pod("q", APP), "a")).node == "a"


@pytest.mark.parametrize(
    ("keys", "fits"),
    [
        ({"matchLabelKeys": ["revision"]}, True),
        ({"matchLabelKeys": ["absent"]}, False),
        ({"mismatchLabelKeys": ["revision"]}, False),
    ],
)
def test_label_keys_narrow_a_term(keys: Object, fits: bool) -> None:
    """Only pods of the same revision are to be apart; a rollout may put the next one beside the last."""
    anti = required("podAntiAffinity", term(APP, **keys))
    old = pod("q", {**APP, "revision": "1"})
    assert bool(put(pod("p", {**APP, "revision": "2"}, **anti), THREE[:1], (old, "a")).node) is fits


# Spread.


def constraint(key: str = "zone", skew: int = 1, hard: bool = True, **more: Any) -> Object:
    unsatisfiable = "DoNotSchedule" if hard else "ScheduleAnyway"
    return {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": unsatisfiable,
        "labelSelector": {"matchLabels": APP},
        **more,
    }


def spread(*constraints: Object) -> Object:
    return {"topologySpreadConstraints": list(constraints)}


def test_pods_are_spread_over_zones_by_the_skew() -> None:
    zones = {"a": "east", "b": "east", "c": "west"}
    nodes = one_by_one(6, THREE, APP, **spread(constraint()))
    assert Counter(zones[name] for name in nodes) == {"east": 3, "west": 3}
    only_east = [(pod("q1", APP), "a")]
    found = put(
        pod("p", APP, nodeSelector={HOST: "b"}, **spread(constraint(nodeAffinityPolicy="Ignore"))),
        THREE,
        *only_east,
    )
    assert found.why_not.startswith(
        "0/3 nodes are available: 1 node(s) didn't match pod topology spread constraints, "
        "2 node(s) didn't match Pod's node affinity/selector."
    )
    assert put(pod("p", APP, **spread(constraint(skew=2))), THREE[:2], *only_east).node


def test_a_node_without_the_label_is_in_no_domain() -> None:
    why = put(pod("p", APP, **spread(constraint())), [node("a")]).why_not
    assert "1 node(s) didn't match pod topology spread constraints (missing required label)" in why


def test_a_pod_that_the_selector_does_not_mean_does_not_count_itself() -> None:
    one = [(pod("q", APP), "a")]
    assert put(pod("p", **spread(constraint())), THREE[:2], *one).node
    assert put(pod("p", APP, **spread(constraint())), THREE, *one).node == "c"


@pytest.mark.parametrize(
    ("least", "fits"),
    [(1, True), (2, True), (3, False)],
)
def test_too_few_domains_count_as_an_empty_one(least: int, fits: bool) -> None:
    there = [(pod("q1", APP), "a"), (pod("q2", APP), "c")]
    assert bool(put(pod("p", APP, **spread(constraint(minDomains=least))), THREE, *there).node) is fits


def test_nodes_that_the_pod_is_not_meant_for_count_only_if_asked() -> None:
    selected = {"nodeSelector": {"zone": "east"}}
    there = [(pod("q1", APP), "a")]
    assert put(pod("p", APP, **selected, **spread(constraint())), THREE, *there).node
    ignoring = spread(constraint(nodeAffinityPolicy="Ignore"))
    assert not put(pod("p", APP, **selected, **ignoring), THREE, *there).node, "west has none"
    tainted = [*THREE[:2], node("c", "west", taints=[{"key": "k", "effect": "NoSchedule"}])]
    assert not put(pod("p", APP, **spread(constraint())), tainted, *there).node
    assert put(pod("p", APP, **spread(constraint(nodeTaintsPolicy="Honor"))), tainted, *there).node


def test_what_a_spread_counts() -> None:
    gone = pod("q1", APP)
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    elsewhere = pod("q2", APP, "other")
    old = pod("q3", {**APP, "revision": "1"})
    one = pod("p", {**APP, "revision": "2"}, **spread(constraint(matchLabelKeys=["revision"])))
    one["spec"]["nodeSelector"] = {HOST: "a"}
    one["spec"]["topologySpreadConstraints"][0]["nodeAffinityPolicy"] = "Ignore"
    for other in (gone, elsewhere, old):
        assert put(one, THREE, (other, "a")).node == "a", other["metadata"]["name"]
    assert not put(one, THREE, (pod("q4", {**APP, "revision": "2"}), "a")).node


# The better node.


def test_preferred_terms_decide_among_nodes_that_fit() -> None:
    near = preferred("podAffinity", (10, term({"app": "db"})))
    far = preferred("podAntiAffinity", (10, term({"app": "db"})))
    there = [(pod("db", {"app": "db"}), "b")]
    assert put(pod("p", **near), THREE, *there).node == "b"
    assert put(pod("p", **far), THREE[1:], *there).node == "c"
    heavier = preferred("podAffinity", (1, term({"app": "db"})), (9, term({"app": "cache"})))
    assert put(pod("p", **heavier), THREE, *there, (pod("cache", {"app": "cache"}), "c")).node == "c"


def test_pods_that_are_there_draw_those_that_they_want() -> None:
    wanting = pod("w", **preferred("podAffinity", (10, term(APP))))
    needing = pod("n", **required("podAffinity", term(APP)))
    for other in (wanting, needing):
        assert put(pod("p", APP), THREE, (other, "c")).node == "c"
    shy = pod("s", **preferred("podAntiAffinity", (10, term(APP))))
    assert put(pod("p", APP), THREE, (shy, "a")).node == "b"


def test_preferred_node_affinity_and_soft_taints() -> None:
    wish = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["west"]}]}
    node_affinity = {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": wish}]}}}
    assert put(pod("p", **node_affinity), THREE).node == "c"
    soft = [{"key": "spot", "effect": "PreferNoSchedule"}]
    nodes = [node("a", taints=soft), node("b")]
    assert put(pod("p"), nodes).node == "b"
    assert put(pod("p", tolerations=[{"key": "spot", "operator": "Exists"}]), nodes).node == "a"
    assert put(pod("p"), nodes[:1]).node == "a", "it is a wish only"


def test_a_soft_spread_is_kept_while_it_can_be() -> None:
    nodes = one_by_one(4, THREE, APP, **spread(constraint(hard=False)))
    assert Counter(name == "c" for name in nodes) == {True: 2, False: 2}
    assert set(one_by_one(2, THREE[:2], APP, **spread(constraint(HOST, hard=False)))) == {"a", "b"}
    unlabelled = [node("a"), node("b", "east")]
    assert put(pod("p", APP, **spread(constraint(hard=False))), unlabelled).node == "b"


# Groups, and who waits for whom.


def test_rules_hold_among_the_pods_of_a_group() -> None:
    group = Group(resource=VOLCANO_PODGROUPS, namespace="default", name="g", min_member=3)
    apart = required("podAntiAffinity", term(APP))
    pods = [pod(f"p{n}", APP, **apart) for n in range(3)]
    decision = place_group(Gang(group=group, placed=0, waiting=pods, snapshot=snapshot(THREE)))
    assert sorted(map(str, decision.nodes)) == ["a", "b", "c"]
    decision = place_group(Gang(group=group, placed=0, waiting=pods, snapshot=snapshot(THREE[:2])))
    assert decision.nodes == (None,) * 3
    assert decision.why == (
        "2 of 3 pods fit, at least 3 must: 0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."
    )


def test_a_group_keeps_away_from_pods_that_do_not_want_it() -> None:
    group = Group(resource=VOLCANO_PODGROUPS, namespace="default", name="g", min_member=2)
    alone = pod("alone", **required("podAntiAffinity", term(APP)))
    pods = [pod(f"p{n}", APP) for n in range(2)]
    decision = place_group(
        Gang(group=group, placed=0, waiting=pods, snapshot=snapshot(THREE[:2], (alone, "a")))
    )
    assert decision.nodes == ("b", "b")


def test_who_is_helped_by_a_pod_that_gets_its_node() -> None:
    db = ScheduledPod.of(pod("db", {"app": "db"}), "a", ("", "default", "db"))
    waiting = {
        "beside": pod("p", **required("podAffinity", term({"app": "db"}))),
        "other": pod("p", **required("podAffinity", term(APP))),
        "spread": pod("p", **spread(constraint(labelSelector={"matchLabels": {"app": "db"}}))),
        "apart": pod("p", **required("podAntiAffinity", term({"app": "db"}))),
        "plain": pod("p"),
    }
    helped = {name for name, each in waiting.items() if is_helped_by(each, db, {})}
    assert helped == {"beside", "spread"}


def test_neighbours_forget_what_is_gone() -> None:
    scheduled = ScheduledPods()
    one = ScheduledPod.of(pod("p", APP, **required("podAntiAffinity", term(APP))), "a", ("", "default", "p"))
    assert scheduled.put(one) and not scheduled.put(one)
    copy = scheduled.copy()
    copy.remove(one.uid)
    assert (
        scheduled.on("a") == [one] and len(list(scheduled.wished())) == 1 and scheduled.lowest_priority() == 0
    )
    scheduled.remove(one.uid)
    for each in (scheduled, copy):
        assert not each.on("a") and not list(each.wished()) and each.lowest_priority() is None
        assert not each.matching(lambda _: True) and not list(each.units())


def test_mismatched_label_keys_leave_out_pods_that_are_alike() -> None:
    """What the pod itself does not have narrows nothing."""
    anti = required("podAntiAffinity", term(APP, mismatchLabelKeys=["revision", "absent"]))
    alike, unlike = ((pod("q", {**APP, "revision": each}), "a") for each in "21")
    assert put(pod("p", {**APP, "revision": "2"}, **anti), THREE[:1], alike).node == "a"
    assert not put(pod("p", {**APP, "revision": "2"}, **anti), THREE[:1], unlike).node
