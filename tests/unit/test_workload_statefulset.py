"""StatefulSets: in which order pods are made, ended and replaced; their names, claims and revisions; the status."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import times
from trainshed.cluster.controllers.workloads.revisions import HASH_LABEL
from trainshed.cluster.controllers.workloads.statefulset import Observed, decide
from trainshed.kube.meta.objects import labels_of, name_of
from trainshed.kube.meta.ownership import controller_reference
from trainshed.kube.meta.plan import Adopt, Create, Delete, Patch, Plan
from trainshed.kube.meta.resources import CONTROLLERREVISIONS, PERSISTENTVOLUMECLAIMS, PODS

NOW = 1_700_000_000.0
DATA = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}


def make_set(replicas: int = 3, *, image: str = "db:1", status: Any = None, **spec: Any) -> Any:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "ns", "uid": "set-uid", "generation": 2},
        "spec": {
            "replicas": replicas,
            "serviceName": "db-svc",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "db", "image": image}]},
            },
            **spec,
        },
        "status": status or {},
    }


class World:
    """A set and what its plans made of the cluster; pods become ready when the test says so."""

    def __init__(self, stateful_set: Any) -> None:
        self.set = stateful_set
        self.pods: dict[str, Any] = {}
        self.claims: dict[str, Any] = {}
        self.revisions: dict[str, Any] = {}
        self.most_missing = 0

    def plan(self) -> Plan:
        return decide(
            Observed(self.set, list(self.pods.values()), list(self.revisions.values()), self.claims, NOW)
        )

    def step(self) -> Plan:
        """Decide and do it; what is deleted is gone at once."""
        plan = self.plan()
        if plan.status is not None:
            self.set["status"] = plan.status
        kinds = {PODS: self.pods, PERSISTENTVOLUMECLAIMS: self.claims, CONTROLLERREVISIONS: self.revisions}
        for action in plan.actions:
            there = kinds[action.resource]
            if isinstance(action, Create):
                name = name_of(action.object)
                assert name not in there, f"{name} is made twice"
                metadata = {**action.object["metadata"], "uid": f"uid-{name}", "resourceVersion": "1"}
                there[name] = copy.deepcopy({**action.object, "metadata": metadata})
            elif isinstance(action, Delete):
                del there[action.name]
            elif isinstance(action, Patch):
                changed = there[name_of(action.object)]
                changed["metadata"].update(action.patch.get("metadata", {}))
                changed.update({key: value for key, value in action.patch.items() if key != "metadata"})
        return plan

    def ready(self, *names: str) -> None:
        for name in names:
            condition = {"type": "Ready", "status": "True"}
            self.pods[name]["status"] = {"phase": "Running", "conditions": [condition]}

    def settle(self) -> None:
        """Step until nothing changes, every pod becoming ready."""
        for _ in range(100):
            before = msgspec.json.encode([self.pods, self.set["status"]])
            self.step()
            self.ready(*self.pods)
            if msgspec.json.encode([self.pods, self.set["status"]]) == before:
                return
        raise AssertionError("does not settle")


def made(plan: Plan) -> list[str]:
    return [name_of(a.object) for a in plan.actions if isinstance(a, Create) and a.resource == PODS]


def ended(plan: Plan) -> list[str]:
    return [a.name for a in plan.actions if isinstance(a, Delete) and a.resource == PODS]


def test_pods_are_made_one_after_the_other_with_names_of_their_own() -> None:
    world = World(make_set())
    assert made(world.step()) == ["db-0"]
    assert world.step().actions == ()
    world.ready("db-0")
    assert made(world.step()) == ["db-1"]
    pod = world.pods["db-0"]
    assert pod["spec"]["hostname"] == "db-0" and pod["spec"]["subdomain"] == "db-svc"
    labels = labels_of(pod)
    assert labels["statefulset.kubernetes.io/pod-name"] == "db-0"
    assert labels["apps.kubernetes.io/pod-index"] == "0"
    assert labels[HASH_LABEL] == next(iter(world.revisions))


def test_parallel_pods_wait_for_none() -> None:
    world = World(make_set(podManagementPolicy="Parallel"))
    assert made(world.step()) == ["db-0", "db-1", "db-2"]
    world.set["spec"]["replicas"] = 0
    assert ended(world.step()) == ["db-2", "db-1", "db-0"]


def test_ordinals_may_start_elsewhere() -> None:
    world = World(make_set(2, ordinals={"start": 5}, podManagementPolicy="Parallel"))
    assert made(world.step()) == ["db-5", "db-6"]


def test_scaling_down_takes_the_highest_first_and_waits_for_the_others() -> None:
    world = World(make_set())
    world.settle()
    world.set["spec"]["replicas"] = 1
    world.pods["db-0"]["status"] = {"phase": "Running"}
    assert world.plan().actions == ()
    world.ready("db-0")
    assert ended(world.step()) == ["db-2"] and ended(world.step()) == ["db-1"]


def test_a_failed_pod_is_replaced() -> None:
    world = World(make_set())
    world.settle()
    world.pods["db-1"]["status"] = {"phase": "Failed"}
    assert ended(world.step()) == ["db-1"]
    assert made(world.step()) == ["db-1"]


def test_each_pod_has_claims_that_outlive_it() -> None:
    world = World(make_set(2, volumeClaimTemplates=[DATA]))
    world.settle()
    assert sorted(world.claims) == ["data-db-0", "data-db-1"]
    assert world.claims["data-db-0"]["metadata"]["labels"] == {"app": "db"}
    assert world.pods["db-1"]["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}
    ]
    world.set["spec"]["replicas"] = 0
    world.settle()
    assert sorted(world.claims) == ["data-db-0", "data-db-1"]


def test_claims_that_go_with_the_set_are_owned_by_it() -> None:
    world = World(
        make_set(
            1,
            volumeClaimTemplates=[DATA],
            persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete"},
        )
    )
    world.step()
    (owner,) = world.claims["data-db-0"]["metadata"]["ownerReferences"]
    assert owner["uid"] == "set-uid" and owner["controller"] and owner["blockOwnerDeletion"]


def test_a_rollout_replaces_from_the_highest_each_once_the_last_is_ready() -> None:
    world = World(make_set())
    world.settle()
    old = world.set["status"]["currentRevision"]
    world.set["spec"]["template"]["spec"]["containers"][0]["image"] = "db:2"
    assert ended(world.step()) == ["db-2"]
    assert world.set["status"]["currentRevision"] == old != world.set["status"]["updateRevision"]
    assert made(world.step()) == ["db-2"]
    assert world.step().actions == ()
    world.ready("db-2")
    assert ended(world.step()) == ["db-1"]
    world.settle()
    assert {p["spec"]["containers"][0]["image"] for p in world.pods.values()} == {"db:2"}
    status = world.set["status"]
    assert status["currentRevision"] == status["updateRevision"] != old
    assert status["updatedReplicas"] == status["currentReplicas"] == status["availableReplicas"] == 3


def test_a_partition_keeps_the_lower_pods_as_they_were() -> None:
    world = World(make_set())
    world.settle()
    world.set["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    world.set["spec"]["template"]["spec"]["containers"][0]["image"] = "db:2"
    world.settle()

    def images() -> list[str]:
        return [world.pods[name]["spec"]["containers"][0]["image"] for name in sorted(world.pods)]

    assert images() == ["db:1", "db:1", "db:2"]
    del world.pods["db-0"]
    world.settle()
    assert images() == ["db:1", "db:1", "db:2"], "a pod that died is made as it was"


def test_on_delete_replaces_nothing_by_itself() -> None:
    world = World(make_set(1, updateStrategy={"type": "OnDelete"}))
    world.settle()
    world.set["spec"]["template"]["spec"]["containers"][0]["image"] = "db:2"
    assert ended(world.step()) == []
    del world.pods["db-0"]
    world.settle()
    assert world.pods["db-0"]["spec"]["containers"][0]["image"] == "db:2"


def test_going_back_gives_the_old_revision_the_highest_number() -> None:
    world = World(make_set(1))
    world.settle()
    (first,) = world.revisions
    for image in ("db:2", "db:1"):
        world.set["spec"]["template"]["spec"]["containers"][0]["image"] = image
        world.settle()
    assert len(world.revisions) == 2
    assert world.revisions[first]["revision"] == 3


def test_old_revisions_are_forgotten() -> None:
    world = World(make_set(1, revisionHistoryLimit=2))
    for number in range(6):
        world.set["spec"]["template"]["spec"]["containers"][0]["image"] = f"db:{number}"
        world.settle()
    assert sorted(r["revision"] for r in world.revisions.values()) == [4, 5, 6]


def test_only_pods_of_its_names_are_adopted() -> None:
    world = World(make_set(1))
    for name in ("db-0", "db-x", "other-0"):
        metadata = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"}
        world.pods[name] = {"metadata": {**metadata, "labels": {"app": "db"}}, "spec": {}}
    (action,) = world.plan().actions
    assert isinstance(action, Patch) and name_of(action.object) == "db-0"
    assert action.patch["metadata"]["ownerReferences"] == [controller_reference(world.set)]


SCALES: st.SearchStrategy[Sequence[tuple[int, str]]] = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(["db:1", "db:2", "db:3"])), min_size=1, max_size=5
)


@times(0.6)
@given(SCALES, st.sampled_from(["OrderedReady", "Parallel"]))
def test_whatever_is_asked_for_in_turn_it_ends_as_asked(
    asked: Sequence[tuple[int, str]], policy: str
) -> None:
    world = World(make_set(1, podManagementPolicy=policy, volumeClaimTemplates=[DATA]))
    for replicas, image in asked:
        world.set["spec"]["replicas"] = replicas
        world.set["spec"]["template"]["spec"]["containers"][0]["image"] = image
        world.step()
    world.settle()
    replicas, image = asked[-1]
    assert sorted(world.pods) == [f"db-{n}" for n in range(replicas)]
    assert {p["spec"]["containers"][0]["image"] for p in world.pods.values()} <= {image}
    assert world.plan().actions == ()


@pytest.mark.parametrize("seconds", [30])
def test_available_is_ready_for_so_long(seconds: int) -> None:
    world = World(make_set(2, minReadySeconds=seconds))
    world.step()
    since = "2023-11-14T22:13:10Z"  # ten seconds ago
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    world.pods["db-0"]["status"] = {"phase": "Running", "conditions": [condition]}
    plan = world.plan()
    assert plan.actions == () and plan.requeue_after == 20


def owner_of(claim: Any) -> list[str]:
    return [f"{owner['kind']}/{owner['name']}" for owner in claim["metadata"].get("ownerReferences") or ()]


@pytest.mark.parametrize(
    ("scaled", "deleted", "stays", "goes"),
    [
        ("Retain", "Retain", [], []),
        ("Retain", "Delete", ["StatefulSet/db"], ["StatefulSet/db"]),
        ("Delete", "Retain", [], ["Pod/db-1"]),
        ("Delete", "Delete", ["StatefulSet/db"], ["Pod/db-1"]),
    ],
)
def test_the_retention_policy_says_who_owns_claims(
    scaled: str, deleted: str, stays: list[str], goes: list[str]
) -> None:
    """Recorded with kube-controller-manager 1.33: the claim of a pod that goes is the pod's, which ends with it."""
    world = World(make_set(2, volumeClaimTemplates=[DATA]))
    world.settle()
    policy = {"whenScaled": scaled, "whenDeleted": deleted}
    world.set["spec"]["persistentVolumeClaimRetentionPolicy"] = policy
    plan = world.step()
    assert [owner_of(world.claims[f"data-db-{n}"]) for n in range(2)] == [stays, stays]
    told = [event.message for action in plan.actions for event in action.succeeded()]
    assert told == ([f"update Pod db-{n} in StatefulSet db successful" for n in range(2)] if stays else [])
    assert not world.step().actions, "and that is that"
    world.set["spec"]["replicas"] = 1
    world.step()
    assert owner_of(world.claims["data-db-0"]) == stays
    assert owner_of(world.claims["data-db-1"]) == goes


