"""Where pods go, and the words that say why one waits."""

from decimal import Decimal
from typing import Any

import pytest

from trainshed.cluster.scheduler import placement
from trainshed.cluster.scheduler.placement import Bind, Observed, Placement, _readable, decide
from trainshed.cluster.scheduler.requests import pod_needs, pod_requests
from trainshed.cluster.scheduler.scheduledpods import ScheduledPod
from trainshed.cluster.scheduler.snapshot import Snapshot
from trainshed.kube.meta.nodeselection import tolerated


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


def place(pod: Any, nodes: Any, used: Any, claims: Any) -> Placement:
    """Place the pod on nodes without pods that matter."""
    snapshot = Snapshot(nodes, used, {("default", name): claim for name, claim in claims.items()})
    return placement.place(pod, snapshot)


def test_a_claim_for_one_pod_only_keeps_the_second_one_waiting() -> None:
    """In the words of the scheduler's volume restrictions."""
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    first, second = make_pod(volumes=volumes), make_pod(volumes=volumes)
    first["metadata"]["uid"] = "first"

    def placed(mode: str, holds: bool) -> Placement:
        claim = {"metadata": {}, "spec": {"accessModes": [mode]}, "status": {"phase": "Bound"}}
        snapshot = Snapshot([make_node()], {}, {("default", "data"): claim})
        if holds:
            snapshot.scheduled.put(ScheduledPod.of(first, "laptop", ("", "default", "first")))
        found = placement.place(second, snapshot)
        snapshot.scheduled.remove("first")
        assert placement.place(second, snapshot).node == "laptop", "once that has gone"
        return found

    assert placed("ReadWriteOncePod", holds=False).node == "laptop"
    assert placed("ReadWriteOnce", holds=True).node == "laptop"
    assert placed("ReadWriteOncePod", holds=True).why_not == (
        "0/1 nodes are available: 1 node has pod using PersistentVolumeClaim with the same name and "
        "ReadWriteOncePod access mode. "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_a_gpu_request_without_a_gpu_says_so_and_what_the_node_has() -> None:
    found = place(make_pod(requests={"nvidia.com/gpu": "1"}), [make_node()], {}, {})
    assert found.node == ""
    assert found.why_not == (
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling. "
        "(nvidia.com/gpu: requested 1, most free on one node 0)"
    )


def test_pods_on_the_node_use_it_up() -> None:
    running = make_pod(requests={"cpu": "3"})
    found = place(make_pod(requests={"cpu": "2"}), [make_node()], {"laptop": pod_requests(running)}, {})
    assert "Insufficient cpu" in found.why_not


@pytest.mark.parametrize(
    ("held", "port", "node"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, "b"),
        ({"hostPort": 80}, {"hostPort": 80, "hostIP": "0.0.0.0"}, "b"),
        ({"hostPort": 80}, {"hostPort": 81}, "a"),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, "a"),
        ({"hostPort": 80}, {"hostPort": 80, "hostIP": "127.0.0.2"}, "a"),
        ({"hostPort": 80}, {}, "a"),
        ({}, {"hostPort": 80}, "a"),
    ],
)
def test_a_port_of_the_machine_is_had_once(held: Any, port: Any, node: str) -> None:
    nodes = [make_node("a"), make_node("b", taints=[{"key": "k", "effect": "NoSchedule"}])]
    holder, pod = make_pod(), make_pod()
    for one, ports in ((holder, held), (pod, port)):
        one["spec"]["containers"][0]["ports"] = [{"containerPort": 8080, **ports}]
    used = {"a": pod_needs(holder)}
    found = place(pod, nodes, used, {})
    assert found.node == ("a" if node == "a" else "")
    if not found.node:
        assert "1 node(s) didn't have free ports for the requested pod ports" in found.why_not
    pod["spec"]["hostNetwork"] = True
    assert place(pod, nodes, used, {}).node == "a", "on the machine's network nothing is opened for it"


def test_the_least_loaded_node_wins() -> None:
    nodes = [make_node("a"), make_node("b")]
    pod = make_pod(requests={"cpu": "1"})
    assert place(pod, nodes, {"a": pod_requests(pod)}, {}).node == "b"


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
    found = place(make_pod(), [make_node(taints=[TAINT])], {}, {})
    assert found.why_not.startswith(
        "0/1 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: true}. preemption: "
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


def affinity(operator: str, *values: str, field: bool = False) -> Any:
    expression = {"key": "metadata.name" if field else "memory", "operator": operator, "values": list(values)}
    terms = [{"matchFields" if field else "matchExpressions": [expression]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


@pytest.mark.parametrize(
    ("rule", "label", "fits"),
    [
        (affinity("In", "32", "64"), "64", True),
        (affinity("In", "32", "64"), "16", False),
        (affinity("NotIn", "32", "64"), "64", False),
        (affinity("NotIn", "32", "64"), "16", True),
        (affinity("NotIn", "32"), None, True),
        (affinity("Exists"), "16", True),
        (affinity("Exists"), None, False),
        (affinity("DoesNotExist"), "16", False),
        (affinity("DoesNotExist"), None, True),
        (affinity("Gt", "32"), "33", True),
        (affinity("Gt", "32"), "32", False),
        (affinity("Gt", "32"), "31", False),
        (affinity("Lt", "32"), "31", True),
        (affinity("Lt", "32"), "32", False),
        (affinity("Lt", "32"), "33", False),
        (affinity("Gt", "32"), None, False),
        (affinity("Gt", "32"), "much", False),
        (affinity("Lt"), "1", False),
        (affinity("In", "laptop", field=True), None, True),
        (affinity("NotIn", "laptop", field=True), None, False),
        (affinity("Unheard", "32"), "32", False),
    ],
)
def test_each_operator_of_node_affinity(rule: Any, label: str | None, fits: bool) -> None:
    """core/v1 NodeSelectorRequirement: a label that is missing is not in any list, and is no number."""
    labels = {} if label is None else {"memory": label}
    found = place(make_pod(**rule), [make_node(labels=labels)], {}, {})
    assert (found.node == "laptop") is fits
    if not fits:
        assert "1 node(s) didn't match Pod's node affinity/selector" in found.why_not


def test_one_term_of_several_is_enough_and_all_of_its_expressions_are_needed() -> None:
    both = {
        "matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["a"]},
            {"key": "memory", "operator": "Exists"},
        ]
    }
    other = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [both, other]}}
    pod = make_pod(affinity={"nodeAffinity": required})
    fits = {
        str(labels): bool(place(pod, [make_node(labels=labels)], {}, {}).node)
        for labels in ({"zone": "a"}, {"zone": "a", "memory": "1"}, {"zone": "b"}, {})
    }
    assert list(fits.values()) == [False, True, True, False]


