"""batch/v1 Jobs: decisions, and a simulation that crashes between any two writes."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import times
from trainshed.cluster.controllers.workloads.job import Observed
from trainshed.cluster.controllers.workloads.job import decide as decide_observed
from trainshed.cluster.controllers.workloads.job_pods import (
    TRACKING,
    backoff,
    format_indexes,
    index_of,
    is_tracked,
    new_pod,
    parse_indexes,
)
from trainshed.kube.meta.plan import Create, Delete, Event, Patch, Plan

NOW = 1_700_000_000.0
STAMP = "2023-11-14T22:13:20Z"


def make_job(**spec: Any) -> Any:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job", "namespace": "ns", "uid": "job-uid"},
        "spec": {"parallelism": 1, "backoffLimit": 6, "template": template, **spec},
        "status": {},
    }


def make_pod(uid: str, phase: str = "Running", *, index: int | None = None, tracked: bool = True) -> Any:
    pod = new_pod(make_job(), index)
    pod["metadata"].update(name=uid, uid=uid, creationTimestamp=STAMP, resourceVersion="1")
    if not tracked:
        pod["metadata"]["finalizers"] = []
    pod["status"] = {"phase": phase}
    return pod


def decide(job: Any, pods: list[Any], now: float) -> Plan:
    return decide_observed(Observed(job, pods, now))


def untracked(plan: Plan) -> list[Any]:
    return [action.object for action in plan.actions if isinstance(action, Patch)]


def deleted(plan: Plan) -> list[str]:
    """Return the uids of what is deleted."""
    return [action.uid for action in plan.actions if isinstance(action, Delete)]


def created(plan: Plan) -> list[int | None]:
    """Return the completion indexes of new pods."""
    return [index_of(action.object) for action in plan.actions if isinstance(action, Create)]


def status_of(plan: Plan) -> Any:
    assert plan.status is not None
    return plan.status


def true(plan: Plan) -> dict[str, str]:
    return {c["type"]: c["reason"] for c in status_of(plan).get("conditions") or () if c["status"] == "True"}


def test_pods_up_to_parallelism_and_never_more_than_are_missing() -> None:
    plan = decide(make_job(completions=5, parallelism=3), [], NOW)
    assert created(plan) == [None, None, None]
    assert status_of(plan)["startTime"] == STAMP and status_of(plan)["active"] == 3
    job = make_job(completions=5, parallelism=3)
    job["status"] = {"succeeded": 4, "startTime": STAMP}
    assert created(decide(job, [], NOW)) == [None]


def test_a_finished_pod_is_counted_in_three_steps() -> None:
    job = make_job(completions=2, parallelism=1)
    pod = make_pod("p", "Succeeded")
    plan = decide(job, [pod], NOW)
    assert status_of(plan)["uncountedTerminatedPods"] == {"succeeded": ["p"]}
    assert "succeeded" not in status_of(plan) and untracked(plan) == [pod]
    job["status"] = status_of(plan)
    again = decide(job, [pod], NOW)
    assert status_of(again)["uncountedTerminatedPods"] == {"succeeded": ["p"]}, (
        "not yet let go: not yet counted"
    )
    assert "succeeded" not in status_of(again) and untracked(again) == [pod]
    counted = decide(job, [make_pod("p", "Succeeded", tracked=False)], NOW)
    assert status_of(counted)["succeeded"] == 1 and status_of(counted)["uncountedTerminatedPods"] == {}
    gone = decide(job, [], NOW)
    assert status_of(gone)["succeeded"] == 1


@pytest.mark.parametrize(
    ("spec", "pods", "reason"),
    [
        ({"backoffLimit": 1}, [make_pod("a", "Failed"), make_pod("b", "Failed")], "BackoffLimitExceeded"),
        ({"backoffLimit": 2}, [make_pod("a", "Failed"), make_pod("b", "Failed")], None),
        ({"activeDeadlineSeconds": 60}, [make_pod("a")], "DeadlineExceeded"),
        ({"activeDeadlineSeconds": 61}, [make_pod("a")], None),
        ({"completions": 1}, [make_pod("a", "Succeeded")], None),
    ],
)
def test_failure(spec: Any, pods: list[Any], reason: str | None) -> None:
    job = make_job(**{"completions": 3, **spec})
    job["status"] = {"startTime": "2023-11-14T22:12:20Z"}
    plan = decide(job, pods, NOW)
    assert true(plan).get("FailureTarget") == reason
    assert "Failed" not in true(plan), "only when all pods are counted and gone"


def test_restarts_in_place_count_too() -> None:
    job = make_job(completions=1, backoffLimit=3)
    job["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    pod = make_pod("a")
    pod["status"]["containerStatuses"] = [{"restartCount": 3}]
    assert true(decide(job, [pod], NOW)) == {"FailureTarget": "BackoffLimitExceeded"}
    pod["status"]["containerStatuses"] = [{"restartCount": 2}]
    assert true(decide(job, [pod], NOW)) == {}


def test_replacement_waits_longer_after_each_failure() -> None:
    def failed(uid: str, ended: str) -> Any:
        pod = make_pod(uid, "Failed", tracked=False)
        pod["status"]["containerStatuses"] = [{"state": {"terminated": {"finishedAt": ended}}}]
        return pod

    one, two = failed("a", "2023-11-14T22:13:00Z"), failed("b", "2023-11-14T22:13:15Z")
    assert backoff([one], NOW) == 0.0
    assert backoff([two], NOW) == 5.0
    assert backoff([one, two], NOW) == 15.0
    assert backoff([one, {**two, "status": {**two["status"], "phase": "Succeeded"}}], NOW) == 0.0
    assert backoff([two, {**two, "status": {**two["status"], "phase": "Succeeded"}}], NOW) == 0.0, "no later"
    plan = decide(make_job(completions=3), [one, two], NOW)
    assert created(plan) == [] and plan.requeue_after == 15.0


def test_indexed_pods() -> None:
    job = make_job(completions=4, parallelism=3, completionMode="Indexed")
    done, running, twin = (
        make_pod("a", "Succeeded", index=1),
        make_pod("b", index=0),
        make_pod("c", "Pending", index=0),
    )
    plan = decide(job, [done, running, twin], NOW)
    assert status_of(plan)["completedIndexes"] == "1" and status_of(plan)["succeeded"] == 1
    assert deleted(plan) in (["b"], ["c"]), "one of the twins goes"
    assert created(plan) == [2, 3]
    pod = new_pod(job, 2)
    assert pod["metadata"]["generateName"] == "job-2-" and pod["spec"]["hostname"] == "job-2"
    assert pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "2"
    assert TRACKING in pod["metadata"]["finalizers"]


def test_a_work_queue_ends_after_a_success_when_its_pods_have() -> None:
    job = make_job(parallelism=2)
    running, done = make_pod("a"), make_pod("b", "Succeeded")
    plan = decide(job, [running, done], NOW)
    assert not created(plan) and not true(plan)
    assert true(decide(job, [make_pod("a", "Succeeded"), done], NOW)) == {
        "SuccessCriteriaMet": "CompletionsReached"
    }


def test_policy_failed_waits_for_the_end_of_a_pod() -> None:
    pod = make_pod("a")
    pod["metadata"].update(deletionTimestamp=STAMP, deletionGracePeriodSeconds=30)
    assert untracked(decide(make_job(completions=1), [pod], NOW)) == [pod]
    waiting = decide(make_job(completions=1, podReplacementPolicy="Failed"), [pod], NOW)
    assert not untracked(waiting) and not created(waiting) and status_of(waiting)["terminating"] == 1
    pod["metadata"]["deletionGracePeriodSeconds"] = 0
    assert untracked(decide(make_job(completions=1, podReplacementPolicy="Failed"), [pod], NOW)) == [pod]


def test_suspend_and_resume() -> None:
    job = make_job(completions=1, suspend=True)
    pod = make_pod("a")
    job["status"] = {"startTime": STAMP}
    plan = decide(job, [pod], NOW)
    assert deleted(plan) == ["a"] and untracked(plan) == [pod] and status_of(plan)["startTime"] == STAMP
    assert plan.events == (Event("Normal", "Suspended", "Job suspended"),)
    job["status"], job["spec"]["suspend"] = status_of(plan), False
    resumed = decide(job, [], NOW + 60)
    assert status_of(resumed)["conditions"][0]["status"] == "False" and created(resumed) == [None]
    assert status_of(resumed)["startTime"] == "2023-11-14T22:14:20Z"
    job["spec"]["activeDeadlineSeconds"] = 30
    resumed = decide(job, [], NOW + 60)
    assert true(resumed) == {} and resumed.requeue_after == 30, (
        "the time before it was suspended is not counted"
    )
    assert "startTime" not in status_of(decide(make_job(completions=1, suspend=True), [], NOW))


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
@pytest.mark.parametrize(("ttl", "after"), [(10, 10.0), (10, 11.0), (0, 0.0)])
def test_a_job_is_deleted_when_its_time_to_live_is_over(kind: str, ttl: int, after: float) -> None:
    """Zero means at once (batch/v1 JobSpec), and the last moment counts as over."""
    job = make_job(completions=1, ttlSecondsAfterFinished=ttl)
    job["status"] = {"conditions": [{"type": kind, "status": "True", "lastTransitionTime": STAMP}]}
    plan = decide(job, [], NOW + after)
    assert deleted(plan) == ["job-uid"] and len(plan.actions) == 1
    assert plan.requeue_after is None and plan.status is None
    assert isinstance(plan.actions[0], Delete) and plan.actions[0].propagation == "Foreground"


def test_a_job_stays_until_its_time_to_live_is_over() -> None:
    job = make_job(completions=1, ttlSecondsAfterFinished=10)
    job["status"] = {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": STAMP}]}
    early = decide(job, [], NOW + 4)
    assert not early.actions and early.requeue_after == 6.0
    del job["spec"]["ttlSecondsAfterFinished"]
    forever = decide(job, [], NOW + 1e9)
    assert not forever.actions and forever.requeue_after is None


@pytest.mark.parametrize(
    ("limit", "failed", "restarts", "over"),
    [
        (0, 0, 0, False),
        (0, 1, 0, True),
        (0, 0, 1, True),
        (1, 1, 0, False),
        (1, 2, 0, True),
        (1, 0, 1, True),
        (3, 3, 2, False),
        (3, 4, 0, True),
        (3, 0, 2, False),
        (3, 0, 3, True),
        (3, 0, 4, True),
    ],
)
def test_the_boundary_of_the_backoff_limit(limit: int, failed: int, restarts: int, over: bool) -> None:
    """As in the Job controller: more failed pods than the limit, or as many restarts in place (at least one)."""
    job = make_job(completions=1, backoffLimit=limit)
    job["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    job["status"] = {"startTime": STAMP, "failed": failed}
    pod = make_pod("a")
    pod["status"]["containerStatuses"] = [{"restartCount": restarts}]
    assert ("FailureTarget" in true(decide(job, [pod], NOW))) is over


def test_pods_that_nobody_counts_are_let_go() -> None:
    """Those of an earlier job of the name, and all of a job that is gone; another controller's are left alone."""
    job, mine, earlier = make_job(completions=1), make_pod("a"), make_pod("b")
    earlier["metadata"]["ownerReferences"][0]["uid"] = "earlier-uid"
    assert untracked(decide(job, [mine, earlier], NOW)) == [earlier]
    assert untracked(decide(None, [mine, earlier], NOW)) == [mine, earlier]
    job["metadata"]["deletionTimestamp"] = STAMP
    assert untracked(decide(job, [mine, earlier], NOW)) == [mine, earlier]
    job["spec"]["managedBy"] = "example.com/other"
    assert decide(job, [mine, earlier], NOW) == Plan()