def test_no_pod_is_made_with_a_claim_that_goes_with_the_one_before() -> None:
    world = World(make_set(2, volumeClaimTemplates=[DATA]))
    world.settle()
    world.set["spec"]["persistentVolumeClaimRetentionPolicy"] = {"whenScaled": "Delete"}
    world.set["spec"]["replicas"] = 1
    world.settle()
    assert owner_of(world.claims["data-db-1"]) == ["Pod/db-1"] and "db-1" not in world.pods
    world.set["spec"]["replicas"] = 2
    world.settle()
    assert "db-1" not in world.pods, "the garbage collector has not come yet"
    del world.claims["data-db-1"]
    world.settle()
    assert "db-1" in world.pods and owner_of(world.claims["data-db-1"]) == []


def test_a_claim_that_somebody_else_controls_is_theirs() -> None:
    policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
    world = World(make_set(1, volumeClaimTemplates=[DATA], persistentVolumeClaimRetentionPolicy=policy))
    world.settle()
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x", "controller": True}
    world.claims["data-db-0"]["metadata"]["ownerReferences"].append(theirs)
    world.settle()
    assert owner_of(world.claims["data-db-0"]) == ["ConfigMap/x"]


def test_revisions_are_labelled_annotated_and_adopted_as_by_kubernetes() -> None:
    world = World(make_set(1))
    world.set["metadata"]["annotations"] = {"kubernetes.io/change-cause": "first"}
    world.settle()
    (revision,) = world.revisions.values()
    digest = name_of(revision).removeprefix("db-")
    assert labels_of(revision) == {"app": "db", "controller.kubernetes.io/hash": digest}
    assert revision["metadata"]["annotations"] == {"kubernetes.io/change-cause": "first"}
    assert world.pods["db-0"]["metadata"]["generateName"] == "db-"
    del revision["metadata"]["ownerReferences"]
    (adopt,) = world.plan().actions
    assert isinstance(adopt, Adopt) and adopt.resource is CONTROLLERREVISIONS
    world.step()
    assert len(world.revisions) == 1 and not world.plan().actions


def test_pods_that_end_count_as_ready_and_who_replaces_by_hand_is_never_done() -> None:
    """Recorded with kube-controller-manager 1.33."""
    world = World(make_set(2, updateStrategy={"type": "OnDelete"}))
    world.settle()
    first = world.set["status"]["currentRevision"]
    world.pods["db-1"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = world.plan().status
    assert status is not None
    assert (status["readyReplicas"], status["availableReplicas"], status["updatedReplicas"]) == (2, 2, 1)
    world.set["spec"]["template"]["spec"]["containers"][0]["image"] = "db:2"
    for name in ("db-0", "db-1"):
        del world.pods[name]
        world.settle()
    status = world.set["status"]
    assert status["currentRevision"] == first != status["updateRevision"] and "currentReplicas" not in status