@pytest.mark.parametrize(
    ("conditions", "fits"),
    [
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([{"type": "MemoryPressure", "status": "True"}], False),
        ([], False),
        (None, False),
    ],
)
def test_only_a_node_that_says_it_is_ready_gets_pods(conditions: Any, fits: bool) -> None:
    node = make_node()
    node["status"]["conditions"] = conditions
    found = place(make_pod(), [node], {}, {})
    assert bool(found.node) is fits
    assert fits or found.why_not.startswith("0/1 nodes are available: 1 node(s) were not ready. ")


def observed(pod: Any, *nodes: Any) -> Observed:
    return Observed(pod, Snapshot(nodes, {}), now=1_700_000_000.0)


def test_a_plan_binds_and_tells_it() -> None:
    plan = decide(observed(make_pod(), make_node()))
    assert [(type(action), action.node) for action in plan.actions if isinstance(action, Bind)] == [
        (Bind, "laptop")
    ]
    assert plan.status is None
    assert [(event.type, event.reason) for event in plan.events] == [("Normal", "Scheduled")]
    assert plan.events[0].message == "Successfully assigned default/p to laptop"


def test_a_waiting_pod_says_why_once_and_since_when() -> None:
    pod = make_pod(requests={"cpu": "64"})
    plan = decide(observed(pod, make_node()))
    assert plan.status is not None and not plan.actions
    condition = plan.status["conditions"][0]
    assert condition["reason"] == "Unschedulable" and condition["message"] == plan.events[0].message
    assert condition["lastTransitionTime"] == "2023-11-14T22:13:20Z"
    pod["status"] = plan.status
    assert decide(observed(pod, make_node())).status is None, "the same words are not written again"
    condition["lastTransitionTime"] = "2023-01-01T00:00:00Z"
    other = decide(observed(pod)).status
    assert other is not None
    assert other["conditions"][0]["message"] == "no nodes available to schedule pods"
    assert other["conditions"][0]["lastTransitionTime"] == "2023-01-01T00:00:00Z", "it waits since then"


def test_a_gated_pod_waits_whatever_there_is_and_without_an_event() -> None:
    plan = decide(observed(make_pod(schedulingGates=[{"name": "quota"}]), make_node()))
    assert plan.status is not None and not plan.actions and not plan.events
    assert plan.status["conditions"][0]["reason"] == "SchedulingGated"


CLAIMED = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}


def test_a_pod_whose_own_claim_is_not_made_yet_waits_for_that() -> None:
    found = place(
        make_pod(volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]), [make_node()], {}, {}
    )
    assert found.why_not == (
        "0/1 nodes are available: waiting for ephemeral volume controller to create the persistentvolumeclaim "
        '"p-v". preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.'
    )
    never = make_pod(**CLAIMED, preemptionPolicy="Never")
    assert place(never, [make_node()], {}, {}).why_not.endswith(
        "not found. preemption: not eligible due to preemptionPolicy=Never."
    )
    assert place(never, [], {}, {}).why_not == "no nodes available to schedule pods"


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
    found = place(make_pod(**CLAIMED), [make_node()], {}, claims)
    assert why in found.why_not
    assert bool(found.node) is not bool(why)


def test_init_containers_count_by_their_peak_only() -> None:
    pod = make_pod(requests={"cpu": "1"})
    pod["spec"]["initContainers"] = [
        {"name": "a", "resources": {"requests": {"cpu": "3"}}},
        {"name": "b", "resources": {"limits": {"cpu": "2"}}},
    ]
    assert pod_requests(pod)["cpu"] == Decimal(3)


def test_what_a_pod_was_given_by_its_node_counts_where_that_is_more() -> None:
    pod = make_pod(requests={"cpu": "1"})
    name = pod["spec"]["containers"][0]["name"]
    pod["status"] = {"containerStatuses": [{"name": name, "resources": {"requests": {"cpu": "2"}}}]}
    assert pod_requests(pod)["cpu"] == Decimal(2)


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("memory", 900 * 2**30, "900Gi"),
        ("memory", 25198923776, "23.5Gi"),
        ("memory", 512, "512"),
        ("ephemeral-storage", 3 * 2**20, "3Mi"),
        ("cpu", 2, "2"),
    ],
)
def test_amounts_are_for_people(name: str, amount: int, text: str) -> None:
    assert _readable(name, Decimal(amount)) == text


@pytest.mark.parametrize(("there", "fits"), [("0", False), ("1", True)])
def test_a_pod_is_one_of_those_that_a_node_takes(there: str, fits: bool) -> None:
    node = place(make_pod(), [make_node(pods=there)], {}, {}).node
    assert (node == "laptop") is fits
