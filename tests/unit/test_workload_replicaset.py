"""ReplicaSets: which pods are adopted, made and ended, and what the status says."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.cluster.controllers.workloads.replicafailure import conditions_of, with_failure
from trainshed.cluster.controllers.workloads.replicaset import Observed, decide
from trainshed.kube.meta.objects import name_of
from trainshed.kube.meta.ownership import controller_reference
from trainshed.kube.meta.plan import Action, Adopt, Create, Delete, Patch, Plan

NOW = 1_700_000_000.0
STAMP = "2023-11-14T22:13:20Z"


def make_set(replicas: int = 2, **spec: Any) -> Any:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "ns", "uid": "web-uid", "generation": 3},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}},
            **spec,
        },
    }


def make_pod(
    name: str, *, owned: bool = True, app: str = "web", ready_since: str = "", **metadata: Any
) -> Any:
    owners = [controller_reference(make_set())] if owned else []
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": ready_since}] if ready_since else []
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": name,
            "resourceVersion": "7",
            "creationTimestamp": STAMP,
            "labels": {"app": app},
            "ownerReferences": owners,
            **metadata,
        },
        "spec": {},
        "status": {"phase": "Running", "conditions": ready},
    }


def plan_for(replica_set: Any, *pods: Any, now: float = NOW) -> Plan:
    return decide(Observed(replica_set, pods, now))


def named(plan: Plan, sort: type[Action]) -> list[str]:
    """Return whom the actions of one sort are about; a new pod has no name yet."""
    return [
        action.name if isinstance(action, Delete) else name_of(action.object)
        for action in plan.actions
        if type(action) is sort and isinstance(action, Create | Patch | Delete)
    ]


def test_missing_pods_are_made_and_said_so() -> None:
    plan = plan_for(make_set(3), make_pod("a"))
    assert named(plan, Create) == ["", ""] and len(plan.actions) == 2
    made = plan.actions[0]
    assert isinstance(made, Create)
    assert made.object["metadata"]["generateName"] == "web-"
    assert made.object["metadata"]["ownerReferences"][0]["uid"] == "web-uid"
    assert made.succeeded("web-x")[0].message == "Created pod: web-x"
    assert made.failed("quota")[0].message == "Error creating: quota"
    assert plan.status == {"replicas": 1, "fullyLabeledReplicas": 1, "observedGeneration": 3}


def test_surplus_pods_go_the_unready_first_and_finished_ones_do_not_count() -> None:
    over = make_pod("over")
    over["status"]["phase"] = "Failed"
    plan = plan_for(make_set(1), make_pod("ready", ready_since=STAMP), make_pod("unready"), over)
    assert named(plan, Delete) == ["unready"] and len(plan.actions) == 1
    assert plan.actions[0].succeeded("unready")[0].message == "Deleted pod: unready"


def test_as_many_as_asked_for_is_nothing_to_do() -> None:
    ending = make_pod("ending", deletionTimestamp=STAMP)
    plan = plan_for(make_set(1), make_pod("a"), ending)
    assert plan.actions == () and plan.requeue_after is None


def test_pods_are_adopted_and_released_before_anything_is_counted() -> None:
    stranger, orphan = make_pod("stranger", app="other"), make_pod("orphan", owned=False)
    plan = plan_for(make_set(5), make_pod("a"), stranger, orphan)
    assert named(plan, Patch) == ["stranger"] and named(plan, Adopt) == ["orphan"]
    assert len(plan.actions) == 2 and plan.status is None, "decided anew when the mirror shows it"
    assert named(plan_for(make_set(5), stranger), Patch) == ["stranger"]
    assert named(plan_for(make_set(5), orphan), Adopt) == ["orphan"]
    release, adopt = plan.actions
    assert isinstance(release, Patch) and isinstance(adopt, Adopt)
    assert release.patch == {"metadata": {"ownerReferences": None, "resourceVersion": "7"}}
    assert adopt.patch["metadata"]["ownerReferences"][0]["uid"] == "web-uid"


@pytest.mark.parametrize(
    ("after", "available", "wait"), [(0.0, None, 10.0), (9.0, None, 1.0), (10.0, 1, None), (99.0, 1, None)]
)
def test_a_pod_is_available_when_it_was_ready_for_long_enough(
    after: float, available: int | None, wait: float | None
) -> None:
    pod = make_pod("a", ready_since=STAMP)
    plan = plan_for(make_set(1, minReadySeconds=10), pod, now=NOW + after)
    assert plan.status is not None
    assert plan.status.get("availableReplicas") == available and plan.requeue_after == wait


def test_a_failure_stays_in_its_first_words_until_nothing_is_left_to_do() -> None:
    """Recorded with kube-controller-manager 1.33, a quota of one pod and a ReplicaSet of three."""
    replica_set = {"status": {"replicas": 1}}
    status = with_failure(replica_set, 2, 'pods "a" is forbidden', 0.0)
    assert status == {
        "replicas": 1,
        "conditions": [
            {
                "type": "ReplicaFailure",
                "status": "True",
                "lastTransitionTime": "1970-01-01T00:00:00Z",
                "reason": "FailedCreate",
                "message": 'pods "a" is forbidden',
            }
        ],
    }
    told = {"status": status}
    assert with_failure(told, 2, "another", 1.0) is None
    assert conditions_of(told, 2) == status["conditions"] and conditions_of(told, 0) == []
    deleting = with_failure(replica_set, -1, "no", 0.0)
    assert deleting is not None and deleting["conditions"][0]["reason"] == "FailedDelete"
