"""Where pods go, and the words that say why one waits."""

from decimal import Decimal
from typing import Any

import pytest

from trainshed.cluster.scheduler.placement import place
from trainshed.cluster.scheduler.predicates import tolerated
from trainshed.cluster.scheduler.requests import pod_requests, used_by


def make_node(
    name: str = "laptop", *, labels: dict[str, str] | None = None, taints: Any = (), **offer: str
) -> Any:
    allocatable = {
        "cpu": "4",
        "memory": "8Gi",
        "pods": "110",
        **{k.replace("_", "."): v for k, v in offer.items()},
    }
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def make_pod(*, requests: dict[str, str] | None = None, **spec: Any) -> Any:
    container = {"name": "pytorch", "image": "x", "resources": {"requests": requests or {}}}
    return {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [container], **spec},
        "status": {},
    }


def test_a_gpu_request_without_a_gpu_says_so_and_what_the_node_has() -> None:
    placement = place(make_pod(requests={"nvidia.com/gpu": "1"}), [make_node()], {}, {})
    assert placement.node == ""
    assert placement.why_not == (
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. "
        "(nvidia.com/gpu: requested 1, most free on one node 0)"
    )


def test_pods_on_the_node_use_it_up() -> None:
    running = make_pod(requests={"cpu": "3"})
    placement = place(make_pod(requests={"cpu": "2"}), [make_node()], {"laptop": used_by([running])}, {})
    assert "Insufficient cpu" in placement.why_not
    finished = {**running, "status": {"phase": "Succeeded"}}
    assert (
        place(make_pod(requests={"cpu": "2"}), [make_node()], {"laptop": used_by([finished])}, {}).node
        == "laptop"
    )


def test_the_least_loaded_node_wins() -> None:
    nodes = [make_node("a"), make_node("b")]
    assert (
        place(
            make_pod(requests={"cpu": "1"}), nodes, {"a": used_by([make_pod(requests={"cpu": "1"})])}, {}
        ).node
        == "b"
    )


TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], False),
        ([{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}], True),
        ([{"key": "nvidia.com/gpu", "operator": "Exists"}], True),
        ([{"operator": "Exists"}], True),
        ([{"key": "nvidia.com/gpu", "value": "true"}], True),
        ([{"key": "nvidia.com/gpu", "value": "false"}], False),
        ([{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}], False),
        ([{"key": "other", "operator": "Exists"}], False),
    ],
)
def test_tolerations(tolerations: list[dict[str, str]], expected: bool) -> None:
    assert tolerated(TAINT, tolerations) is expected


def test_an_untolerated_taint_is_named() -> None:
    placement = place(make_pod(), [make_node(taints=[TAINT])], {}, {})
    assert (
        placement.why_not
        == "0/1 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: true}."
    )


IN_ZONE_A = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
        }
    }
}


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        ({"affinity": IN_ZONE_A}, True),
    ],
)
def test_selector_and_affinity(spec: Any, fits: bool) -> None:
    assert bool(place(make_pod(**spec), [make_node(labels={"zone": "a"})], {}, {}).node) is fits


CLAIMED = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({}, 'persistentvolumeclaim "data" not found'),
        (
            {"data": {"metadata": {}, "status": {"phase": "Pending"}}},
            "unbound immediate PersistentVolumeClaims",
        ),
        ({"data": {"metadata": {}, "status": {"phase": "Lost"}}}, "bound to non-existent persistentvolume"),
        ({"data": {"metadata": {}, "status": {"phase": "Bound"}}}, ""),
    ],
)
def test_claims_keep_a_pod_waiting(claims: Any, why: str) -> None:
    placement = place(make_pod(**CLAIMED), [make_node()], {}, claims)
    assert why in placement.why_not
    assert bool(placement.node) is not bool(why)


def test_init_containers_count_by_their_peak_only() -> None:
    pod = make_pod(requests={"cpu": "1"})
    pod["spec"]["initContainers"] = [
        {"name": "a", "resources": {"requests": {"cpu": "3"}}},
        {"name": "b", "resources": {"limits": {"cpu": "2"}}},
    ]
    assert pod_requests(pod)["cpu"] == Decimal(3)
