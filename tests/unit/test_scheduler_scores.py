"""Which node is better, where what a pod would rather have is weighed against something else.

The weights are those of kube-scheduler's default profile: soft taints 3, preferred node affinity 2, affinity to pods 2,
spreading 2, free resources 1; each view gives 0 to 100.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from trainshed.cluster.scheduler.interpodaffinity import INDIFFERENT, Affinities
from trainshed.cluster.scheduler.scores import best
from trainshed.cluster.scheduler.topologyspread import ANYWHERE, Constraint, Spread
from trainshed.kube.meta.objects import Object

NEEDS = {"cpu": Decimal(0)}


def node(
    name: str, soft_taints: int = 0, used: int = 0, **labels: str
) -> tuple[Object, Mapping[str, Decimal]]:
    """Return a node of ten cores, and what is used of them."""
    taints = [{"key": f"k{number}", "effect": "PreferNoSchedule"} for number in range(soft_taints)]
    made = {
        "metadata": {"name": name, "labels": {"name": name, **labels}},
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": "10"}},
    }
    return made, {"cpu": Decimal(used)}


def preferring(**weights: int) -> Object:
    """Return a pod that would rather be on some nodes."""
    terms = [
        {
            "weight": weight,
            "preference": {"matchExpressions": [{"key": "name", "operator": "In", "values": [name]}]},
        }
        for name, weight in weights.items()
    ]
    return {
        "spec": {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}
    }


def chosen(
    *nodes: Any, pod: Object | None = None, affinities: Affinities = INDIFFERENT, spread: Spread = ANYWHERE
) -> str:
    return best(pod or {"spec": {}}, NEEDS, nodes, affinities, spread)


def test_without_a_preference_the_emptiest_node_is_best_and_of_equals_the_first() -> None:
    assert chosen(node("a", used=2), node("b", used=1)) == "b"
    assert chosen(node("b"), node("a")) == "a"


def test_a_soft_taint_weighs_more_than_what_the_pod_prefers() -> None:
    assert chosen(node("a", soft_taints=1), node("b"), pod=preferring(a=100)) == "b"


def test_one_soft_taint_of_two_weighs_half() -> None:
    assert chosen(node("a", soft_taints=2), node("b", soft_taints=1), pod=preferring(a=100)) == "a"


def test_weights_count_in_proportion_to_the_largest() -> None:
    assert chosen(node("a"), node("b", soft_taints=1), pod=preferring(a=50, b=100)) == "a"
    assert chosen(node("a"), node("b", used=9), pod=preferring(a=50, b=100)) == "b"
    assert chosen(node("a"), node("b", used=9), pod=preferring(a=60, b=100)) == "a"


def test_what_is_free_decides_among_nodes_that_are_preferred_alike() -> None:
    assert chosen(node("a", used=9), node("b", used=1), pod=preferring(a=1, b=1)) == "b"


def test_pods_that_are_liked_count_from_the_least_to_the_most() -> None:
    liked = Affinities(scores={("name", "a"): 10, ("name", "b"): 20, ("name", "c"): 30})
    assert chosen(node("a"), node("b"), node("c"), affinities=liked) == "c"
    assert chosen(node("a"), node("b"), node("c", soft_taints=1), affinities=liked) == "b"


def test_a_node_without_the_label_is_worse_than_a_crowded_one() -> None:
    constraint = Constraint("zone", 1, Counter({"x": 1, "y": 2}), 1, itself=True)
    soft = Spread(soft=(constraint,))
    crowded, unknown = node("b", used=9, zone="y"), node("d")
    assert chosen(crowded, unknown, spread=soft) == "b"
    assert chosen(node("a", soft_taints=1, zone="x"), node("b", zone="y"), unknown, spread=soft) == "b"
    assert chosen(node("a", used=9, zone="x"), node("b", zone="y"), unknown, spread=soft) == "a"