@given(st.sets(st.integers(0, 40)))
def test_index_ranges_round_trip(indexes: set[int]) -> None:
    assert parse_indexes(format_indexes(indexes)) == indexes


def test_index_ranges() -> None:
    assert format_indexes([5, 1, 2, 3, 7, 8]) == "1-3,5,7,8"
    assert parse_indexes("1-3,x,5,-,9-") == {1, 2, 3, 5, 9}


class Crash(Exception):
    """The controller dies here."""


class Simulation:
    """A world that carries plans out write by write and lets pods end."""

    def __init__(self, choose: random.Random, job: Any) -> None:
        self.choose, self.job = choose, job
        self.pods: dict[str, Any] = {}
        self.succeeded = self.failed = self.made = 0

    def write(self) -> None:
        if self.choose.random() < 0.2:
            raise Crash

    def reconcile(self, now: float) -> None:
        plan = decide(copy.deepcopy(self.job), copy.deepcopy(list(self.pods.values())), now)
        self.write()
        self.job["status"] = status_of(plan)
        for pod in untracked(plan):
            self.write()
            self.pods[pod["metadata"]["uid"]]["metadata"]["finalizers"] = []
            self.collect()
        for uid in deleted(plan):
            self.write()
            found = self.pods[uid]["metadata"]
            found.update(deletionTimestamp=STAMP, deletionGracePeriodSeconds=0)
            self.collect()
        for index in created(plan):
            self.write()
            self.made += 1
            pod = make_pod(f"p{self.made}", index=index)
            self.pods[pod["metadata"]["uid"]] = pod

    def collect(self) -> None:
        """Deleted pods without finalizers are gone."""
        self.pods = {
            uid: pod
            for uid, pod in self.pods.items()
            if is_tracked(pod) or not pod["metadata"].get("deletionTimestamp")
        }

    def world(self, fail: bool) -> None:
        for pod in self.pods.values():
            running = pod["status"]["phase"] == "Running" and is_tracked(pod)
            if running and not pod["metadata"].get("deletionTimestamp") and self.choose.random() < 0.5:
                failing = fail and self.choose.random() < 0.5
                pod["status"]["phase"] = "Failed" if failing else "Succeeded"
                self.failed += failing
                self.succeeded += not failing
            elif self.choose.random() < 0.1 and not running:
                pod["metadata"].update(deletionTimestamp=STAMP, deletionGracePeriodSeconds=0)
        self.collect()


