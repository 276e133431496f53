"""Taints of nodes by their conditions, as kube-controller-manager 1.33 sets them."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.cluster.controllers.nodestate import Observed, decide
from trainshed.kube.meta.times import format_time

NOW = 1_700_000_000.0


def node(taints: Any = None, **conditions: str) -> Any:
    found = [{"type": kind, "status": status} for kind, status in conditions.items()]
    return {"metadata": {"name": "n"}, "spec": {"taints": taints}, "status": {"conditions": found}}


def taints(one: Any) -> Any:
    """Return what the node is to have, None where nothing changes."""
    actions = decide(Observed(one, False, NOW)).actions
    return (
        [(t["key"].removeprefix("node.kubernetes.io/"), t["effect"]) for a in actions for t in a.taints]
        if actions
        else None
    )


@pytest.mark.parametrize(
    ("condition", "taint"),
    [
        ("MemoryPressure", "memory-pressure"),
        ("DiskPressure", "disk-pressure"),
        ("PIDPressure", "pid-pressure"),
        ("NetworkUnavailable", "network-unavailable"),
    ],
)
def test_what_is_short_on_a_node_keeps_new_pods_away(condition: str, taint: str) -> None:
    assert taints(node(Ready="True", **{condition: "True"})) == [(taint, "NoSchedule")]
    there = [{"key": f"node.kubernetes.io/{taint}", "effect": "NoSchedule", "timeAdded": format_time(NOW)}]
    assert taints(node(there, Ready="True", **{condition: "True"})) is None
    assert taints(node(there, Ready="True", **{condition: "False"})) == []
    assert taints(node(Ready="True", **{condition: "Unknown"})) is None


def test_a_node_that_somebody_makes_has_no_taint_before_it_says_anything() -> None:
    assert taints(node()) is None
    both = taints(node(Ready="False", MemoryPressure="True"))
    assert both == [
        ("not-ready", "NoSchedule"),
        ("not-ready", "NoExecute"),
        ("memory-pressure", "NoSchedule"),
    ]
