"""batch/v1 Jobs: failure policies, indexes that fail each by itself, success policies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.test_workload_job import NOW, STAMP, decide, make_job, make_pod, untracked
from trainshed.cluster.controllers.workloads.job_pods import (
    index_of,
)
from trainshed.kube.meta.plan import Create, Delete, Plan


def failed(
    uid: str, code: int = 1, *, index: int | None = None, ends: str = STAMP, **annotations: str
) -> Any:
    pod = make_pod(uid, "Failed", index=index)
    ended = {"exitCode": code, "finishedAt": ends}
    pod["status"]["containerStatuses"] = [{"name": "c", "state": {"terminated": ended}}]
    pod["metadata"]["ownerReferences"][0]["uid"] = "job-uid"
    names = {"failures": "job-index-failure-count", "ignored": "job-index-ignored-failure-count"}
    notes = {f"batch.kubernetes.io/{names[name]}": value for name, value in annotations.items()}
    pod["metadata"]["annotations"] = {**pod["metadata"].get("annotations", {}), **notes}
    return pod


def condition(plan: Plan, name: str) -> tuple[str, str] | None:
    assert plan.status is not None
    found = [c for c in plan.status.get("conditions") or () if c["type"] == name and c["status"] == "True"]
    return (found[0]["reason"], found[0]["message"]) if found else None


def rules(*found: Any) -> Any:
    return {"podFailurePolicy": {"rules": list(found)}, "podReplacementPolicy": "Failed"}


CODES = {"operator": "In", "values": [3, 42]}
DISRUPTED = {"type": "DisruptionTarget", "status": "True"}


def test_a_failure_that_fails_the_job() -> None:
    job = make_job(**rules({"action": "FailJob", "onExitCodes": CODES}))
    pods = [failed("a", 42), make_pod("b")]
    plan = decide(job, pods, NOW)
    assert condition(plan, "FailureTarget") == (
        "PodFailurePolicy",
        "Container c for pod ns/a failed with exit code 42 matching FailJob rule at index 0",
    )
    assert condition(plan, "Failed") is None, "the other pod has to go first"
    assert [action.name for action in plan.actions if isinstance(action, Delete)] == ["b"]


def test_a_failure_that_no_rule_names_counts() -> None:
    job = make_job(**rules({"action": "FailJob", "onExitCodes": CODES}))
    plan = decide(job, [failed("a", 1)], NOW + 3600)
    assert condition(plan, "FailureTarget") is None
    assert plan.status is not None and plan.status["uncountedTerminatedPods"] == {"failed": ["a"]}


def test_a_failure_that_is_ignored_costs_nothing() -> None:
    job = make_job(backoffLimit=0, **rules({"action": "Ignore", "onPodConditions": [DISRUPTED]}))
    pod = failed("a", 137)
    pod["status"]["conditions"] = [DISRUPTED]
    plan = decide(job, [pod], NOW + 3600)
    assert plan.status is not None
    assert plan.status["uncountedTerminatedPods"] == {} and condition(plan, "FailureTarget") is None
    assert [p["metadata"]["name"] for p in untracked(plan)] == ["a"]
    assert [action for action in plan.actions if isinstance(action, Create)], "it is replaced"


def test_the_first_rule_that_matches_decides() -> None:
    both = {"operator": "NotIn", "values": [0]}
    job = make_job(
        **rules({"action": "Count", "onExitCodes": CODES}, {"action": "FailJob", "onExitCodes": both})
    )
    assert condition(decide(job, [failed("a", 3)], NOW), "FailureTarget") is None
    assert condition(decide(job, [failed("a", 4)], NOW), "FailureTarget") is not None


def per_index(**spec: Any) -> Any:
    spec = {
        "completionMode": "Indexed",
        "completions": 2,
        "parallelism": 2,
        "backoffLimitPerIndex": 1,
        **spec,
    }
    return make_job(backoffLimit=2147483647, **spec)


def attempts(plan: Plan) -> list[tuple[int | None, str]]:
    name = "batch.kubernetes.io/job-index-failure-count"
    made = [action.object for action in plan.actions if isinstance(action, Create)]
    return [(index_of(pod), pod["metadata"]["annotations"].get(name, "")) for pod in made]


def test_an_index_is_tried_again_and_its_count_goes_on() -> None:
    assert attempts(decide(per_index(), [], NOW)) == [(0, "0"), (1, "0")]
    first = failed("a", index=0, failures="0")
    running = make_pod("b", index=1)
    early = decide(per_index(), [first, running], NOW + 4)
    assert attempts(early) == [] and early.requeue_after == 6 and untracked(early) == []
    late = decide(per_index(), [first, running], NOW + 11)
    assert attempts(late) == [(0, "1")]
    assert untracked(late) == [], "it keeps its count until there is a successor"
    second = make_pod("c", index=0)
    second["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] = "1"
    after = decide(per_index(), [first, second, running], NOW + 12)
    assert [pod["metadata"]["name"] for pod in untracked(after)] == ["a"] and attempts(after) == []


def test_an_index_that_failed_too_often_is_given_up_and_the_job_goes_on_without_it() -> None:
    lost = failed("a", index=0, failures="1")
    plan = decide(per_index(), [lost, make_pod("b", index=1)], NOW + 3600)
    assert plan.status is not None and plan.status["failedIndexes"] == "0"
    assert attempts(plan) == [] and condition(plan, "FailureTarget") is None
    assert [pod["metadata"]["name"] for pod in untracked(plan)] == ["a"]
    done = decide(per_index(), [lost, make_pod("b", "Succeeded", index=1)], NOW + 3600)
    assert condition(done, "FailureTarget") == ("FailedIndexes", "Job has failed indexes")


def test_too_many_failed_indexes_end_the_job() -> None:
    job = per_index(completions=3, parallelism=3, backoffLimitPerIndex=0, maxFailedIndexes=0)
    plan = decide(job, [failed("a", index=0, failures="0"), make_pod("b", index=1)], NOW)
    assert condition(plan, "FailureTarget") == (
        "MaxFailedIndexesExceeded",
        "Job has exceeded the specified maximal number of failed indexes",
    )


def test_indexes_whose_pods_are_deleted_because_the_job_fails_have_not_failed() -> None:
    job = per_index(completions=4, parallelism=4, backoffLimitPerIndex=0, maxFailedIndexes=1)
    lost = [failed(uid, index=index, failures="0") for index, uid in enumerate("ab")]
    others = [make_pod("c", index=2), make_pod("d", index=3)]
    plan = decide(job, [*lost, *others], NOW)
    assert plan.status is not None and plan.status["failedIndexes"] == "0,1"
    job["status"] = plan.status
    for pod, phase in zip(others, ("Running", "Failed"), strict=True):
        pod["metadata"]["deletionTimestamp"] = STAMP
        pod["status"]["phase"] = phase
    after = decide(job, [*lost, *others], NOW + 1)
    assert after.status is not None and after.status["failedIndexes"] == "0,1"


def test_indexes_whose_pods_go_because_the_job_is_suspended_have_not_failed() -> None:
    job = per_index(backoffLimitPerIndex=0, suspend=True)
    going = make_pod("a", index=0, tracked=False)
    going["metadata"]["deletionTimestamp"] = STAMP
    plan = decide(job, [going], NOW)
    assert plan.status is not None and plan.status["failedIndexes"] == ""
    assert condition(plan, "FailureTarget") is None


def test_a_rule_gives_an_index_up_at_once_and_another_lets_it_try_for_free() -> None:
    job = per_index(backoffLimitPerIndex=5, **rules({"action": "FailIndex", "onExitCodes": CODES}))
    plan = decide(job, [failed("a", 3, index=0, failures="0"), make_pod("b", index=1)], NOW)
    assert plan.status is not None and plan.status["failedIndexes"] == "0"
    job = per_index(backoffLimitPerIndex=0, **rules({"action": "Ignore", "onExitCodes": CODES}))
    plan = decide(job, [failed("a", 3, index=0, failures="0"), make_pod("b", index=1)], NOW + 3600)
    assert plan.status is not None and plan.status["failedIndexes"] == "" and attempts(plan) == [(0, "0")]


def test_a_failed_pod_that_waits_is_counted_when_the_job_ends() -> None:
    job = per_index(activeDeadlineSeconds=5)
    job["status"] = {"startTime": STAMP}
    plan = decide(job, [failed("a", index=0, failures="0")], NOW + 6)
    assert condition(plan, "FailureTarget") is not None and plan.status is not None
    assert plan.status["uncountedTerminatedPods"] == {"failed": ["a"]}
    assert [pod["metadata"]["name"] for pod in untracked(plan)] == ["a"]


@pytest.mark.parametrize(
    ("rule", "done", "met"),
    [
        ({"succeededIndexes": "0"}, {0}, True),
        ({"succeededIndexes": "0"}, {1}, False),
        ({"succeededCount": 1}, {2}, True),
        ({"succeededIndexes": "0-1", "succeededCount": 1}, {2}, False),
        ({"succeededIndexes": "0-1", "succeededCount": 1}, {1}, True),
    ],
)
def test_a_success_policy_ends_the_job_early(rule: Any, done: set[int], met: bool) -> None:
    job = make_job(completionMode="Indexed", completions=3, parallelism=3, successPolicy={"rules": [rule]})
    pods = [make_pod(f"p{i}", "Succeeded" if i in done else "Running", index=i) for i in range(3)]
    plan = decide(job, pods, NOW)
    assert (condition(plan, "SuccessCriteriaMet") == ("SuccessPolicy", "Matched rules at index 0")) is met
    if met:
        assert len([a for a in plan.actions if isinstance(a, Delete)]) == 2
        job["status"] = plan.status
        rest = [make_pod(f"p{i}", "Succeeded", index=i, tracked=False) for i in done]
        over = decide(job, rest, NOW + 1)
        assert condition(over, "Complete") == ("SuccessPolicy", "Matched rules at index 0")