@times(1.5)
@given(st.integers(0, 2**32), st.booleans(), st.integers(1, 4), st.integers(1, 3))
def test_every_pod_counts_once_whatever_crashes(
    seed: int, indexed: bool, completions: int, parallelism: int
) -> None:
    mode = "Indexed" if indexed else "NonIndexed"
    job = make_job(completions=completions, parallelism=parallelism, completionMode=mode, backoffLimit=100)
    simulation = Simulation(random.Random(seed), job)
    for step in range(200):
        try:
            simulation.reconcile(NOW + 1000 * step)
        except Crash:
            continue
        simulation.world(fail=step < 6)
        finished = [c["type"] for c in job["status"].get("conditions") or ()]
        if "Complete" in finished:
            break
    else:
        raise AssertionError(f"not complete: {job['status']}")
    assert finished == ["SuccessCriteriaMet", "Complete"]
    assert job["status"]["succeeded"] == completions == simulation.succeeded
    assert job["status"].get("failed", 0) == simulation.failed
    assert "active" not in job["status"]


def test_a_job_with_nothing_to_do_has_started_all_the_same() -> None:
    """Recorded with kube-controller-manager 1.33, `completions: 0`."""
    status = decide(make_job(completions=0), [], NOW).status
    assert status is not None and status["startTime"] == STAMP
    assert [condition["type"] for condition in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]


def test_the_index_of_a_pod_is_read_from_its_label() -> None:
    """As since Kubernetes 1.32; the annotation is there, too."""
    pod = new_pod(make_job(completionMode="Indexed"), 3)
    (variable,) = pod["spec"]["containers"][0]["env"]
    path = variable["valueFrom"]["fieldRef"]["fieldPath"]
    assert path == "metadata.labels['batch.kubernetes.io/job-completion-index']"
    assert pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "3"
