"""DaemonSets: which nodes get a pod, how a rollout goes from node to node, and the counts."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.cluster.controllers.workloads import revisions
from trainshed.cluster.controllers.workloads.daemonset import Observed, decide, node_of
from trainshed.cluster.controllers.workloads.revisions import HASH_LABEL, hash_of
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.plan import Adopt, Create, Delete, Plan

NOW = 1_700_000_000.0
STAMP = "2023-11-14T20:00:00Z"
CONTROLLER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}


def daemon_set(image: str = "a:1", pod: Object | None = None, **spec: Any) -> Object:
    template = {
        "metadata": {"labels": {"app": "d"}},
        "spec": {"containers": [{"name": "c", "image": image}], **(pod or {})},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d", "namespace": "ns", "uid": "u", "generation": 3},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template, **spec},
    }


def node(name: str, *taints: tuple[str, str], **labels: str) -> Object:
    made = [{"key": key, "effect": effect} for key, effect in taints]
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": made}}


NODES = [node("n1"), node("n2"), node("n3")]


def digest(held: Object) -> str:
    return hash_of(revisions.history(held, [], []).current)


def pod(on: str, of: Object, *, ready: bool = True, name: str = "", phase: str = "Running") -> Object:
    labels = {"app": "d", HASH_LABEL: digest(of)}
    return {
        "metadata": {
            "name": name or f"d-{on}",
            "namespace": "ns",
            "uid": name or on,
            "labels": labels,
            "creationTimestamp": STAMP,
            "ownerReferences": [CONTROLLER],
        },
        "spec": {"nodeName": on},
        "status": {
            "phase": phase,
            "conditions": [
                {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": STAMP}
            ],
        },
    }


def step(held: Object, pods: list[Object], nodes: list[Object] = NODES) -> Plan:
    return decide(Observed(held, pods, [], nodes, NOW))


def made(plan: Plan) -> list[str]:
    pods = [a.object for a in plan.actions if isinstance(a, Create) and a.object["kind"] == "Pod"]
    return [node_of(found) for found in pods]


def ended(plan: Plan) -> list[str]:
    return [action.name for action in plan.actions if isinstance(action, Delete)]


def test_every_node_gets_a_pod_that_only_it_can_take() -> None:
    plan = step(daemon_set(), [])
    assert made(plan) == ["n1", "n2", "n3"]
    (first, *_) = [a.object for a in plan.actions if isinstance(a, Create) and a.object["kind"] == "Pod"]
    assert first["metadata"]["labels"] == {
        "app": "d",
        HASH_LABEL: digest(daemon_set()),
        "pod-template-generation": "0",
    }
    keys = {toleration["key"] for toleration in first["spec"]["tolerations"]}
    assert "node.kubernetes.io/unschedulable" in keys and "node.kubernetes.io/not-ready" in keys


@pytest.mark.parametrize(
    ("spec", "nodes"),
    [
        ({}, ["plain", "cordoned"]),
        ({"nodeSelector": {"disk": "ssd"}}, []),
        ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, ["plain", "tainted", "cordoned"]),
        ({"nodeSelector": {"disk": "ssd"}, "tolerations": [{"operator": "Exists"}]}, ["fast"]),
    ],
)
def test_which_nodes_it_is_for(spec: Object, nodes: list[str]) -> None:
    there = [
        node("plain"),
        node("tainted", ("gpu", "NoSchedule")),
        node("fast", ("own", "NoExecute"), disk="ssd"),
        node("cordoned", ("node.kubernetes.io/unschedulable", "NoSchedule")),
    ]
    assert sorted(made(step(daemon_set(pod=spec), [], there))) == sorted(nodes)


def test_a_pod_stays_where_a_taint_only_keeps_new_ones_away() -> None:
    held = daemon_set()
    for effect, gone in (("NoSchedule", []), ("NoExecute", ["d-n1"])):
        plan = step(held, [pod("n1", held)], [node("n1", ("gpu", effect))])
        assert ended(plan) == gone and made(plan) == []
        assert plan.status is not None and plan.status["numberMisscheduled"] == 1


def test_pods_of_lost_nodes_and_second_pods_go() -> None:
    held = daemon_set()
    twice = [pod("n1", held, name="a"), pod("n1", held, name="b")]
    twice[1]["metadata"]["creationTimestamp"] = "2023-11-14T21:00:00Z"
    plan = step(held, [*twice, pod("gone", held)], [node("n1")])
    assert sorted(ended(plan)) == ["b", "d-gone"]


def test_a_pod_that_failed_is_told_of_and_ended_then_made_again() -> None:
    held = daemon_set()
    plan = step(held, [pod("n1", held, phase="Failed")], [node("n1")])
    assert ended(plan) == ["d-n1"] and made(plan) == []
    assert [(event.type, event.reason) for event in plan.events] == [("Warning", "FailedDaemonPod")]
    assert made(step(held, [], [node("n1")])) == ["n1"]


def rolling(**values: Any) -> Object:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": values}}


def test_a_rollout_goes_node_by_node() -> None:
    old, new = daemon_set("a:1"), daemon_set("a:2", **rolling(maxUnavailable=1))
    pods = [pod(n, old) for n in ("n1", "n2", "n3")]
    assert ended(step(new, pods)) == ["d-n1"]
    assert ended(step(new, pods[1:])) == [], "one is missing already"
    assert made(step(new, pods[1:])) == ["n1"]
    waiting = [pod("n1", new, ready=False), *pods[1:]]
    assert ended(step(new, waiting)) == []
    assert ended(step(new, [pod("n1", new), *pods[1:]])) == ["d-n2"]
    two = daemon_set("a:2", **rolling(maxUnavailable="67%"))
    assert ended(step(two, pods)) == ["d-n1", "d-n2", "d-n3"]


def test_old_pods_that_do_not_work_are_replaced_at_once() -> None:
    old, new = daemon_set("a:1"), daemon_set("a:2", **rolling(maxUnavailable=1))
    pods = [pod("n1", old, ready=False), pod("n2", old, ready=False), pod("n3", old)]
    assert ended(step(new, pods)) == ["d-n1", "d-n2"]


def test_with_a_surge_the_old_pod_goes_when_the_new_one_works() -> None:
    old, new = daemon_set("a:1"), daemon_set("a:2", **rolling(maxSurge=1, maxUnavailable=0))
    pods = [pod(n, old) for n in ("n1", "n2")]
    nodes = NODES[:2]
    first = step(new, pods, nodes)
    assert (ended(first), made(first)) == ([], ["n1"])
    starting = [*pods, pod("n1", new, ready=False, name="d-new")]
    second = step(new, starting, nodes)
    assert (ended(second), made(second)) == ([], [])
    third = step(new, [*pods, pod("n1", new, name="d-new")], nodes)
    assert (ended(third), made(third)) == (["d-n1"], ["n2"])


def test_on_delete_leaves_old_pods() -> None:
    new = daemon_set("a:2", updateStrategy={"type": "OnDelete"})
    assert ended(step(new, [pod("n1", daemon_set("a:1"))], NODES[:1])) == []


def test_the_counts() -> None:
    old, new = daemon_set("a:1"), daemon_set("a:2", updateStrategy={"type": "OnDelete"})
    plan = step(new, [pod("n1", old), pod("n2", new, ready=False)])
    assert plan.status == {
        "observedGeneration": 3,
        "currentNumberScheduled": 2,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 3,
        "numberReady": 1,
        "updatedNumberScheduled": 1,
        "numberAvailable": 1,
        "numberUnavailable": 2,
    }


def test_of_two_pods_on_a_node_the_older_speaks_for_it() -> None:
    """Recorded with kube-controller-manager 1.33 in the middle of a surge: nothing is updated yet."""
    held = daemon_set("a:2", updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}})
    new = pod("n1", held, ready=False, name="new")
    new["metadata"]["creationTimestamp"] = "2023-11-14T21:00:00Z"
    plan = step(held, [pod("n1", daemon_set("a:1")), new], NODES[:1])
    assert plan.status is not None
    assert plan.status["numberReady"] == plan.status["numberAvailable"] == 1
    assert "updatedNumberScheduled" not in plan.status
    waiting = pod("n1", held, ready=False, name="new")
    del waiting["spec"]["nodeName"]
    waiting["metadata"]["creationTimestamp"] = "2023-11-14T19:00:00Z"
    plan = step(held, [pod("n1", daemon_set("a:1")), waiting], NODES[:1])
    assert plan.status is not None and plan.status["numberReady"] == 1, "nor while it has no node"


def test_a_revision_has_the_annotations_of_its_set_and_is_adopted() -> None:
    """Recorded with kube-controller-manager 1.33."""
    held = daemon_set()
    held["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": "1"}
    made_now = revisions.history(held, [], []).current
    assert made_now["metadata"]["annotations"] == held["metadata"]["annotations"]
    assert made_now["metadata"]["labels"] == {"app": "d", HASH_LABEL: hash_of(made_now)}
    orphan = {**made_now, "metadata": {**made_now["metadata"], "resourceVersion": "1"}}
    del orphan["metadata"]["ownerReferences"]
    (adopt,) = decide(Observed(held, [], [orphan], NODES, NOW)).actions
    assert isinstance(adopt, Adopt) and adopt.object is orphan
